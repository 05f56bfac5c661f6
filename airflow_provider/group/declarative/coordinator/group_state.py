"""The state of one group, as its records give it. Only applying a record changes it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.settings import DEFAULTS, GroupConfiguration
from airflow_provider.group.declarative.protocol.model import (
    CurrentAssignment,
    Group,
    GroupEpoch,
    Member,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.wire.record_values import (
    ConnectWorkerGroupConfigurationKey,
    ConnectWorkerGroupConnectorsTasksMetadataKey,
    ConnectWorkerGroupCurrentMemberAssignmentKey,
    ConnectWorkerGroupMemberMetadataKey,
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupTargetAssignmentKey,
)
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import NO_TASKS, MemberId, TaskId, Tasks

Kind = tuple[tuple[str, int, int], ...]
"""What decides whether members fit into one group: the name, minimum and maximum version of each of their assignors,
the preferred one first. The members of a group have few different kinds.
"""


def kind_of(member: Member) -> Kind:
    return tuple((one.name, one.minimum_version, one.maximum_version) for one in member.client_assignors)


class GroupState:
    """A group according to its records. Only :meth:`apply` changes it.

    ``earlier_session_ms`` is a longer session that members may have been granted before people set a shorter one; 0:
    none. ``current`` may have members that ``members`` does not have. They were removed while they may still run tasks,
    and hold them until their session would have ended (:attr:`lingering`); or they have left, and whoever computes the
    next target has to know how (:attr:`last_said`).
    """

    __slots__ = (
        "_current",
        "_holders",
        "_instances",
        "_kinds",
        "_last_said",
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
        self._last_said: dict[MemberId, Member] = {}

    @property
    def members(self) -> Mapping[MemberId, Member]:
        """The members, in the order in which they joined."""
        return MappingProxyType(self._members)

    @property
    def current(self) -> Mapping[MemberId, CurrentAssignment]:
        """The current assignments of the members, and what is kept of former ones."""
        return MappingProxyType(self._current)

    @property
    def holders(self) -> Mapping[TaskId, MemberId]:
        """The member that holds each task (``assigned`` or ``revoking``)."""
        return MappingProxyType(self._holders)

    @property
    def wanted_by(self) -> Mapping[TaskId, MemberId]:
        """The member in whose target each task is."""
        return MappingProxyType(self._wanted_by)

    @property
    def instances(self) -> Mapping[str, MemberId]:
        """The static members, by instance id."""
        return MappingProxyType(self._instances)

    @property
    def kinds(self) -> Mapping[Kind, Mapping[MemberId, None]]:
        """The members of each kind."""
        return MappingProxyType(self._kinds)

    @property
    def lingering(self) -> Set[MemberId]:
        """The removed members that still hold tasks."""
        return self._lingering.keys()

    @property
    def last_said(self) -> Mapping[MemberId, Member]:
        """What former members that the target still names had said of themselves when they left."""
        return MappingProxyType(self._last_said)

    @property
    def is_recorded(self) -> bool:
        """Whether the group has any record."""
        return bool(self.epoch or self._current or self._members or self.configuration != DEFAULTS)

    @property
    def group(self) -> Group:
        """The input of an assignment, as a value. Copies the members, which takes long in a large group."""
        return Group(epoch=self.epoch, members=dict(self._members), configured=self.configured)

    def apply(self, record: Record) -> None:
        """Change the state as a record says.

        :raises RemoteProtocolError: the record has an invalid value
        """
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
        self._update_lingering(member_id)

    def _forget(self, member_id: MemberId, member: Member) -> None:
        """Remove a member from the tables by kind and by instance id."""
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
        self._last_said.pop(member_id, None)
        if after is None:
            self._current.pop(member_id, None)
        else:
            self._current[member_id] = after
            self._holders.update(dict.fromkeys(after.held, member_id))
            if after.last_said is not None:
                self._last_said[member_id] = after.last_said
        self._update_lingering(member_id)

    def _update_lingering(self, member_id: MemberId) -> None:
        current = self._current.get(member_id)
        if current is not None and current.held and member_id not in self._members:
            self._lingering[member_id] = None
        else:
            self._lingering.pop(member_id, None)
