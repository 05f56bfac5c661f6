"""Reads the ``group`` record of any group protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.declarative import DeclarativeRecord, is_declarative
from airflow_provider.state.rounds.group_record import GroupRecord


def group_record_from_json(data: Mapping[str, Any]) -> GroupRecord:
    """:raises ValueError: if it is not a group record, naming what is missing or wrong"""
    return DeclarativeRecord.from_json(data) if is_declarative(data) else ClassicRecord.from_json(data)
