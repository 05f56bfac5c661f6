"""What a coordinator keeps of one group. Only a record changes it, so it is what replaying the records gives."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from airflow_provider.coordinator import values
from airflow_provider.coordinator.settings import DEFAULTS, GroupConfiguration
from airflow_provider.declarative.model import (
    CurrentAssignment,
    Group,
    GroupEpoch,
    Member,
    TargetAssignment,
)
from airflow_provider.declarative.wire.keys import (
    ConnectWorkerGroupConfigurationKey,
    ConnectWorkerGroupConnectorsTasksMetadataKey,
    ConnectWorkerGroupCurrentMemberAssignmentKey,
    ConnectWorkerGroupMemberMetadataKey,
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupTargetAssignmentKey,
)
from airflow_provider.declarative.wire.records import Record
from airflow_provider.protocol.model import NO_TASKS, MemberId, TaskId, Tasks


@dataclass(frozen=True, slots=True)
class Kind:
    """What members are asked for that want to be in one group: those of one kind are alike in that.

    :param ranges: of its client assignors, the preferred one first: name, minimum and maximum version
    """

    server_assignor: str | None
    ranges: tuple[tuple[str, int, int], ...]


def kind_of(member: Member) -> Kind:
    return Kind(
        member.server_assignor,
        tuple((one.name, one.minimum_version, one.maximum_version) for one in member.client_assignors),
    )


class GroupState:
    """A group as its records say. To be read by all, and changed by :meth:`apply`.

    ``earlier_session_ms`` is that of a session which members may have been granted before it was set to a shorter one.
    ``current`` may have members that ``members`` has not: they were removed while they may still run something, and
    hold it until their session would have ended (:attr:`lingering`).
    """

    __slots__ = (
        "_current",
        "_holders",
        "_instances",
        "_kinds",
        "_lingering",
        "_members",
        "_wanted_by",
        "configuration",
        "configured",
        "earlier_session_ms",
        "epoch",
        "group_id",
        "target",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = GroupEpoch(0)
        self.configured: Tasks = NO_TASKS
        self.configuration: GroupConfiguration = DEFAULTS
        self.earlier_session_ms = 0
        self.target = TargetAssignment()
        self._members: dict[MemberId, Member] = {}
        self._current: dict[MemberId, CurrentAssignment] = {}
        self._holders: dict[TaskId, MemberId] = {}
        self._wanted_by: dict[TaskId, MemberId] = {}
        self._kinds: dict[Kind, dict[MemberId, None]] = {}
        self._instances: dict[str, MemberId] = {}
        self._lingering: dict[MemberId, None] = {}

    @property
    def members(self) -> Mapping[MemberId, Member]:
        """In the order in which they joined."""
        return MappingProxyType(self._members)

    @property
    def current(self) -> Mapping[MemberId, CurrentAssignment]:
        return MappingProxyType(self._current)

    @property
    def holders(self) -> Mapping[TaskId, MemberId]:
        """By which member a task is held (``assigned`` or ``revoking``)."""
        return MappingProxyType(self._holders)

    @property
    def wanted_by(self) -> Mapping[TaskId, MemberId]:
        """In whose target a task is."""
        return MappingProxyType(self._wanted_by)

    @property
    def instances(self) -> Mapping[str, MemberId]:
        """The static members, by their instance ids."""
        return MappingProxyType(self._instances)

    @property
    def kinds(self) -> Mapping[Kind, Mapping[MemberId, None]]:
        """The members of each kind: there are few kinds, however many members."""
        return MappingProxyType(self._kinds)

    @property
    def lingering(self) -> Set[MemberId]:
        """Who is no member any more, and still holds tasks."""
        return self._lingering.keys()

    @property
    def is_recorded(self) -> bool:
        """Whether any record speaks of it."""
        return bool(self.epoch or self._current or self._members or self.configuration != DEFAULTS)

    @property
    def group(self) -> Group:
        """What an assignment is made of, as a value: it stays as it is. Takes a look at each member."""
        return Group(epoch=self.epoch, members=dict(self._members), configured=self.configured)

    def apply(self, record: Record) -> None:
        """:raises RemoteProtocolError: the record's value makes no sense"""
        match record.key:
            case ConnectWorkerGroupMetadataKey():
                self.epoch = values.epoch_of(record.value)
            case ConnectWorkerGroupConnectorsTasksMetadataKey():
                self.configured = values.configured_of(record.value)
            case ConnectWorkerGroupMemberMetadataKey(member_id=member_id):
                self._apply_member(member_id, values.member_of(record.value))
            case ConnectWorkerGroupTargetAssignmentKey():
                self.target = values.target_of(record.value)
                self._wanted_by = {task: who for who, target in self.target.members.items() for task in target.tasks}
            case ConnectWorkerGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, values.current_of(record.value))
            case ConnectWorkerGroupConfigurationKey():
                self.configuration = values.configuration_of(record.value)
                self.earlier_session_ms = values.earlier_session_of(record.value)

    def _apply_member(self, member_id: MemberId, after: Member | None) -> None:
        before = self._members.get(member_id)
        if before is not None:
            self._forget(member_id, before)
        if after is None:
            self._members.pop(member_id, None)
        else:
            self._members[member_id] = after
            self._kinds.setdefault(kind_of(after), {})[member_id] = None
            if after.instance_id:
                self._instances[after.instance_id] = member_id
        self._see_lingering(member_id)

    def _forget(self, member_id: MemberId, member: Member) -> None:
        """What is looked up by what a member says of itself."""
        kind = kind_of(member)
        del self._kinds[kind][member_id]
        if not self._kinds[kind]:
            del self._kinds[kind]
        if member.instance_id and self._instances.get(member.instance_id) == member_id:
            del self._instances[member.instance_id]

    def _apply_current(self, member_id: MemberId, after: CurrentAssignment | None) -> None:
        before = self._current.get(member_id)
        if before is not None:
            for task in before.held if after is None else before.held - after.held:
                if self._holders.get(task) == member_id:
                    del self._holders[task]
        if after is None:
            self._current.pop(member_id, None)
        else:
            self._current[member_id] = after
            self._holders.update(dict.fromkeys(after.held, member_id))
        self._see_lingering(member_id)

    def _see_lingering(self, member_id: MemberId) -> None:
        if member_id in self._current and member_id not in self._members:
            self._lingering[member_id] = None
        else:
            self._lingering.pop(member_id, None)
