"""Reads metadata and assignments of classic groups from lines of hex, as copied from a packet dump."""

from __future__ import annotations

from typing import Any

from airflow_provider.group.classic.wire import codec_of_bytes
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.values.model import NO_TASKS, Assignment, MalformedEmbeddedError, WorkerState, tasks_to_json


def decode_metadata_line(line: bytes) -> dict[str, Any]:
    """Decode a member's metadata, as in JoinGroup.

    :raises MalformedEmbeddedError: if it is no such thing
    """
    data = _from_hex(line)
    return metadata_to_json(codec_of_bytes(data).decode_metadata(data))


def decode_assignment_line(line: bytes) -> dict[str, Any]:
    """Decode what a leader sends one member in SyncGroup.

    :raises MalformedEmbeddedError: if it is no such thing
    """
    data = _from_hex(line)
    return assignment_to_json(codec_of_bytes(data).decode_assignment(data))


def metadata_to_json(state: WorkerState | ExtensibleState) -> dict[str, Any]:
    """Metadata as JSON: the keys of v0 to v2, and from v3 on those that it adds."""
    if isinstance(state, ExtensibleState):
        return _extensible_metadata_to_json(state)
    return {
        "version": state.version,
        "url": state.url,
        "config_offset": state.config_offset,
        "assignment": None if state.assignment is None else assignment_to_json(state.assignment),
    }


def assignment_to_json(assignment: Assignment | ExtensibleAssignment) -> dict[str, Any]:
    """An assignment as JSON: the keys of v0 to v2, and from v3 on those that it adds."""
    if isinstance(assignment, ExtensibleAssignment):
        return _extensible_assignment_to_json(assignment)
    return {
        "version": assignment.version,
        "error": assignment.error,
        "leader": assignment.leader,
        "leader_url": assignment.leader_url,
        "config_offset": assignment.config_offset,
        "assigned": tasks_to_json(assignment.assigned),
        "revoked": tasks_to_json(assignment.revoked),
        "delay": assignment.delay_ms,
    }


def _extensible_metadata_to_json(state: ExtensibleState) -> dict[str, Any]:
    """What the worker owns is at the same key as in v1 and v2."""
    how_far = state.how_far()
    owned = Assignment(version=state.version, assigned=state.owned.tasks()) if state.owned else None
    older = WorkerState(version=state.version, url=state.url, config_offset=state.config_offset, assignment=owned)
    return metadata_to_json(older) | {
        "learning": tasks_to_json(how_far),
        "progress": [progress for _, progress in sorted(how_far.items())],
        "ready": tasks_to_json(state.ready.tasks()),
        "leaving": state.leaving,
        "slots": state.slots,
        "weight": state.weight,
        "epoch": state.epoch,
        "failed": tasks_to_json(state.failed.tasks()),
    }


def _extensible_assignment_to_json(assignment: ExtensibleAssignment) -> dict[str, Any]:
    """``assigned`` is all that the worker is to own, as in v0."""
    target = None if assignment.target is None else assignment.target.tasks()
    older = Assignment(
        version=assignment.version,
        error=assignment.error,
        leader=assignment.leader,
        leader_url=assignment.leader_url,
        config_offset=assignment.config_offset,
        assigned=target or NO_TASKS,
        revoked=assignment.revoked.tasks(),
        delay_ms=assignment.delay_ms,
    )
    return assignment_to_json(older) | {
        "target": None if target is None else tasks_to_json(target),
        "learning": tasks_to_json(assignment.learning.tasks()),
        "learned": tasks_to_json(assignment.learned.tasks()),
        "another_round": assignment.another_round,
        "shutdown": assignment.shutdown,
        "epoch": assignment.epoch,
    }


def _from_hex(line: bytes) -> bytes:
    try:
        return bytes.fromhex(line.decode("ascii"))
    except ValueError as wrong:
        raise MalformedEmbeddedError(f"not a hex string: {wrong}") from None
