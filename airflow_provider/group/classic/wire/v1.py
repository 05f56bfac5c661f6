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

from airflow_provider.group.classic.wire.fields import I16, I32, I64, NULL, Cursor, Writer
from airflow_provider.group.classic.wire.v0 import write_head, write_state
from airflow_provider.values.model import NO_TASKS, Assignment, ConfigOffset, WorkerState


def encode_metadata(state: WorkerState) -> bytes:
    """A member's metadata for JoinGroup.

    An assignment that says nothing (no leader, no tasks, no offset) is sent as null, as Java does.
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
    return WorkerState(
        version=cursor.version(),
        url=cursor.string("url"),
        config_offset=ConfigOffset(cursor.integer(I64, "config_offset")),
        assignment=_read_allocation(cursor) if cursor.remaining else None,
    )


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


def _read_allocation(cursor: Cursor) -> Assignment | None:
    size = cursor.length("allocation", smallest_entry=1, null_allowed=True)
    return None if size == NULL else _read(cursor.nested(size, "allocation."))


def _read(cursor: Cursor) -> Assignment:
    return Assignment(
        version=cursor.version(),
        error=cursor.integer(I16, "error"),
        leader=cursor.string("leader"),
        leader_url=cursor.string("leader_url"),
        config_offset=ConfigOffset(cursor.integer(I64, "config_offset")),
        assigned=cursor.jobs("assigned", null_allowed=True) if cursor.remaining else NO_TASKS,
        revoked=cursor.jobs("revoked", null_allowed=True) if cursor.remaining else NO_TASKS,
        delay_ms=cursor.integer(I32, "delay") if cursor.remaining else 0,
    )
