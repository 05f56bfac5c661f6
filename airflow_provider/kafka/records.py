"""The former place of :class:`~airflow_provider.records.JobDefinition`, from where DAG files import it."""

from airflow_provider.records import JobDefinition as JobDefinition
