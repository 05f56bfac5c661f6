"""Which assignor a group uses, and which of its members runs it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from airflow_provider.declarative.model import Member
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

    :param members: one or more, all with client assignors
    :param last: who has computed the last target: again, if it can, so that it knows what it had in mind
    :param failed: who did not hand one in, in time; only if nobody else can
    """
    fit = [member_id for member_id in members if member_id not in failed] or list(members)
    member_id = last if last in fit else fit[0]
    return Selected(members[member_id].client_assignors[0].name, member_id)


def unsupported(members: Mapping[MemberId, Member], member_id: MemberId, member: Member) -> str | None:
    """Why this member can't be in a group with the others; None if it can.

    :param members: of the group, with or without this one
    """
    if not members or not member.client_assignors:
        return None
    shared = set.intersection(*({one.name for one in other.client_assignors} for other in members.values()))
    if shared.isdisjoint(one.name for one in member.client_assignors):
        return f"{member_id} has none of the assignors that all others have: {', '.join(sorted(shared))}"
    return None
