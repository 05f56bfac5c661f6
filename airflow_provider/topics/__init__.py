"""Reads and writes the topics of a group, through :mod:`airflow_provider.topics.group_topics`."""
