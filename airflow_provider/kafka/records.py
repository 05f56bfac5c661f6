"""The former place of :class:`~airflow_provider.ledger.records.JobDefinition`, from where DAG files import it."""

from airflow_provider.ledger.records import JobDefinition as JobDefinition
