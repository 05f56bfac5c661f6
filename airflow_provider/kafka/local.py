"""The former path of :mod:`airflow_provider.broker.local_broker`, for code that still imports it from here."""

from airflow_provider.broker.local_broker import LocalBroker as LocalBroker
