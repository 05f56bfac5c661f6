"""What stands behind the port :mod:`airflow_provider.worker.hands.port`: it runs tasks, watches them, or waits for
some.
"""
