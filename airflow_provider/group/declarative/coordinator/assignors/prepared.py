"""The state from which a target is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.group.declarative.protocol.model import Group, Member, MemberTarget, TargetAssignment
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True)
class Prepared:
    """The state from which an assignment is computed. The result is validated against it, too, because the group may
    have changed in the meantime.

    :param assignor: the name of the selected assignor
    :param target: the last target assignment
    :param last_said: what members that have left had said of themselves: how they leave, and under which instance id
        they may be back. Members of which nothing is known are treated as lost ones
    """

    group: Group
    assignor: str
    target: TargetAssignment = field(default_factory=TargetAssignment)
    last_said: Mapping[MemberId, Member] = field(default_factory=dict)

    @property
    def departed(self) -> dict[MemberId, MemberTarget]:
        """The members of the last target that have left, and those for which it delays tasks: these may be back."""
        gone = {one: target for one, target in self.target.members.items() if one not in self.group.members}
        return gone | dict(self.target.delayed)

    def said_by(self, departed: MemberId) -> Member | None:
        """What one of these says of itself if it is back, and otherwise had said when it left; None: not known."""
        return self.group.members.get(departed) or self.last_said.get(departed)
