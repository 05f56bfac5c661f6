"""The former path of :mod:`airflow_provider.kafka.topics.errors`, for DAG files that still import from here."""

from airflow_provider.kafka.topics.errors import *  # noqa: F403
from airflow_provider.kafka.topics.errors import LastingError as LastingError
from airflow_provider.kafka.topics.errors import PassingError as PassingError
