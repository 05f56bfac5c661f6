"""The values that DAG files hand over, such as a job's definition: the path by which they know them."""

from airflow_provider.state.records import *  # noqa: F403
from airflow_provider.state.records import JobDefinition as JobDefinition
