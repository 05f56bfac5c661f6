"""v0, ``default``, eager: members stop everything before they join, and an assignment is all that a member has to run.

======================  ==================================================================================
metadata                version i16, url STRING, config-offset i64
assignment              version i16, error i16, leader STRING, leader-url STRING, config-offset i64,
                        assignment [job]
job                     connector STRING, tasks [i32]; task -1 is the connector itself, here the planner
======================  ==================================================================================

The bytes are those of Java's ``ConnectProtocol``. What follows the last field is ignored, as Java does.

This is stricter than Java in three cases that no peer writes and that would do harm further in: a length below -1
(Java: null), text that isn't UTF-8 (Java: replacement characters, so the name of another job), a task below -1.
"""

from __future__ import annotations

from airflow_provider.group.classic.wire.fields import I16, I64, Cursor, Writer
from airflow_provider.values.model import Assignment, ConfigOffset, LocalProtocolError, WorkerState


def encode_metadata(state: WorkerState) -> bytes:
    """A member's metadata for JoinGroup."""
    if state.assignment is not None:
        raise LocalProtocolError("metadata of v0 can't carry an assignment: its member has stopped everything")
    out = Writer()
    write_state(out, state)
    return out.done()


def decode_metadata(data: bytes) -> WorkerState:
    """The inverse of :func:`encode_metadata`."""
    cursor = Cursor.over(data)
    return WorkerState(
        version=cursor.version(),
        url=cursor.string("url"),
        config_offset=ConfigOffset(cursor.integer(I64, "config_offset")),
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """What a leader sends one member in SyncGroup."""
    if assignment.revoked or assignment.delay_ms:
        raise LocalProtocolError("an assignment of v0 is complete in itself: it can't carry revoked tasks or a delay")
    out = Writer()
    write_head(out, assignment)
    out.jobs(assignment.assigned, "assigned")
    return out.done()


def decode_assignment(data: bytes) -> Assignment:
    """The inverse of :func:`encode_assignment`."""
    cursor = Cursor.over(data)
    return Assignment(
        version=cursor.version(),
        error=cursor.integer(I16, "error"),
        leader=cursor.string("leader"),
        leader_url=cursor.string("leader_url"),
        config_offset=ConfigOffset(cursor.integer(I64, "config_offset")),
        assigned=cursor.jobs("assigned", null_allowed=False),
    )


# ---- what later versions begin with as well


def write_state(out: Writer, state: WorkerState) -> None:
    """Write all fields of v0's metadata."""
    out.version(state.version)
    out.string(state.url, "url")
    out.integer(I64, state.config_offset, "config_offset")


def write_head(out: Writer, assignment: Assignment) -> None:
    """Write the fields of an assignment before its tasks."""
    out.version(assignment.version)
    out.integer(I16, assignment.error, "error")
    out.string(assignment.leader, "leader")
    out.string(assignment.leader_url, "leader_url")
    out.integer(I64, assignment.config_offset, "config_offset")
