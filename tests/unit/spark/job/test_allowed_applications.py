"""Which applications a worker submits: what lies where it allows, and nothing that only looks as if it did."""

from __future__ import annotations

import pytest

from airflow_provider.spark.attempts.failures import is_retryable
from airflow_provider.spark.job.allowed_applications import (
    NO_APPLICATIONS,
    AllowedApplications,
    ApplicationNotAllowedError,
)

ALLOWED = AllowedApplications(
    ("/opt/apps/", "s3a://lake/apps", "hdfs:///apps", "spark://master:7077", "yarn", "org.apache.iceberg:*:1.10.1")
)


@pytest.mark.parametrize(
    "place",
    [
        "/opt/apps/etl.py",
        "/opt/apps//daily/./etl.py",
        "/opt/apps/with space/größe.py",
        "s3a://lake/apps/etl-1.0.jar",
        "hdfs:///apps/etl.jar",
        "/opt/apps",
    ],
)
def test_what_lies_in_an_allowed_folder_may_be_submitted(place: str) -> None:
    ALLOWED.check_place("application", place)


@pytest.mark.parametrize(
    "place",
    [
        "/opt/appsevil/etl.py",
        "/opt/apps/../evil.py",
        "/opt/apps/daily/../../evil.py",
        "/opt/apps/a.py,/tmp/evil.py",
        "/opt/apps/{a,../evil}.py",
        "/opt/apps/*.py",
        "/opt/apps/%2e%2e/evil.py",
        "/opt/apps/\\evil.py",
        "/opt/apps/a.py\n/tmp/evil.py",
        "/opt/apps/a.py#../evil",
        "/opt/apps/env.tar.gz#env",
        "//opt/apps/a.py",
        "/opt/apps/.. /a.py",
        "file:///opt/apps/etl.py",
        "S3A://lake/apps/etl.jar",
        "s3a://lake.evil/apps/etl.jar",
        "s3a://evil@lake/apps/etl.jar",
        "s3a://lake/other/etl.jar",
        "https://lake/apps/etl.jar",
        "etl.py",
        "--class",
        "",
    ],
)
def test_nothing_else_may(place: str) -> None:
    with pytest.raises(ApplicationNotAllowedError, match=r"^jars: this worker does not allow '") as refused:
        ALLOWED.check_place("jars", place)
    assert not is_retryable(refused.value)


def test_the_error_names_the_setting_that_would_allow_it() -> None:
    with pytest.raises(ApplicationNotAllowedError, match="add its folder to the workers' allowed_applications"):
        NO_APPLICATIONS.check_place("application", "/opt/apps/etl.py")
    with pytest.raises(ApplicationNotAllowedError, match="add it to the workers' allowed_applications"):
        ALLOWED.check_master("master", "spark://other:7077")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,2]", "spark://master:7077", "yarn"])
def test_this_machine_and_named_masters_may_be_used(master: str) -> None:
    ALLOWED.check_master("master", master)


@pytest.mark.parametrize(
    "master", ["spark://master:7077,evil:7077", "spark://evil:7077", "local-cluster[2,1,1]", "k8s://evil", "/opt/apps"]
)
def test_no_other_master_may(master: str) -> None:
    with pytest.raises(ApplicationNotAllowedError, match=r"^master: "):
        ALLOWED.check_master("master", master)


def test_packages_are_allowed_by_their_coordinates() -> None:
    ALLOWED.check_package("packages", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1")
    for other in (
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
        "org.evil:iceberg:1.10.1",
        "org.apache.iceberg:a:1.10.1,org.evil:b:1",
        "org.apache.iceberg:*:1.10.1",
    ):
        with pytest.raises(ApplicationNotAllowedError, match=r"^packages: "):
            ALLOWED.check_package("packages", other)


def test_a_topic_may_say_how_large_an_application_is_but_not_what_code_it_loads() -> None:
    ALLOWED.check_conf(
        "conf",
        {"spark.executor.memory": "2g", "spark.dynamicAllocation.maxExecutors": 3, "spark.sql.ansi.enabled": True},
    )
    ALLOWED.check_conf("conf", {"spark.kubernetes.driver.request.cores": "500m"})
    with pytest.raises(ApplicationNotAllowedError) as refused:
        ALLOWED.check_conf(
            "conf",
            dict.fromkeys(
                [
                    "spark.executor.cores",
                    "spark.jars",
                    "spark.driver.extraJavaOptions",
                    "spark.sql.extensions",
                    "spark.kubernetes.namespace",
                    "fs.s3a.key",
                ],
                "1",
            ),
        )
    named = ["fs.s3a.key", "spark.driver.extraJavaOptions", "spark.jars", "spark.kubernetes.namespace"]
    assert ", ".join(map(repr, [*named, "spark.sql.extensions"])) in str(refused.value)
    assert "properties_file" in str(refused.value)


@pytest.mark.parametrize("value", ["${env:AIRFLOW__CORE__FERNET_KEY}", "${spark.hadoop.fs.s3a.secret.key}", "1\nx=2"])
def test_no_value_reads_the_environment_or_other_settings(value: str) -> None:
    with pytest.raises(ApplicationNotAllowedError, match=r"^conf: .*'spark\.task\.cpus'"):
        ALLOWED.check_conf("conf", {"spark.task.cpus": value})


def test_a_main_class_is_allowed_by_its_name() -> None:
    allowed = AllowedApplications(("/opt/apps", "com.example.etl.*"))
    allowed.check_class("main_class", "com.example.etl.Daily")
    for other in ("org.apache.spark.deploy.SparkSubmit", "com.example.Daily", "Daily"):
        with pytest.raises(ApplicationNotAllowedError, match=r"^main_class: "):
            allowed.check_class("main_class", other)


@pytest.mark.parametrize("part", ["opt/apps", "", "/opt/../apps", "/opt/*", "a:b", "ftp:/x"])
def test_a_part_that_can_not_be_one_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="is neither an absolute folder"):
        AllowedApplications(("/opt/apps", part))
