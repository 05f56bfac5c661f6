"""The eager assignor: everything is dealt out anew, whoever had it.

What a member has already it keeps, and only the rest is stopped: what stays the coordinator sees. So nobody stops all
it has, as in Connect's eager protocol.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.assignors import eager
from airflow_provider.client_assignors.client_assignor import Assignment, Group, Metadata, Reason, WorkerFacts
from airflow_provider.client_assignors.facts import EAGER, encode_facts
from airflow_provider.declarative.model import MemberTarget
from airflow_provider.protocol.model import MemberId, WorkerId


@dataclass(frozen=True, slots=True)
class EagerAssignor:
    """Connect's ``EagerAssignor``."""

    name: str = "eager"
    minimum_version: int = EAGER
    maximum_version: int = EAGER

    def metadata(self, facts: WorkerFacts) -> Metadata:
        return Metadata(reason=Reason.NONE, version=EAGER, metadata=encode_facts(facts, EAGER))

    def assign(self, group: Group) -> Assignment:
        """:raises ValueError: for a group without members"""
        dealt = eager.assign([WorkerId(member) for member in group.members], group.configured, group.costs)
        return Assignment(members={MemberId(member): MemberTarget(tasks=tasks) for member, tasks in dealt.items()})

    def on_assignment(self, assignment: MemberTarget) -> int | None:  # noqa: ARG002  # nothing ever waits
        return None
