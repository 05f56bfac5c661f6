"""What a local broker is made of; :mod:`airflow_provider.servers.local_broker` is its door."""
