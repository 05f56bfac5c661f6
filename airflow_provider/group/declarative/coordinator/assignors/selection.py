"""Selects the assignor that a group uses, and the member that runs it.

- **Usable.** All members have the assignor, and at least one member reads every version that any of them reads: of
  A [1-5], B [3-4] and C [2-4] that is A. It may get metadata of any of these versions, now or after the next
  heartbeat.
- **Precedence.** Each member votes for the first usable assignor in its list. The one with the most votes is selected;
  ties go by name. This is how Kafka's coordinator selects the protocol of a classic group, and KIP-848 a server side
  assignor.
- **Sticky.** The member that computed last computes again: it has already read the group's topics, and it is always the
  same one. If it has left, or did not install a target in time, the member that has been there longest is selected.
  Nothing is lost with a member, because none keeps any state.
- If no assignor is usable, the group keeps its target until a member joins or leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider.group.declarative.protocol.model import Member
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected assignor and member.

    :param assignor: the assignor's name
    """

    assignor: str
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class NobodyFits:
    """No member can compute a target.

    :param reason: why, with the names of the members that do not fit together
    """

    reason: str


def select(
    members: Mapping[MemberId, Member], *, last: MemberId | None = None, failed: Container[MemberId] = ()
) -> Selected | NobodyFits:
    """Select the member that computes the next target of a group, and the assignor.

    :param members: one or more, in the order in which they joined
    :param last: the member that has computed the last target
    :param failed: members that are selected only if no other one can be: they did not install a target in time
    """
    shared = _shared(members)
    if not shared:
        return NobodyFits(f"no assignor is supported by all workers: {_lists(members)}")
    able = {name: _read_all_versions(of_each) for name, of_each in shared.items()}
    usable = {name for name, who in able.items() if who}
    if not usable:
        return NobodyFits("; ".join(_too_narrow(name, of_each) for name, of_each in sorted(shared.items())))
    name = _voted(members.values(), usable)
    fit = [member_id for member_id in able[name] if member_id not in failed] or able[name]
    return Selected(name, last if last is not None and last in fit else fit[0])


def unsupported(members: Mapping[MemberId, Member], member_id: MemberId, member: Member) -> str | None:
    """Why this member can't be in a group with the others; None if it can.

    It can be if all others have one of its assignors, in overlapping version ranges. That a member reads all versions
    is not required here, because this may change with the next member that joins.

    :param members: the members of the group, with or without this one
    """
    others = {one: other for one, other in members.items() if one != member_id}
    if not others:
        return None
    problems = []
    for assignor in member.client_assignors:
        problem = next(_conflicts(assignor, others), None)
        if problem is None:
            return None
        problems.append(problem)
    return f"worker {member_id} has no assignor in common with all others: {'; '.join(problems)}"


def _shared(members: Mapping[MemberId, Member]) -> dict[str, dict[MemberId, Assignor]]:
    """The assignors that all members have, by name and member."""
    by_name: dict[str, dict[MemberId, Assignor]] = {}
    for member_id, member in members.items():
        for assignor in member.client_assignors:
            by_name.setdefault(assignor.name, {})[member_id] = assignor
    return {name: of_each for name, of_each in by_name.items() if len(of_each) == len(members)}


def _read_all_versions(of_each: Mapping[MemberId, Assignor]) -> list[MemberId]:
    """The members that read all versions that any of them reads."""
    lowest, highest = _span(of_each.values())
    return [
        member_id
        for member_id, assignor in of_each.items()
        if assignor.minimum_version <= lowest and assignor.maximum_version >= highest
    ]


def _span(assignors: Iterable[Assignor]) -> tuple[int, int]:
    ranges = [(assignor.minimum_version, assignor.maximum_version) for assignor in assignors]
    return min(lowest for lowest, _ in ranges), max(highest for _, highest in ranges)


def _voted(members: Iterable[Member], usable: Container[str]) -> str:
    votes = Counter(
        next(assignor.name for assignor in member.client_assignors if assignor.name in usable) for member in members
    )
    return min(votes, key=lambda name: (-votes[name], name))


def _conflicts(assignor: Assignor, others: Mapping[MemberId, Member]) -> Iterator[str]:
    """The members that do not have the assignor in a version of its range, in words."""
    lowest, highest = assignor.minimum_version, assignor.maximum_version
    for member_id, other in others.items():
        its = next((one for one in other.client_assignors if one.name == assignor.name), None)
        if its is None:
            yield f"worker {member_id} does not have {assignor.name!r}"
        elif its.maximum_version < lowest or its.minimum_version > highest:
            theirs = f"{its.minimum_version} to {its.maximum_version}"
            yield f"worker {member_id} reads versions {theirs} of {assignor.name!r}, and not {lowest} to {highest}"


def _too_narrow(name: str, of_each: Mapping[MemberId, Assignor]) -> str:
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
