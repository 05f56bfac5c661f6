"""The ``group`` record of a declarative group, written by the member that has computed a target.

It contains the target, for reports and people. The group itself does not need it: the coordinator remembers everything
that the protocol needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from reprlib import repr as short
from typing import Any, Final

from airflow_provider.assignors.model import Move, MoveReason, shares_from_json, shares_to_json
from airflow_provider.assignors.policy import LONGEST_DELAY_MS
from airflow_provider.assignors.record import GroupRecord
from airflow_provider.client_assignors.client_assignor import Assignment, Group, Reason
from airflow_provider.client_assignors.facts import absences
from airflow_provider.declarative.model import GroupEpoch
from airflow_provider.protocol.in_short import in_short
from airflow_provider.protocol.model import (
    NO_TASKS,
    ConfigOffset,
    Epoch,
    MemberId,
    TaskId,
    Tasks,
    WorkerId,
    name_from_json,
    whole_from_json,
)
from airflow_provider.protocol.saved import CONNECT

_LONGEST_REASON: Final = 1_000
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarativeRecord(GroupRecord):
    """One target of a declarative group.

    :param leader: the worker that has computed it
    :param waits: lost tasks that wait for their worker
    :param asks_at_ms: when the leader asks for the next target (wall clock, ms since 1970); 0: it need not
    """

    waits: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    asks_at_ms: int = 0

    @property
    def round_id(self) -> Mapping[str, int]:
        return {"group epoch": self.epoch}

    @property
    def deadline_ms(self) -> int:
        return self.asks_at_ms

    @property
    def waiting_by_worker(self) -> Mapping[WorkerId, Tasks]:
        return self.waits

    def is_same_round(self, other: GroupRecord) -> bool:
        return isinstance(other, DeclarativeRecord) and (self.epoch, self.leader) == (other.epoch, other.leader)

    def without_memory(self) -> DeclarativeRecord:
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            # Without arguments super() looks for the class that slots=True has replaced.
            **super(DeclarativeRecord, self).to_json(),
            "protocol": CONNECT,
            "waits": shares_to_json(self.waits),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DeclarativeRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: the data are not such a record. The message names what is missing or wrong
        """
        try:
            return cls(
                epoch=Epoch(whole_from_json(data["epoch"], "an epoch")),
                leader=WorkerId(name_from_json(data["leader"])),
                config_offset=ConfigOffset(whole_from_json(data["config_offset"], "a config offset", least=-1)),
                members={
                    WorkerId(name_from_json(worker)): MemberId(name_from_json(member))
                    for worker, member in data["members"].items()
                },
                assignment=shares_from_json(data["assignment"]),
                revoked={},
                moves=tuple(Move.from_json(move) for move in data["moves"]),
                delay_ms=whole_from_json(data["delay_ms"], "a delay", most=LONGEST_DELAY_MS),
                reason=_words_from_json(data["reason"]),
                at_ms=whole_from_json(data["at_ms"], "a time"),
                waits=shares_from_json(data["waits"]),
                lost=frozenset(WorkerId(name_from_json(worker)) for worker in data.get("lost", ())),
                asks_at_ms=whole_from_json(data["deadline_ms"], "a time"),
            )
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"not a group record: {type(wrong).__name__} {wrong}") from wrong


def is_declarative(data: Mapping[str, Any]) -> bool:
    """Whether a group record, as JSON, is that of a declarative group."""
    return data.get("protocol") == CONNECT


def _words_from_json(words: object) -> str:
    if not isinstance(words, str):
        raise ValueError(f"a reason is a text, not {short(words)}")
    return words[:_LONGEST_REASON]


def record_of(
    group: Group,
    assignment: Assignment,
    *,
    epoch: GroupEpoch,
    config_offset: ConfigOffset,
    asks_at_ms: int,
    before: GroupRecord | None = None,
    done: Tasks = NO_TASKS,
) -> DeclarativeRecord:
    """The record of an assignment.

    :param group: the state from which one of its members has computed it
    :param epoch: the group epoch of that state
    :param config_offset: how far that member has read the jobs topic
    :param asks_at_ms: when that member asks for the next one; 0: it need not
    :param before: the last record, as far as that member knows
    :param done: tasks that have ended by themselves, so that no worker stops them
    """
    names = {member: WorkerId(one.instance_id or member) for member, one in group.members.items()}
    gone = {member: WorkerId(one.instance_id or member) for member, one in group.departed.items()}
    assert group.computing is not None, "a coordinator that computes itself writes no such record"
    return DeclarativeRecord(
        epoch=Epoch(epoch),
        leader=names[group.computing],
        config_offset=config_offset,
        members={name: member for member, name in names.items()},
        assignment={names[member]: target.tasks for member, target in assignment.members.items()},
        revoked={},
        moves=_moves(group, assignment, names, gone, done),
        delay_ms=min(max(0, asks_at_ms - group.now_ms), LONGEST_DELAY_MS),
        reason=_first_reason(group, names, gone) if before is None else _reason(group, names, before, done),
        at_ms=group.now_ms,
        waits={gone[member]: target.tasks for member, target in assignment.delayed.items() if member in gone},
        lost=_lost(group, names, gone, before),
        asks_at_ms=asks_at_ms,
    )


