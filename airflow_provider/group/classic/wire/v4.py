"""v4, ``compressed``: the values and rules of v3 in fewer bytes, so that Kafka's record of a round holds more tasks.

A message is the version, as in all others; the size of the head and the head; and, for each set of tasks, its size and
itself (0: absent). Sizes are varints. The head is the table of v3, ``Metadata`` or ``Assignment`` of
``extensible.fbs``, as a flatbuffer without its sets of tasks, compressed. If a target is present, an empty one stands
in the head. The sets follow in the order in which the schema has them, each as in :mod:`.columns`.

Each set is compressed by itself, so a worker's tasks have the same bytes in what it is sent and in what it sends, and
are compressed and read once.

A later version is read like this one: unknown fields and further sets are ignored. A message may take 16 MiB when it is
unpacked, where each task counts as 16 bytes. Errors count the bytes of a head when it is unpacked, and those of a set
from its beginning in the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from airflow_provider.group.classic.wire import columns, flatbuffer, v3
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.group.classic.wire.flatbuffer import Piece, Table
from airflow_provider.values.model import LocalProtocolError, MalformedEmbeddedError, SubProtocol
from airflow_provider.values.packed_tasks import NOTHING, PackedTasks
from airflow_provider.values.varints import varint

VERSION: Final = SubProtocol.COMPRESSED.version

_IN_METADATA: Final = ("owned", "learning", "ready", "failed")
_IN_ASSIGNMENT: Final = ("target", "revoked", "learning", "learned")
DICTIONARY: Final = (
    b"http://localhost:8080https://airflow./dags/spark_/runs/manual__/runs/scheduled__2026-01-01T00:00:00+00:00/tasks/"
    b"worker/mapped/"
)
"""What the url of a worker mostly has. It is a part of the format, as the head is compressed with it."""
_SIZE_OF_VERSION: Final = 2


def encode_metadata(state: ExtensibleState) -> bytes:
    """A worker's metadata for JoinGroup. The same state gives the same bytes, whatever the order of its sets.

    :raises LocalProtocolError: for a value that the format can't carry
    """
    sets = [state.owned, state.learning, state.ready, state.failed]
    return _message(state.version, v3.metadata_table(state, _left_out), sets)


def decode_metadata(data: bytes) -> ExtensibleState:
    """The inverse of :func:`encode_metadata`.

    :raises MalformedEmbeddedError: naming the field and the byte at which it is
    """
    version, head, sets = _parts(data, _IN_METADATA)
    return v3.metadata_from(version, Table.root(head, 0, v3.METADATA), sets.get)


def encode_assignment(assignment: ExtensibleAssignment) -> bytes:
    """Encode a leader's assignment for one worker, for SyncGroup.

    :raises LocalProtocolError: for a value that the format can't carry
    """
    sets = [assignment.target or NOTHING, assignment.revoked, assignment.learning, assignment.learned]
    return _message(assignment.version, v3.assignment_table(assignment, _left_out), sets)


def decode_assignment(data: bytes) -> ExtensibleAssignment:
    """The inverse of :func:`encode_assignment`.

    :raises MalformedEmbeddedError: naming the field and the byte at which it is
    """
    version, head, sets = _parts(data, _IN_ASSIGNMENT)
    table = Table.root(head, 0, v3.ASSIGNMENT)
    if table.table("target", {}) is not None:
        sets.setdefault("target", NOTHING)
    return v3.assignment_from(version, table, sets.get)


def _left_out(_tasks: PackedTasks) -> Piece | None:
    """What stands in the head for a set of tasks: nothing."""
    return None


def _message(version: int, root: Piece, sets: Sequence[PackedTasks]) -> bytes:
    head = flatbuffer.finished(root)
    size = len(head) + sum([columns.takes(tasks) for tasks in sets if tasks.sizes])
    if size > columns.MOST:
        raise LocalProtocolError(f"the message takes {size} bytes before it is packed, at most {columns.MOST}")
    parts = [v3.version_bytes(version, VERSION), _sized(_packed(head))]
    parts += [_sized(columns.pack(tasks)) if tasks.sizes else _ABSENT for tasks in sets]
    return b"".join(parts)


@lru_cache(maxsize=16)
def _packed(head: bytes) -> bytes:
    """The head. Cached, because in most rounds that of all assignments is the same."""
    return columns.deflated(head, DICTIONARY)


def _sized(part: bytes) -> bytes:
    return varint(len(part)) + part


_ABSENT: Final = varint(0)


def _parts(data: bytes, fields: Iterable[str]) -> tuple[int, bytes, dict[str, PackedTasks]]:
    """The version, the head, and the sets that are not empty."""
    version = v3.read_version(data, VERSION)
    at = _SIZE_OF_VERSION
    sets: dict[str, PackedTasks] = {}
    field = "head"
    try:
        part, end = _part(data, at)
        head = columns.inflated(part, columns.MOST, DICTIONARY)
        room = columns.MOST - len(head)
        for field in fields:
            at = end
            part, end = _part(data, at)
            if part:
                sets[field] = columns.unpack(part, room)
                room -= columns.takes(sets[field])
    except ValueError as wrong:
        raise MalformedEmbeddedError(f"{field} at byte {at}: {wrong}") from None
    return version, head, sets


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    """The part with its size at this byte, and where it ends.

    :raises ValueError: if it is cut off
    """
    size, begin = columns.read_length(data, at)
    end = begin + size
    if end > len(data):
        raise ValueError(f"length {size} is too much for {len(data) - begin} bytes")
    return data[begin:end], end
