"""Names the groups that a connection sees, for errors: the name of a group may be mistyped."""

from __future__ import annotations

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.reports.narration import names_in_words


def groups_in_words(kafka_conn_id: str) -> str:
    try:
        groups = SparkGroupHook(kafka_conn_id).groups()
    except TopicError as failed:
        return f"The groups can't be listed: {failed}"
    return f"Groups that connection {kafka_conn_id!r} sees: {names_in_words(groups)}"
