"""The embedded protocol by the version that a value names, or that bytes begin with."""

from __future__ import annotations

from airflow_provider.protocol.embedded import codec_of_bytes, codec_of_version
from airflow_provider.protocol.model import Assignment, WorkerState


def encode_metadata(state: WorkerState) -> bytes:
    return codec_of_version(state.version).encode_metadata(state)


def decode_metadata(data: bytes) -> WorkerState:
    return codec_of_bytes(data).decode_metadata(data)


def encode_assignment(assignment: Assignment) -> bytes:
    return codec_of_version(assignment.version).encode_assignment(assignment)


def decode_assignment(data: bytes) -> Assignment:
    return codec_of_bytes(data).decode_assignment(data)
