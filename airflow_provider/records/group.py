"""Reads the ``group`` record of any group protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider.assignors.record import GroupRecord
from airflow_provider.declarative_membership.record import DeclarativeRecord, is_declarative
from airflow_provider.membership.record import ClassicRecord


def group_record_from_json(data: Mapping[str, Any]) -> GroupRecord:
    """:raises ValueError: if it is not a group record, naming what is missing or wrong"""
    return DeclarativeRecord.from_json(data) if is_declarative(data) else ClassicRecord.from_json(data)
