"""What the topics of a group are read and written with; :mod:`airflow_provider.topics.group_topics` is their door."""
