"""The state of a member: one frozen value."""

from __future__ import annotations

from enum import Enum

from airflow_provider.group.classic.member.lessons import NO_LESSONS, Lessons
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.machine.state import CommonChanges, CommonState
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    Assignment,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
)


class Phase(str, Enum):
    """The phases of a membership."""

    INITIAL = "initial"
    """Made, but not started."""
    UNJOINED = "unjoined"
    """Looks for its coordinator, or waits until it may join."""
    PREPARING_REBALANCE = "preparing rebalance"
    """Has sent JoinGroup; keeps running what it owns."""
    COMPLETING_REBALANCE = "completing rebalance"
    """The generation is known; waits for the assignment (the leader computes it)."""
    STABLE = "stable"
    """Has its assignment; heartbeats."""
    LEAVING = "leaving"
    """Stops everything, then sends LeaveGroup."""
    LEFT = "left"
    """Out of the group, as it wanted."""
    FENCED = "fenced"
    """Another process has taken this worker's name."""
    FAILED = "failed"
    """The coordinator refused it for a reason that retrying does not mend."""

    @property
    def ended(self) -> bool:
        """Whether the membership has ended."""
        return self in (Phase.LEFT, Phase.FENCED, Phase.FAILED)


class StateChanges(CommonChanges, total=False):
    """The fields of a :class:`MemberState` that events change: all but ``settings``. Repeated for mypy, which can't
    derive such a type from a dataclass; a test compares both.
    """

    phase: Phase
    coordinator: int | None
    url: str | None
    member_id: MemberId
    former_id: MemberId
    generation: GenerationId
    leader: MemberId
    protocol: SubProtocol | None
    last_completed: GenerationId
    last_leader: MemberId
    epoch: Epoch
    spoken_epoch: Epoch
    record: ClassicRecord | None
    record_at: int
    told_delay_ms: int
    another_round: bool
    lessons: Lessons
    leaving_soon: str | None
    returning: bool
    may_be_forgotten: bool
    unadopted: Assignment | None
    unpublished: ClassicRecord | None
    rejoin_reason: str | None
    join_reason: str
    join_sent_at: int
    joining_since: int | None
    heard_at: int
    heartbeat_sent_at: int
    heartbeat_step: int
    hinted: bool
    rebalance_deadline: int | None
    retry_at: int | None
    rejoin_at: int | None
    join_by: int | None
    record_by: int | None
    sync_by: int | None


class MemberState(CommonState, frozen=True, kw_only=True):
    """Everything a member knows.

    :param url: replaces the settings' url
    :param lessons: what it learns, and which of its tasks others learn; nothing that it learns is in ``owned``
    :param leaving_soon: why it is to leave when others have taken over its tasks
    :param former_id: the member id with which it was last expelled
    :param spoken_epoch: the highest epoch in which anybody had written when this process began
    :param record_at: when the record was written
    :param told_delay_ms: the scheduled delay of the last completed round
    :param another_round: the leader has said that others join again as soon as their revoked tasks have stopped
    :param returning: it joined without a member id, so the coordinator may answer with an assignment of long ago
    :param may_be_forgotten: the coordinator was looked for again since it gave the member id, and no round has been
        completed since, so it may not know this member any more
    :param unadopted: an assignment of which it isn't known yet whether it is of this round
    :param unpublished: the record of the round that this member leads, until the coordinator has the assignment
    :param rejoin_reason: why to join again as soon as nothing is stopping any more
    :param joining_since: when the first of the unanswered JoinGroups was sent
    :param heard_at: at this time or later the coordinator said that no rebalance was under way
    :param hinted: a rebalance was hinted at since the last heartbeat, which is not answered yet
    :param join_by: when to join, even if tasks are still stopping
    :param rebalance_deadline: the coordinator then continues without members that have not joined, and expels those
        that have joined and not asked for their assignments
    """

    settings: MemberSettings
    phase: Phase = Phase.INITIAL
    coordinator: int | None = None

    url: str | None = None
    member_id: MemberId = UNKNOWN_MEMBER_ID
    former_id: MemberId = UNKNOWN_MEMBER_ID
    generation: GenerationId = NO_GENERATION
    leader: MemberId = UNKNOWN_MEMBER_ID
    protocol: SubProtocol | None = None
    last_completed: GenerationId = NO_GENERATION
    last_leader: MemberId = UNKNOWN_MEMBER_ID
    epoch: Epoch = Epoch(0)
    spoken_epoch: Epoch = Epoch(0)
    record: ClassicRecord | None = None
    record_at: int = 0
    told_delay_ms: int = 0
    another_round: bool = False

    lessons: Lessons = NO_LESSONS
    leaving_soon: str | None = None

    returning: bool = True
    may_be_forgotten: bool = False
    unadopted: Assignment | None = None
    unpublished: ClassicRecord | None = None
    rejoin_reason: str | None = None
    join_reason: str = ""

    join_sent_at: int = 0
    joining_since: int | None = None
    heard_at: int = 0
    heartbeat_sent_at: int = 0
    heartbeat_step: int = 0
    hinted: bool = False
    rebalance_deadline: int | None = None
    retry_at: int | None = None
    rejoin_at: int | None = None
    join_by: int | None = None
    record_by: int | None = None
    sync_by: int | None = None

    @property
    def awaits_heartbeat(self) -> bool:
        """Whether the last heartbeat is not answered yet."""
        return self.heard_at < self.heartbeat_sent_at

    @property
    def is_leader(self) -> bool:
        return self.member_id != UNKNOWN_MEMBER_ID and self.member_id == self.leader

    @property
    def learns(self) -> bool:
        """Whether the group learns tasks before they move."""
        return self.protocol is not None and self.protocol.learns

    def next_deadline(self) -> int | None:
        """When the member has to be called again if nothing else happens."""
        due = (
            self.lease_stop_at,
            self.heartbeat_at,
            self.retry_at,
            self.rejoin_at,
            self.join_by,
            self.record_by,
            self.sync_by,
            self.leave_by,
            self.hold_until if self.held or self.phase is Phase.LEAVING else None,
        )
        return min((at for at in due if at is not None), default=None)

    def validate(self) -> None:
        """Check invariants.

        :raises LocalProtocolError: naming the broken one
        """
        rules = {
            "what is learned is another's": not self.lessons.learning & self.owned,
            "a stable member has a member id": self.phase is not Phase.STABLE or self.member_id != UNKNOWN_MEMBER_ID,
            "a stable member has a generation": self.phase is not Phase.STABLE or self.generation != NO_GENERATION,
            "an ended member wants no timer": not self.phase.ended or self.next_deadline() is None,
            "a rebalance is waited for by one request": self.phase
            not in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
            or self.awaiting is not None,
            "a stable member heartbeats": self.phase is not Phase.STABLE or self.heartbeat_at is not None,
            "who wants in or out waits for an answer, a time, or tasks that stop": self.phase
            not in (Phase.UNJOINED, Phase.LEAVING)
            or self.awaiting is not None
            or self.retry_at is not None
            or bool(self.stopping)
            or (self.phase is Phase.LEAVING and self.hold_until is not None),
        }
        self.check(rules)
