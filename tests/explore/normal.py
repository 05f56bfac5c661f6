"""Maps equivalent worlds to one normal form, and keeps each distinct part once.

A world has few parts (processes, the group, flights, the topics), and there are few different ones of each. Each is
kept once, as a :class:`Node`, so that anything derived from a part is computed once.

What is made equal, and why that loses nothing:

- *Times* count from now. A past time becomes now where the product only asks whether it is past; where it adds to a
  time (``FLOORS``), it becomes the latest time with which the sum is past, too.
- *Member ids*, also those in bytes, are numbered by worker, in order: the product only asks whether two are equal. A
  new id is one that nobody has or remembers.
- *Generations and epochs*, also those in bytes (module ``epochs``), are lowered together so that the lowest is 1: the
  product only compares, subtracts and adds them.
- *Texts* for people are left out: reasons, and the record's moves and lessons.
- So are a few numbers that no longer make a difference: see ``_process`` and ``_record``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple, cast

from explore.epochs import closed, epoch_in, lowered, opened
from explore.group import Group
from explore.values import DELAYED, NOW, SETTINGS, TICK, Flight, Frozen, Process, Topics

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase, StateChanges
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import NO_TASKS, ConnectProtocol, MemberId, TaskId

_LONG_AGO = NOW - SETTINGS.rebalance_timeout_ms - DELAYED.max_delay_ms - TICK
FLOORS: Mapping[str, int] = {
    # of a member
    "record_at": _LONG_AGO, "join_sent_at": _LONG_AGO, "joining_since": _LONG_AGO, "heard_at": _LONG_AGO,
    "heartbeat_sent_at": _LONG_AGO,
    "lease_until": NOW, "rebalance_deadline": NOW, "heartbeat_at": NOW, "retry_at": NOW, "rejoin_at": NOW,
    "join_by": NOW, "record_by": NOW, "sync_by": NOW, "leave_by": NOW, "hold_until": NOW, "armed_at": NOW,
    # of a record and its memory
    "at_ms": _LONG_AGO, "deadline_ms": NOW, "awaited": NOW, "next_moves_at_ms": NOW,
    "since_ms": NOW,
    # of what is under way, and of the group
    "sent_at_ms": _LONG_AGO, "sent_at": _LONG_AGO, "opens": NOW, "due": NOW,
    "session_at": NOW, "join_at": NOW, "sync_at": NOW,
}  # fmt: skip
"""Each field that is a time, with the earliest time that makes a difference."""
COUNTS = frozenset({"generation", "last_completed", "epoch", "spoken_epoch"})
"""Generations and epochs. Values below 1 mean none."""
_TEXTS = frozenset({"reason", "step", "rejoin_reason", "join_reason"})
_MANY_ROUNDS = 3
"""From this number on, the delays after rounds that revoked and after rounds for nothing are at their maximum."""
_MEMBER_ID = re.compile(r"w\d#\w")
_DIGITS = "123456789abcdef"
_NONE = sys.maxsize


class Node:
    """A part of a world. Nodes of one space are equal only if they are identical.

    :param number: of the part in its space
    :param ids: the member ids in it, as bits
    :param lowest: the lowest generation or epoch in it; ``_NONE`` if there is none
    :param made: values computed from it
    """

    __slots__ = ("ids", "lowest", "made", "number", "value")

    def __init__(self, value: Any, number: int) -> None:
        self.value = value
        self.number = number
        self.made: dict[Any, Any] = {}
        self.ids = 0
        for each in _MEMBER_ID.findall(repr(value)):
            self.ids |= 1 << _bit(each)
        counts: list[int] = []

        def count(name: str, leaf: Any) -> Any:
            if name in COUNTS and leaf > 0:
                counts.append(leaf)
            if isinstance(leaf, bytes):
                for each in _MEMBER_ID.findall(repr(opened(name, leaf))):
                    self.ids |= 1 << _bit(each)
                if epoch := epoch_in(name, leaf):
                    counts.append(epoch)
            return leaf

        rebuilt(value, count)
        self.lowest = min(counts, default=_NONE)


class World(NamedTuple):
    """The whole state at one moment.

    :param processes: by their marks
    :param flights: what is under way
    :param left: how often each fault may still strike
    """

    processes: tuple[Node, ...]
    group: Node
    flights: tuple[Node, ...]
    topics: Node
    left: tuple[int, ...]

    def process(self, mark: str) -> Node | None:
        return next((node for node in self.processes if node.value.mark == mark), None)

    @property
    def parts(self) -> tuple[Node, ...]:
        return (*self.processes, self.group, *self.flights, self.topics)

    @property
    def ids(self) -> int:
        ids = 0
        for part in self.parts:
            ids |= part.ids
        return ids


class Nodes:
    """All parts of a space."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, Any], Node] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, value: Any) -> Node:
        key = (type(value), value)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Node(value, len(self._known))
        return node

    def later(self, node: Node, ms: int) -> Node:
        """The part after this time has passed."""
        made = node.made.get(ms)
        if made is None:
            made = node.made[ms] = self.of(rebuilt(node.value, lambda name, leaf: _later(name, leaf, ms)))
        return made

    def normal(self, world: World) -> World:
        """The normal form of a world."""
        names = _renaming(world.ids)
        down = min([part.lowest for part in world.parts])
        how = (names, 0 if down == _NONE else down - 1)
        flights = world.flights
        if flights:
            flights = tuple(sorted([self._plain(node, how) for node in flights], key=_number))
        return World(
            tuple([self._plain(node, how) for node in world.processes]),
            self._plain(world.group, how),
            flights,
            self._plain(world.topics, how),
            world.left,
        )

    def _plain(self, node: Node, how: tuple[Names, int]) -> Node:
        plain: Node | None = node.made.get(how)
        if plain is None:
            names, down = dict(how[0]), how[1]
            value = rebuilt(node.value, lambda name, leaf: _plain_leaf(name, leaf, names, down))
            plain = node.made[how] = self.of(_shortened(value))
        return plain


