"""A membership, in any group protocol: :mod:`airflow_provider.group.membership` is the port."""
