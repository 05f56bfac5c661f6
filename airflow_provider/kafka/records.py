"""The former path of :class:`~airflow_provider.records.JobDefinition`, for DAG files that still import it from here."""

from airflow_provider.records import JobDefinition as JobDefinition
