"""Requests and connections of the group protocol; :mod:`airflow_provider.kafka.transport` is their door."""
