"""The former place of :mod:`airflow_provider.ledger.records`: DAG files import :class:`JobDefinition` from here."""

from airflow_provider.ledger.records import *
