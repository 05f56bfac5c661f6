"""The eager assignor: shares out all tasks anew, whichever member had them.

Unlike in Connect's eager protocol, members do not stop all tasks: the coordinator sees which of them stay where they
are, and only revokes the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.assignment import eager_assignor
from airflow_provider.group.declarative.assignors.client_assignor import (
    Assignment,
    Group,
    Metadata,
    Reason,
    WorkerFacts,
)
from airflow_provider.group.declarative.assignors.facts import EAGER, encode_facts
from airflow_provider.group.declarative.protocol.model import MemberTarget
from airflow_provider.values.model import MemberId, WorkerId


@dataclass(frozen=True, slots=True)
class EagerAssignor:
    """Connect's ``EagerAssignor``."""

    name: str = "eager"
    minimum_version: int = EAGER
    maximum_version: int = EAGER

    def metadata(self, facts: WorkerFacts) -> Metadata:
        """What a member says: only its url."""
        return Metadata(reason=Reason.NONE, version=EAGER, metadata=encode_facts(facts, EAGER))

    def assign(self, group: Group) -> Assignment:
        """Compute the target of each member.

        :raises ValueError: the group has no members
        """
        dealt = eager_assignor.assign([WorkerId(member) for member in group.members], group.configured, group.costs)
        return Assignment(members={MemberId(member): MemberTarget(tasks=tasks) for member, tasks in dealt.items()})

    def on_assignment(self, assignment: MemberTarget) -> int | None:  # noqa: ARG002  # no task is ever delayed
        """Never ask for another assignment."""
        return None
