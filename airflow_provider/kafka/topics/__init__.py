"""What the topics of a group are read and written with; :mod:`airflow_provider.kafka.logs` is their door."""
