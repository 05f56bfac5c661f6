"""What a coordinator knows of one group and does not record. The next coordinator starts without it."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.group.declarative.coordinator.assignors.prepared import Prepared
from airflow_provider.group.declarative.coordinator.assignors.selection import Selected
from airflow_provider.group.declarative.coordinator.events import BridgeSaid, RequestId
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.protocol.model import CurrentAssignment, MemberEpoch
from airflow_provider.values.model import Epoch, MemberId, TaskId, Tasks


@dataclass(frozen=True, slots=True)
class Held:
    """A heartbeat that is answered when there is news for its member, at the latest after the heartbeat interval.

    :param member_epoch: the epoch in the heartbeat
    """

    request: RequestId
    member_epoch: MemberEpoch
    arrived_ms: int


@dataclass(slots=True)
class Computing:
    """The computation of the next target by a chosen member.

    :param known: the member was told that it is chosen
    :param prepared: the state that it was sent last
    """

    selected: Selected
    known: bool = False
    prepared: Prepared | None = None


@dataclass(slots=True)
class Desk:
    """The state of one group, with what is not recorded.

    :param unrecorded: the configured tasks according to the group's topics, if the records differ
    :param held: the held heartbeat of each member: one at most
    :param sent: the assignment in the last answer to each member
    :param computing: the computation of the next target, while a member does it
    :param last_computed: the member that has computed the last target
    :param failed: members that were chosen for the next target and did not install a valid one in time
    :param stuck: why no target is computed for the group's epoch
    :param replaced: former members whose instance ids other members have now, as long as they hold tasks
    :param bridge: what the group's bridge has said last, where groups have one; None: it is not in the classic group
    :param given_in: tasks that the bridge was given after the target was computed, with the epoch of that round.
        Assigned from the present target, a task would run in an epoch below that of the classic worker which had it
    :param wants_epoch: a new epoch is needed, and the bridge has none yet
    """

    state: GroupState
    unrecorded: Tasks | None = None
    held: dict[MemberId, Held] = field(default_factory=dict)
    sent: dict[MemberId, CurrentAssignment] = field(default_factory=dict)
    computing: Computing | None = None
    last_computed: MemberId | None = None
    failed: set[MemberId] = field(default_factory=set)
    stuck: str | None = None
    replaced: set[MemberId] = field(default_factory=set)
    bridge: BridgeSaid | None = None
    given_in: dict[TaskId, Epoch] = field(default_factory=dict)
    wants_epoch: bool = False

    @property
    def to_run(self) -> Tasks:
        """The configured tasks, by the latest information."""
        return self.state.configured if self.unrecorded is None else self.unrecorded

    def forget(self, member_id: MemberId) -> None:
        """Forget what concerns a member that has left or was removed."""
        self.sent.pop(member_id, None)
        self.failed.discard(member_id)
        if self.computing is not None and self.computing.selected.member_id == member_id:
            self.computing = None

    def is_chosen(self, member_id: MemberId) -> bool:
        """Whether this member is the one that computes the next target."""
        return self.computing is not None and self.computing.selected.member_id == member_id
