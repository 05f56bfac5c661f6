"""Which formats of tables a Spark has been given."""

from __future__ import annotations

import pytest

from airflow_provider.spark.local.streaming.sinks import formats_of

DELTA = {
    "spark.sql.extensions": "com.acme.Rules,io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
}


@pytest.mark.parametrize(
    ("conf", "formats"),
    [
        ({}, ["parquet"]),
        ({"spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}, ["parquet"]),
        (DELTA, ["delta"]),
        (ICEBERG, ["iceberg"]),
        (DELTA | ICEBERG, ["delta", "iceberg"]),
    ],
    ids=["none", "an option only", "delta", "iceberg", "both"],
)
def test_the_formats_are_those_that_the_settings_name(conf: dict[str, str], formats: list[str]) -> None:
    assert formats_of(conf) == formats
