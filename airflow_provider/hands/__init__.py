"""What stands behind the port :mod:`airflow_provider.worker.hands`: it runs tasks, watches them, or waits for some."""
