"""What runs tasks behind the port :mod:`airflow_provider.spark.runner`, and watches those that run without it."""