def _lost(
    group: Group,
    names: Mapping[MemberId, WorkerId],
    gone: Mapping[MemberId, WorkerId],
    before: GroupRecord | None,
) -> frozenset[WorkerId]:
    """The workers of the last record that have disappeared without saying why they leave. Only workers that had tasks
    are found: the coordinator does not say how others left.
    """
    if before is None:
        return frozenset()
    silent = {gone[member] for member, absence in absences(group).items() if absence.left is None}
    return frozenset((silent & before.members.keys()) - set(names.values()))


def _moves(
    group: Group,
    assignment: Assignment,
    names: Mapping[MemberId, WorkerId],
    gone: Mapping[MemberId, WorkerId],
    done: Tasks,
) -> tuple[Move, ...]:
    had = {task: names[member] for member, one in group.members.items() for task in one.target.tasks}
    lost = {task: gone[member] for member, one in group.departed.items() for task in one.target.tasks}
    moves: defaultdict[tuple[WorkerId | None, WorkerId | None, MoveReason], set[TaskId]] = defaultdict(set)
    for member, target in assignment.members.items():
        before, name = group.members[member].target.tasks, names[member]
        for task in target.tasks - before:
            moves[_move(task, name, had, lost)].add(task)
        for task in before - target.tasks - group.configured - done:
            moves[name, None, MoveReason.DELETED].add(task)
    return tuple(
        Move(tasks=frozenset(tasks), source=source, target=target, reason=reason)
        for (source, target, reason), tasks in moves.items()
    )


def _move(
    task: TaskId, target: WorkerId, had: Mapping[TaskId, WorkerId], lost: Mapping[TaskId, WorkerId]
) -> tuple[WorkerId | None, WorkerId, MoveReason]:
    if task in had:
        return had[task], target, MoveReason.BALANCE
    if task not in lost:
        return None, target, MoveReason.NEW
    return lost[task], target, MoveReason.RETURNED if lost[task] == target else MoveReason.LOST


def _first_reason(group: Group, names: Mapping[MemberId, WorkerId], gone: Mapping[MemberId, WorkerId]) -> str:
    """What caused the epoch, in words, as far as the group's state shows it: the coordinator does not say."""
    new = sorted(names[member] for member, one in group.members.items() if one.target.tasks == NO_TASKS)
    left = sorted(set(gone.values()) - set(names.values()))
    if any(one.reason == Reason.DELAY_OVER for one in group.members.values()):
        return "the delay is over"
    if left:
        return f"without {in_short(left, most=_MOST_NAMED)}"
    return f"with {in_short(new, most=_MOST_NAMED)}" if new else "the configured tasks have changed"


def _reason(group: Group, names: Mapping[MemberId, WorkerId], before: GroupRecord, done: Tasks) -> str:
    """What caused the epoch, in words: the differences to the last record."""
    return "; ".join(_changes(group, names, before, done)) or "the metadata of a worker has changed"


def _changes(group: Group, names: Mapping[MemberId, WorkerId], before: GroupRecord, done: Tasks) -> Iterator[str]:
    members = {name: member for member, name in names.items()}
    had = before.waiting.union(*before.assignment.values())
    over = had - group.configured
    if 0 < before.deadline_ms <= group.now_ms:
        yield "the delay is over"
    for words, workers in (
        ("without", before.members.keys() - members.keys()),
        ("with", members.keys() - before.members.keys()),
        ("back:", {name for name, member in members.items() if before.members.get(name, member) != member}),
    ):
        if workers:
            yield f"{words} {in_short(sorted(workers), most=_MOST_NAMED)}"
    for words, tasks in (("new work", group.configured - had), ("ended", over & done), ("removed", over - done)):
        if tasks:
            first = nsmallest(_MOST_NAMED, tasks)
            yield f"{words}: {in_short(first, of=len(tasks), most=_MOST_NAMED)}"
