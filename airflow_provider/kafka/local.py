"""The former place of :mod:`airflow_provider.broker.local_broker`."""

from airflow_provider.broker.local_broker import LocalBroker as LocalBroker
