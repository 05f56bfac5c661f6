"""Spark tasks in Airflow, spread over workers by Kafka's group protocol."""

__version__ = "0.1.0"
