"""Kafka topics that are copied into tables, a stream each. No job has to be written.

Each stream copies what is there, and ends. To go on copying, leave out ``every``, and submit a streaming job.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_provider.jobs.kafka_to_table import KafkaToTable
from airflow_provider.task_groups.spark_job import SparkJobTaskGroup

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".kafka_to_table"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108
BROKERS = os.environ.get("COSPARK_EXAMPLE_BROKERS", "localhost:9092")
SPARK = os.environ.get("COSPARK_EXAMPLE_SPARK", "4.1.1")  # the version that the workers have

# [START howto_kafka_to_table]
with DAG("example_kafka_to_table", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    SparkJobTaskGroup(
        "topics",
        entry_point=KafkaToTable,
        config={
            "bootstrap_servers": BROKERS,
            "pattern": "example\\.orders\\..*",
            "format": "parquet",
            "table": f"{FOLDER}/kafka_to_table/{{topic}}",
            "fields": "id LONG, name STRING",
            "every": "",
        },
        group=GROUP,
        kafka_conn_id=KAFKA,
        submit_args={"task_retries": 1},
        worker_args={
            "spark_conf": {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"},
            "checkpoint_root": f"{FOLDER}/kafka_to_table/checkpoints",
        },
    )
# [END howto_kafka_to_table]
