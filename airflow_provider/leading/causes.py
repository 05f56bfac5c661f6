"""Why a group rebalances, in words: who came and who went, and what a round only goes on with.

A change takes several rounds: tasks are revoked in one and placed in the next, or wait out a delay. Who reads the
last of them asks for the cause of the first. So each round of such a chain names it, until one leaves nothing to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from airflow_provider.assignors.model import Absence
from airflow_provider.membership.join_reasons import DELAY_OVER, HAVE_STOPPED, OTHERS_BEGAN, OVERTAKEN, STARTS
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.bridge import BRIDGE
from airflow_provider.protocol.model import MemberId, WorkerId

FREE_SLOT: Final = "a worker has a slot free while tasks wait elsewhere"
WAITS_AT_DRAINING: Final = "tasks wait at a worker that drains"
FOR_WHAT_WAITS: Final = frozenset({FREE_SLOT, WAITS_AT_DRAINING})
"""Why a leader has the group rebalance for the sake of tasks that wait: nothing that runs is to stop for that."""

_STEPS: Final = (HAVE_STOPPED, DELAY_OVER)
"""Why a member joins that goes on with what an earlier round began."""
_SAYS_LITTLE: Final = (OTHERS_BEGAN, OVERTAKEN, STARTS)
_NAMED: Final = 3
_BEFORE: Final = "; before that: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a round happens.

    :param reason: what began the chain of rounds that this one is of
    :param step: what of it this round goes on with; empty in the first one
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
    """Why the group rebalances, as far as it shows.

    :param absent: what workers that were in the last round have said of their absence
    :param wishes: what members have joined for, by what they say of themselves
    :param otherwise: what made the leader join, where nothing else is known
    """
    if last is None:
        return Cause(reason="; ".join(_came(members, frozenset())) or wishes or otherwise)
    asked = wishes or otherwise
    step = _step(last, now_ms) or (asked if asked in _STEPS else "")
    new = "; ".join(_changes(members, absent, last)) or (wishes if wishes != _newest(last) else "")
    if step and not new:
        return Cause(reason=last.reason or step, step=step)
    new = new or (_restarted(members, last) if asked in _SAYS_LITTLE else "") or asked
    return Cause(reason=f"{new}{_BEFORE}{_origin(last)}" if _goes_on(last) else new)


def lost_since(
    members: Mapping[WorkerId, MemberId], absent: Mapping[WorkerId, Absence], last: ClassicRecord | None
) -> frozenset[WorkerId]:
    """Who was in the last round, and has gone since without a word of an end in order.

    A worker of another make says nothing, however it goes: it is a dynamic member, whose name is its member id.
    """
    if last is None:
        return frozenset()
    ours = (worker for worker, member_id in last.members.items() if worker not in (member_id, BRIDGE))
    return frozenset(
        worker
        for worker in ours
        if worker not in members and ((absence := absent.get(worker)) is None or absence.left is None)
    )


def _goes_on(last: ClassicRecord) -> bool:
    """Whether the last round has left something for another, and says what began it."""
    return (last.revokes or last.deadline_ms > 0) and last.reason not in ("", *_STEPS)


def _step(last: ClassicRecord, now_ms: int) -> str:
    """What the last round left to be done, whichever member joined first for it."""
    if last.revokes:
        return HAVE_STOPPED
    if 0 < last.deadline_ms <= now_ms:
        return DELAY_OVER if last.memory.ends_ms else "the next tasks may move"
    return ""


def _newest(last: ClassicRecord) -> str:
    """What the last round was for. Members repeat a wish until it has come true."""
    return last.reason.partition(_BEFORE)[0]


def _origin(last: ClassicRecord) -> str:
    """What began the chain. A group that is never done would name more and more."""
    return last.reason.rpartition(_BEFORE)[2]


def _changes(
    members: Mapping[WorkerId, MemberId], absent: Mapping[WorkerId, Absence], last: ClassicRecord
) -> Iterator[str]:
    """Who came and who went since the last round."""
    waited_for = frozenset(last.memory.assignment) if last.memory.ends_ms else frozenset()
    yield from _came(members.keys() - last.members.keys(), waited_for)
    ends: defaultdict[str, list[WorkerId]] = defaultdict(list)
    for worker in sorted(last.members.keys() - members.keys()):
        ends[_end(absent.get(worker))].append(worker)
    for end, workers in ends.items():
        yield f"{names_in_short(workers)} {end}"


def _came(workers: Iterable[WorkerId], waited_for: AbstractSet[WorkerId]) -> Iterator[str]:
    came = frozenset(workers)
    if joined := sorted(came - waited_for):
        yield f"{names_in_short(joined)} joined"
    if back := sorted(came & waited_for):
        yield f"{names_in_short(back)} came back"


def _restarted(members: Mapping[WorkerId, MemberId], last: ClassicRecord) -> str:
    """Who is in the group under another member id than in the last round: another process, or one that was cut off."""
    again = sorted(name for name, member_id in members.items() if last.members.get(name, member_id) != member_id)
    return f"{names_in_short(again)} came back" if again else ""


def _end(absence: Absence | None) -> str:
    """How a worker went. Who has said nothing of an end in order was lost: its session ran out, or it was late."""
    if absence is None:
        return "went away"
    return "got lost" if absence.left is None else f"left ({absence.left.value})"


def names_in_short(workers: Sequence[WorkerId]) -> str:
    """The first few by name: a thousand may come together, and the record is read by each of them."""
    others = len(workers) - _NAMED
    if others <= 1:
        return ", ".join(workers)
    return f"{', '.join(workers[:_NAMED])} and {others} others"
