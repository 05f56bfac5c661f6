"""Reads and writes the topics of a group, through :mod:`airflow_provider.kafka.topics.topic_writer`."""
