"""v1, ``compatible``, and v2, ``sessioned``: incremental cooperative (KIP-415).

======================  ==================================================================================
metadata                as in v0, then allocation NULLABLE_BYTES: an assignment, with a header of its own,
                        that says what the member owns
assignment              as in v0, then revoked [job], delay i32
======================  ==================================================================================

The bytes are those of Java's ``IncrementalCooperativeConnectProtocol``. v2 differs from v1 by its number only. The
allocation and each array of jobs may be null, and fields missing at the end take their defaults. Any later version is
read like v2.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.protocol.embedded.fields import I32, NULL, Cursor, Writer
from airflow_provider.protocol.embedded.v0 import read_head, read_state, write_head, write_state
from airflow_provider.protocol.model import NO_TASKS, Assignment, WorkerState


def encode_metadata(state: WorkerState) -> bytes:
    """A member's metadata for JoinGroup.

    An own assignment that says nothing at all (no leader, no tasks, no offset) is sent as null, as Java does.
    """
    out = Writer()
    write_state(out, state)
    if state.assignment is None or state.assignment == Assignment(version=state.assignment.version):
        out.integer(I32, NULL, "allocation")
    else:
        allocation = Writer()
        _write(allocation, state.assignment)
        out.nested(allocation, "allocation")
    return out.done()


def decode_metadata(data: bytes) -> WorkerState:
    """The inverse of :func:`encode_metadata`."""
    cursor = Cursor.over(data)
    state = read_state(cursor)
    if not cursor.remaining:
        return state
    size = cursor.length("allocation", smallest_entry=1, null_allowed=True)
    return state if size == NULL else replace(state, assignment=_read(cursor.nested(size, "allocation.")))


def encode_assignment(assignment: Assignment) -> bytes:
    """What a leader sends one member in SyncGroup."""
    out = Writer()
    _write(out, assignment)
    return out.done()


def decode_assignment(data: bytes) -> Assignment:
    """The inverse of :func:`encode_assignment`."""
    return _read(Cursor.over(data))


def _write(out: Writer, assignment: Assignment) -> None:
    write_head(out, assignment)
    out.jobs(assignment.assigned, "assigned")
    out.jobs(assignment.revoked, "revoked")
    out.integer(I32, assignment.delay_ms, "delay")


def _read(cursor: Cursor) -> Assignment:
    head = read_head(cursor)
    return replace(
        head,
        assigned=cursor.jobs("assigned", null_allowed=True) if cursor.remaining else NO_TASKS,
        revoked=cursor.jobs("revoked", null_allowed=True) if cursor.remaining else NO_TASKS,
        delay_ms=cursor.integer(I32, "delay") if cursor.remaining else 0,
    )
