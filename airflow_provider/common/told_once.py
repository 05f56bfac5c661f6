"""The former path of :mod:`airflow_provider.integration.told_once`, for DAG files that still import from here."""

from airflow_provider.integration.told_once import told_once as told_once
