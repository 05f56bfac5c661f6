"""Which assignor a group uses, and which of its members runs it.

- **Usable** is an assignor that all members have, and of which one member reads every version that any of them reads:
  of A [1-5], B [3-4] and C [2-4] that is A. It may get metadata of any of these versions, now or after the next
  heartbeat.
- **Precedence.** Each member votes for the first usable one in its list; the one with the most votes is selected, and
  of those with equally many the first by name. So Kafka's coordinator selects the protocol of a classic group, and
  KIP-848 a server side assignor.
- **Sticky.** Who computed last computes again: what it has read of the group's topics is warm, and nobody has to find
  out anew who does it. There is no other reason, since nothing is kept at that member: when it has left or did not hand
  one in, in time, it is the member that has been there longest.
- A group whose members can't agree has no assignor, and keeps its target until somebody joins or leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider.declarative.model import ClientAssignor, Member
from airflow_provider.protocol.in_short import in_short
from airflow_provider.protocol.model import MemberId


@dataclass(frozen=True, slots=True)
class Selected:
    """:param assignor: its name"""

    assignor: str
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class NobodyFits:
    """:param reason: why, naming who stands in the way of whom"""

    reason: str


def select(
    members: Mapping[MemberId, Member], *, last: MemberId | None = None, failed: Container[MemberId] = ()
) -> Selected | NobodyFits:
    """Who is to compute the next target of a group, and with which assignor.

    :param members: one or more, all with client assignors, in the order in which they joined
    :param last: who has computed the last target
    :param failed: who did not hand one in, in time; only if nobody else can
    """
    shared = _shared(members)
    if not shared:
        return NobodyFits(f"no assignor is supported by all workers: {_lists(members)}")
    able = {name: _able(of_each) for name, of_each in shared.items()}
    usable = {name for name, who in able.items() if who}
    if not usable:
        return NobodyFits("; ".join(_too_narrow(name, of_each) for name, of_each in sorted(shared.items())))
    name = _voted(members.values(), usable)
    fit = [member_id for member_id in able[name] if member_id not in failed] or able[name]
    return Selected(name, last if last is not None and last in fit else fit[0])


def unsupported(members: Mapping[MemberId, Member], member_id: MemberId, member: Member) -> str | None:
    """Why this member can't be in a group with the others; None if it can.

    It can, if of one of its assignors all others have a version range that overlaps with its own. That somebody reads
    all versions is another matter, which may change with the next one who joins.

    :param members: of the group, with or without this one
    """
    others = {one: other for one, other in members.items() if one != member_id}
    for one, other in others.items():
        if bool(other.client_assignors) != bool(member.client_assignors):
            own, its = _kind(member), _kind(other)
            return f"worker {member_id} has {own}, and worker {one} {its}: a group has one or the other"
    if not others or not member.client_assignors:
        return None
    problems = []
    for assignor in member.client_assignors:
        problem = next(_at_odds(assignor, others), None)
        if problem is None:
            return None
        problems.append(problem)
    return f"worker {member_id} has no assignor in common with all others: {'; '.join(problems)}"


def _shared(members: Mapping[MemberId, Member]) -> dict[str, dict[MemberId, ClientAssignor]]:
    """The assignors that all have, each with what it is at each member."""
    by_name: dict[str, dict[MemberId, ClientAssignor]] = {}
    for member_id, member in members.items():
        for assignor in member.client_assignors:
            by_name.setdefault(assignor.name, {})[member_id] = assignor
    return {name: of_each for name, of_each in by_name.items() if len(of_each) == len(members)}


def _able(of_each: Mapping[MemberId, ClientAssignor]) -> list[MemberId]:
    """Who reads all versions."""
    lowest, highest = _span(of_each.values())
    return [
        member_id
        for member_id, assignor in of_each.items()
        if assignor.minimum_version <= lowest and assignor.maximum_version >= highest
    ]


def _span(assignors: Iterable[ClientAssignor]) -> tuple[int, int]:
    ranges = [(assignor.minimum_version, assignor.maximum_version) for assignor in assignors]
    return min(lowest for lowest, _ in ranges), max(highest for _, highest in ranges)


def _voted(members: Iterable[Member], usable: Container[str]) -> str:
    votes = Counter(
        next(assignor.name for assignor in member.client_assignors if assignor.name in usable) for member in members
    )
    return min(votes, key=lambda name: (-votes[name], name))


def _at_odds(assignor: ClientAssignor, others: Mapping[MemberId, Member]) -> Iterator[str]:
    """Who does not have it, or not in a version of this range."""
    lowest, highest = assignor.minimum_version, assignor.maximum_version
    for member_id, other in others.items():
        its = next((one for one in other.client_assignors if one.name == assignor.name), None)
        if its is None:
            yield f"worker {member_id} does not have {assignor.name!r}"
        elif its.maximum_version < lowest or its.minimum_version > highest:
            theirs = f"{its.minimum_version} to {its.maximum_version}"
            yield f"worker {member_id} reads versions {theirs} of {assignor.name!r}, and not {lowest} to {highest}"


def _too_narrow(name: str, of_each: Mapping[MemberId, ClientAssignor]) -> str:
    lowest, highest = _span(of_each.values())
    by_range: dict[str, list[str]] = {}
    for member_id, assignor in of_each.items():
        by_range.setdefault(f"{assignor.minimum_version} to {assignor.maximum_version}", []).append(member_id)
    who = ", ".join(f"{in_short(members)} {theirs}" for theirs, members in sorted(by_range.items()))
    return f"no worker reads versions {lowest} to {highest} of assignor {name!r}: {who}"


def _lists(members: Mapping[MemberId, Member]) -> str:
    by_list: dict[str, list[str]] = {}
    for member_id, member in members.items():
        by_list.setdefault(", ".join(one.name for one in member.client_assignors) or "none", []).append(member_id)
    return "; ".join(f"{in_short(who)} {'has' if len(who) == 1 else 'have'} {names}" for names, who in by_list.items())


def _kind(member: Member) -> str:
    return "client side assignors" if member.client_assignors else "none of its own"
