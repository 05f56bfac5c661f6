"""Versions 0 to 2 of the embedded protocol, by the version that a value names, or that bytes begin with."""

from __future__ import annotations

from airflow_provider.group.classic.wire import Codec, v0, v1
from airflow_provider.values.model import Assignment, WorkerState


def encode_metadata(state: WorkerState) -> bytes:
    return _codec(state.version).encode_metadata(state)


def decode_metadata(data: bytes) -> WorkerState:
    return _codec(int.from_bytes(data[:2], "big", signed=True)).decode_metadata(data)


def encode_assignment(assignment: Assignment) -> bytes:
    return _codec(assignment.version).encode_assignment(assignment)


def decode_assignment(data: bytes) -> Assignment:
    return _codec(int.from_bytes(data[:2], "big", signed=True)).decode_assignment(data)


def _codec(version: int) -> Codec[WorkerState, Assignment]:
    """A later version is read like v2, which differs from v1 by its number only."""
    return v1 if version > 0 else v0
