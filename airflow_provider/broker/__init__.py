"""What a local broker is made of; :mod:`airflow_provider.broker.local_broker` is its door."""
