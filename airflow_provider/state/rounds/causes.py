"""Says in words why a group rebalances: which workers have come and gone, and which earlier change a round continues.

A change can take several rounds: tasks are revoked in one and placed in the next, or wait until a delay is over. People
who read the record of the last round want to know the cause of the first. So each round of such a chain names it, until
one leaves nothing to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from airflow_provider.assignment.model import Absence
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.group_protocol.join_reasons import DELAY_OVER, HAVE_STOPPED, OTHERS_BEGAN, STARTS
from airflow_provider.values.model import MemberId, WorkerId

FREE_SLOT: Final = "a worker has a slot free while tasks wait elsewhere"
WAITS_AT_DRAINING: Final = "tasks wait at a worker that drains"
WAITS_AT_LEAVING: Final = "tasks are to be tried again at a worker that leaves soon"
OTHER_SLOTS: Final = "workers have other slots than the last round knew"
TRIED_ELSEWHERE: Final = "a task that has failed is tried on another worker"
FOR_WHAT_WAITS: Final = frozenset({FREE_SLOT, WAITS_AT_DRAINING, WAITS_AT_LEAVING, TRIED_ELSEWHERE})
"""Reasons for a round that only places waiting tasks. It must not stop running ones."""

_STEPS: Final = (HAVE_STOPPED, DELAY_OVER)
"""Reasons of a member that joins to continue what an earlier round began."""
_VAGUE: Final = (OTHERS_BEGAN, STARTS)
_NAMED: Final = 3
_BEFORE: Final = "; before that: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a round happens.

    :param reason: what began the chain of rounds to which this one belongs
    :param step: how this round continues the chain; empty in its first round
    """

    reason: str
    step: str = ""


def cause_of(
    members: Mapping[WorkerId, MemberId],
    absent: Mapping[WorkerId, Absence],
    last: ClassicRecord | None,
    *,
    now_ms: int,
    wishes: str = "",
    otherwise: str,
) -> Cause:
    """Why the group rebalances, as far as this can be seen.

    :param absent: what workers that were in the last round have said of their absence
    :param wishes: why members have joined, according to their metadata
    :param otherwise: why the leader has joined; used if nothing else is known
    """
    if last is None:
        return Cause(reason="; ".join(_arrivals(members, frozenset())) or wishes or otherwise)
    asked = wishes or otherwise
    step = _step(last, now_ms) or (asked if asked in _STEPS else "")
    new = "; ".join(_changes(members, absent, last)) or (wishes if wishes != _newest_reason(last) else "")
    if step and not new:
        return Cause(reason=last.reason or step, step=step)
    new = new or (_restarted(members, last) if asked in _VAGUE else "") or asked
    return Cause(reason=f"{new}{_BEFORE}{_first_reason(last)}" if _is_continued(last) else new)


def lost_since(
    members: Mapping[WorkerId, MemberId], absent: Mapping[WorkerId, Absence], last: ClassicRecord | None
) -> frozenset[WorkerId]:
    """The workers of the last round that have disappeared since without saying why they leave.

    A worker of Java Connect never says so. It is left out; it is a dynamic member, whose name is its member id.
    """
    if last is None:
        return frozenset()
    ours = (worker for worker, member_id in last.members.items() if worker not in (member_id, BRIDGE))
    return frozenset(
        worker
        for worker in ours
        if worker not in members and ((absence := absent.get(worker)) is None or absence.left is None)
    )


def _is_continued(last: ClassicRecord) -> bool:
    """Whether the last round needs another one to continue it, and says what began the chain."""
    return (last.revokes or last.deadline_ms > 0) and last.reason not in ("", *_STEPS)


def _step(last: ClassicRecord, now_ms: int) -> str:
    """How this round continues the last one, whichever member has joined first for it."""
    if last.revokes:
        return HAVE_STOPPED
    if 0 < last.deadline_ms <= now_ms:
        return DELAY_OVER if last.memory.ends_ms else "the next tasks may move"
    return ""


def _newest_reason(last: ClassicRecord) -> str:
    """The newest reason of the last round. Members repeat a wish until it is fulfilled."""
    return last.reason.partition(_BEFORE)[0]


def _first_reason(last: ClassicRecord) -> str:
    """The reason that began the chain. Only this one is named, because a chain may go on for very long."""
    return last.reason.rpartition(_BEFORE)[2]


def _changes(
    members: Mapping[WorkerId, MemberId], absent: Mapping[WorkerId, Absence], last: ClassicRecord
) -> Iterator[str]:
    """The workers that have come and gone since the last round, in words."""
    waited_for = frozenset(last.memory.assignment) if last.memory.ends_ms else frozenset()
    yield from _arrivals(members.keys() - last.members.keys(), waited_for)
    ends: defaultdict[str, list[WorkerId]] = defaultdict(list)
    for worker in sorted(last.members.keys() - members.keys()):
        ends[_how_it_left(absent.get(worker))].append(worker)
    for end, workers in ends.items():
        yield f"{names_in_short(workers)} {end}"


def _arrivals(workers: Iterable[WorkerId], waited_for: AbstractSet[WorkerId]) -> Iterator[str]:
    came = frozenset(workers)
    if joined := sorted(came - waited_for):
        yield f"{names_in_short(joined)} joined"
    if back := sorted(came & waited_for):
        yield f"{names_in_short(back)} came back"


def _restarted(members: Mapping[WorkerId, MemberId], last: ClassicRecord) -> str:
    """The workers whose member ids have changed since the last round, in words: another process has joined, or the same
    one after it was cut off.
    """
    again = sorted(name for name, member_id in members.items() if last.members.get(name, member_id) != member_id)
    return f"{names_in_short(again)} came back" if again else ""


def _how_it_left(absence: Absence | None) -> str:
    """How a worker left, in words. One that has not said why was lost: its session has ended, or it joined too late."""
    if absence is None:
        return "went away"
    return "got lost" if absence.left is None else f"left ({absence.left.value})"


def names_in_short(workers: Sequence[WorkerId]) -> str:
    """The names of the first few. A thousand workers may join together, and each of them reads the record."""
    others = len(workers) - _NAMED
    if others <= 1:
        return ", ".join(workers)
    return f"{', '.join(workers[:_NAMED])} and {others} others"