def _number(node: Node) -> int:
    return node.number


# ---- leaves


def _later(name: str, leaf: Any, ms: int) -> Any:
    return leaf - ms if name in FLOORS and leaf else leaf


def _plain_leaf(name: str, leaf: Any, names: Mapping[str, str], down: int) -> Any:
    if isinstance(leaf, int):
        if name in FLOORS:
            return max(leaf, FLOORS[name]) if leaf else leaf
        return leaf - down if name in COUNTS and leaf > 0 else leaf
    if name in _TEXTS:
        return leaf and "..."
    if isinstance(leaf, bytes) and down:
        leaf = lowered(name, leaf, down)
    if names:
        if isinstance(leaf, str):
            return names.get(leaf, leaf)
        if isinstance(leaf, bytes):
            return closed(name, _MEMBER_ID_BYTES.sub(lambda found: _renamed(found[0], names), opened(name, leaf)))
    return leaf


def _renamed(member_id: bytes, names: Mapping[str, str]) -> bytes:
    return names.get(member_id.decode(), member_id.decode()).encode()


_MEMBER_ID_BYTES = re.compile(_MEMBER_ID.pattern.encode())


Names = tuple[tuple[str, str], ...]
"""Pairs of a member id and its replacement, where they differ."""


@cache
def _renaming(ids: int) -> Names:
    counts: dict[str, int] = {}
    pairs = []
    for bit in range(ids.bit_length()):
        if ids >> bit & 1:
            worker, digit = f"w{bit // len(_DIGITS) + 1}", _DIGITS[bit % len(_DIGITS)]
            number = counts[worker] = counts.get(worker, -1) + 1
            pairs.append((f"{worker}#{digit}", f"{worker}#{_DIGITS[number]}"))
    return tuple(pair for pair in pairs if pair[0] != pair[1])


def _bit(member_id: str) -> int:
    return (int(member_id[1]) - 1) * len(_DIGITS) + _DIGITS.index(member_id[-1])


def fresh_id(world: World, worker: str) -> MemberId:
    """A member id that nobody has or remembers, above all others of the worker."""
    of_worker = world.ids >> _bit(f"{worker}#{_DIGITS[0]}") & (1 << len(_DIGITS)) - 1
    return MemberId(f"{worker}#{_DIGITS[of_worker.bit_length()]}")


# ---- parts


def _shortened(part: Any) -> Any:
    if isinstance(part, Process):
        return _process(part)
    if isinstance(part, (Flight, Topics)):
        return rebuilt(part, lambda _name, leaf: leaf, of_record=_record)
    assert isinstance(part, Group)
    return part


def _process(process: Process) -> Process:
    """``attempts`` only spreads backoffs, which all end at the next step. The time of the last JoinGroup does not
    matter once it is answered, nor that of the last heartbeat, as there are no hints here.
    """
    state = rebuilt(process.state, lambda _name, leaf: leaf, of_record=_record)
    changes: dict[str, Any] = {"attempts": 0, "heartbeat_sent_at": _LONG_AGO}
    if state.phase is not Phase.PREPARING_REBALANCE:
        changes["join_sent_at"] = _LONG_AGO
    if state.record is not None and not state.record.delay_ms:
        changes["record_at"] = _LONG_AGO
    if state.settings.protocol is not ConnectProtocol.EXTENSIBLE:
        changes["just_released"] = NO_TASKS  # it is only compared with a whole target
    state = state.changed(changes)
    return process._replace(state=state.changed({"armed_at": state.next_deadline()}))


def _record(record: ClassicRecord) -> ClassicRecord:
    """Its age only matters while a delay runs."""
    memory = replace(
        record.memory,
        released=(),
        successive_revocations=min(record.memory.successive_revocations, _MANY_ROUNDS),
    )
    return replace(
        record,
        moves=(),
        lessons=(),
        memory=memory,
        at_ms=record.at_ms if record.delay_ms else _LONG_AGO,
        unchanged=min(record.unchanged, _MANY_ROUNDS),
    )


# ---- recursion


_WHOLE = (MemberSettings, TaskId, Deferred)


def rebuilt(
    value: Any,
    change: Callable[[str, Any], Any],
    name: str = "",
    of_record: Callable[[ClassicRecord], ClassicRecord] | None = None,
) -> Any:
    """The value with all leaves changed.

    :param change: takes a leaf and the name of its field
    :param of_record: changes each record as a whole
    """
    if isinstance(value, _WHOLE):
        return value
    if isinstance(value, Frozen):
        return Frozen({rebuilt(key, change): rebuilt(each, change, name, of_record) for key, each in value.items()})
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            changed = [
                rebuilt(each, change, field, of_record) for field, each in zip(value._fields, value, strict=True)
            ]
            return type(value)(*changed)
        return tuple([rebuilt(each, change, name, of_record) for each in value])
    if isinstance(value, frozenset):
        return frozenset([rebuilt(each, change, name, of_record) for each in value])
    if isinstance(value, MemberState):
        of_state = {
            field: rebuilt(getattr(value, field), change, field, of_record) for field in value.__struct_fields__
        }
        return value.changed(cast("StateChanges", of_state))
    if is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: rebuilt(getattr(value, field.name), change, field.name, of_record) for field in fields(value)
        }
        other = replace(value, **changes)
        return of_record(other) if of_record is not None and isinstance(other, ClassicRecord) else other
    return change(name, value)
