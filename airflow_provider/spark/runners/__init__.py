"""Runs tasks behind the port :mod:`airflow_provider.spark.runner`, and watches detached queries."""
