"""Makes the ``group`` record of an assignment that a member of a declarative group has computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Final

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.assignment.policy import LONGEST_DELAY_MS
from airflow_provider.group.declarative.assignors.client_assignor import Assignment, Group, Reason
from airflow_provider.group.declarative.assignors.facts import known_absences
from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, ConfigOffset, Epoch, MemberId, TaskId, Tasks, WorkerId

_MOST_NAMED: Final = 5


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
    silent = {gone[member] for member, absence in known_absences(group).items() if absence.left is None}
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
