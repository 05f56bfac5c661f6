"""The peer: a plain Spark script, with one session and one query for each topic that there is when it starts:
``python -m benchmarks.topics.plain SETTINGS.json CONFIG.json``. A new topic needs a restart.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks.topics.tables import session


def main(settings: str, config_file: str) -> None:
    """Copy all topics, until it is killed."""
    from pyspark.sql import functions as F  # noqa: N812

    config: dict[str, Any] = json.loads(Path(config_file).read_text())
    servers, fields = config["bootstrap_servers"], config["fields"]
    spark = session(Path(settings))
    topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=30).topics
    # The newest first: whoever restarts the script because of a new topic waits for this one.
    for topic in sorted((name for name in topics if re.fullmatch(config["pattern"], name)), reverse=True):
        table = config["table"].replace("{topic}", topic.replace(".", "_"))
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        records = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
        parsed = F.from_json(F.col("value").cast("string"), f"STRUCT<{fields}>", {"mode": "FAILFAST"})
        position = (F.col(name).alias(f"kafka_{name}") for name in ("partition", "offset", "timestamp"))
        rows = records.select(parsed.alias("row"), *position).select(
            "row.*", "kafka_partition", "kafka_offset", "kafka_timestamp"
        )
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg")
        writer = rows.writeStream.format("iceberg").trigger(processingTime=config["every"])
        writer.option("checkpointLocation", f"{config['checkpoints']}/{topic}").toTable(table)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
