"""Requests and connections of the group protocol, used through
:mod:`airflow_provider.kafka.group_requests.transport`.
"""
