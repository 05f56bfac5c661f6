"""The former path of :class:`~airflow_provider.state.records.JobDefinition`, for DAG files that still import it from
here.
"""

from airflow_provider.state.records import JobDefinition as JobDefinition
