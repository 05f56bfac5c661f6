"""Converts what a worker says of itself to bytes: the metadata of a client side assignor.

The version is sent beside the bytes. It is that of Connect's protocol: 0 EAGER has only the url, 1 COMPATIBLE has all
fields, and 2 SESSIONED has the same as 1. In Connect, 2 only means that requests between workers are signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.group.declarative.assignors.client_assignor import NOTHING_SAID, Group, GroupMember, WorkerFacts
from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Struct, Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import Int8, Int32, Int64, Text
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError
from airflow_provider.values.model import MemberId

EAGER: Final = 0
COMPATIBLE: Final = 1
SESSIONED: Final = 2

_NOT_SAID: Final = -1
_LONGEST_MS: Final = 2**31 - 1
_LEAVING: Final = (
    None, LeaveReason.STOPPED, LeaveReason.DRAINED, LeaveReason.KILLED, LeaveReason.RESTARTING,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    url: Text
    slots: Int32 = 0
    returns_ms: Int32 = _NOT_SAID
    leaving: Int8 = 0
    delay_over_ms: Annotated[Int64, Tag(0)] = 0
    unfit_at_ms: Annotated[Int64, Tag(1)] = 0


_WORKER: Final = struct_of(_Worker)
_URL_ALONE: Final = Struct(_Worker, _WORKER.fields[:1])
_STRUCTS: Final = MappingProxyType({EAGER: _URL_ALONE, COMPATIBLE: _WORKER, SESSIONED: _WORKER})


def encode_facts(facts: WorkerFacts, version: int) -> bytes:
    """Write what a worker says of itself. The same facts give the same bytes.

    :raises KeyError: there is no such version
    """
    writer = Writer()
    worker = _Worker(
        url=facts.url,
        slots=facts.slots,
        returns_ms=_NOT_SAID if facts.returns_ms is None else min(facts.returns_ms, _LONGEST_MS),
        leaving=_LEAVING.index(facts.leaving),
        delay_over_ms=facts.delay_over_ms,
        unfit_at_ms=facts.unfit_at_ms,
    )
    _STRUCTS[version].write(writer, worker)
    return writer.done()


def decode_facts(data: bytes, version: int) -> WorkerFacts:
    """The inverse of :func:`encode_facts`. Bytes that can't be understood count as empty: their sender is a member all
    the same, and the coordinator knows its tasks.
    """
    if not data or version not in _STRUCTS:
        return NOTHING_SAID
    try:
        worker: _Worker = _STRUCTS[version].read(Reader(data))
    except MalformedMessageError:
        return NOTHING_SAID
    if not 0 <= worker.leaving < len(_LEAVING):
        return NOTHING_SAID
    return WorkerFacts(
        url=worker.url,
        slots=worker.slots,
        returns_ms=worker.returns_ms if worker.returns_ms >= 0 else None,
        leaving=_LEAVING[worker.leaving],
        delay_over_ms=worker.delay_over_ms,
        unfit_at_ms=worker.unfit_at_ms,
    )


def known_absences(group: Group) -> dict[MemberId, Absence]:
    """What is known of the absence of each departed member."""
    return {member: group.absent.get(member) or _absence(gone) for member, gone in group.departed.items()}


def _absence(gone: GroupMember) -> Absence:
    facts = decode_facts(gone.metadata, gone.version)
    return Absence(left=facts.leaving, returns_ms=facts.returns_ms)
