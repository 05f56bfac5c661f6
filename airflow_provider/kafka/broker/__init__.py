"""What a local broker is made of; :mod:`airflow_provider.kafka.local` is its door."""
