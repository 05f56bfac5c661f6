"""What a coordinator has in mind of one group, beside its records: lost with it, and made anew by the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider.coordinator.events import BridgeSaid, RequestId
from airflow_provider.coordinator.installing import Prepared
from airflow_provider.coordinator.selection import Selected
from airflow_provider.coordinator.state import GroupState
from airflow_provider.declarative.model import CurrentAssignment, Member, MemberEpoch
from airflow_provider.protocol.model import Epoch, MemberId, TaskId, Tasks


@dataclass(frozen=True, slots=True)
class Held:
    """A heartbeat that is answered when there is something to say, or else after the heartbeat interval.

    :param member_epoch: that the heartbeat has
    """

    request: RequestId
    member_epoch: MemberEpoch
    arrived_ms: int


@dataclass(slots=True)
class Computing:
    """A member has been chosen to compute the next target.

    :param known: it has been told so
    :param prepared: what it was given last
    """

    selected: Selected
    known: bool = False
    prepared: Prepared | None = None


class MadeOf(NamedTuple):
    """What a target depends on, beside the time."""

    members: frozenset[MemberId]
    configured: Tasks


class Untaken(NamedTuple):
    """A target that no topic takes. To compute it again brings nothing until it is made of something else.

    :param why: for people
    """

    made_of: MadeOf
    why: str


@dataclass(slots=True)
class Desk:
    """One group, as it is worked on.

    :param unrecorded: what its topics say is configured, if the records do not say so yet
    :param held: at most one heartbeat of each member
    :param sent: what each member was answered last of what it has
    :param computing: who computes the next target
    :param last_computed: who has computed the last one
    :param failed: who was chosen for the next target and did not hand one in that is valid
    :param last_said: what former members have said of themselves that had something by the last target
    :param stuck: why there is no target for the group's epoch
    :param untaken: which one an assignor that is run here need not compute again
    :param replaced: former members whose instance ids others have now, as long as they hold something
    :param bridge: what the group's bridge has said last, where groups have one; None: it is not in the classic group
    :param given_in: in which epoch classic workers gave the bridge what no target has yet that was made since: by an
        earlier one somebody would run it in an epoch below theirs
    :param wants_epoch: something has happened that a new epoch is for, and the bridge has none yet
    """

    state: GroupState
    unrecorded: Tasks | None = None
    held: dict[MemberId, Held] = field(default_factory=dict)
    sent: dict[MemberId, CurrentAssignment] = field(default_factory=dict)
    computing: Computing | None = None
    last_computed: MemberId | None = None
    failed: set[MemberId] = field(default_factory=set)
    last_said: dict[MemberId, Member] = field(default_factory=dict)
    stuck: str | None = None
    untaken: Untaken | None = None
    replaced: set[MemberId] = field(default_factory=set)
    bridge: BridgeSaid | None = None
    given_in: dict[TaskId, Epoch] = field(default_factory=dict)
    wants_epoch: bool = False

    @property
    def to_run(self) -> Tasks:
        """What is configured, as far as it is known."""
        return self.state.configured if self.unrecorded is None else self.unrecorded

    @property
    def made_of(self) -> MadeOf:
        return MadeOf(frozenset(self.state.members), self.state.configured)

    def forget(self, member_id: MemberId) -> None:
        """It is no member any more."""
        self.sent.pop(member_id, None)
        self.failed.discard(member_id)
        if self.computing is not None and self.computing.selected.member_id == member_id:
            self.computing = None

    def is_chosen(self, member_id: MemberId) -> bool:
        return self.computing is not None and self.computing.selected.member_id == member_id
