"""A member's state: one frozen value, which can be saved as JSON and resumed in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from airflow_provider.membership.events import Predecessor
from airflow_provider.membership.model import (
    NO_GENERATION,
    NO_TASKS,
    UNKNOWN_MEMBER_ID,
    Assignment,
    ConfigOffset,
    Epoch,
    GenerationId,
    LocalProtocolError,
    MemberId,
    SubProtocol,
    Tasks,
    tasks_from_json,
    tasks_to_json,
)
from airflow_provider.membership.record import GroupRecord
from airflow_provider.membership.settings import MemberSettings


class Phase(str, Enum):
    """Where a member stands with its coordinator."""

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
    """Out of the group by its own will."""
    FENCED = "fenced"
    """Another process has taken this worker's name."""
    FAILED = "failed"
    """The coordinator refused for a reason that trying again does not mend."""

    @property
    def ended(self) -> bool:
        return self in (Phase.LEFT, Phase.FENCED, Phase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Everything a member knows. All times are monotonic milliseconds, None where nothing is due.

    :param awaiting: ``seq`` of the one request (other than heartbeats) whose answer is waited for
    :param owned: what this worker has: running, held back, or stopping; what it reports when it joins
    :param held: the part of ``owned`` that may not be started yet
    :param stopping: the part of ``owned`` that was told to stop and has not said that it did
    :param record_at: when the record was written
    :param told_delay_ms: the scheduled delay of the last completed round
    :param hold_until: held work of a predecessor that may still run starts no sooner
    :param needed_offset: held work starts only when the jobs topic has been read so far
    :param returning: joined without a member id, so the coordinator may answer with an assignment of long ago
    :param unadopted: an assignment of which it isn't known yet whether it is of this round
    :param unpublished: the record of the round that this member leads, until the coordinator has the assignment
    :param rejoin_reason: why to join again as soon as nothing is stopping any more
    :param heard_at: the coordinator said then or later that no rebalance was under way
    :param rebalance_deadline: the coordinator expels whoever has not joined, or then not asked for its assignment
    :param lease_until: no other member can be given this one's tasks before then
    """

    settings: MemberSettings
    phase: Phase = Phase.INITIAL
    seq: int = 0
    awaiting: int | None = None
    attempts: int = 0
    coordinator: int | None = None

    member_id: MemberId = UNKNOWN_MEMBER_ID
    generation: GenerationId = NO_GENERATION
    leader: MemberId = UNKNOWN_MEMBER_ID
    protocol: SubProtocol | None = None
    last_completed: GenerationId = NO_GENERATION
    last_leader: MemberId = UNKNOWN_MEMBER_ID
    epoch: Epoch = Epoch(0)
    record: GroupRecord | None = None
    record_at: int = 0
    told_delay_ms: int = 0
    config_offset: ConfigOffset = ConfigOffset(0)

    owned: Tasks = NO_TASKS
    held: Tasks = NO_TASKS
    stopping: Tasks = NO_TASKS
    hold_until: int | None = None
    needed_offset: ConfigOffset = ConfigOffset(0)
    predecessor: Predecessor = Predecessor.UNKNOWN

    returning: bool = True
    unadopted: Assignment | None = None
    unpublished: GroupRecord | None = None
    rejoin_reason: str | None = None
    join_reason: str = ""

    join_sent_at: int = 0
    heard_at: int = 0
    heartbeat_step: int = 0
    lease_until: int | None = None
    rebalance_deadline: int | None = None
    heartbeat_at: int | None = None
    retry_at: int | None = None
    rejoin_at: int | None = None
    join_by: int | None = None
    record_by: int | None = None
    sync_by: int | None = None
    leave_by: int | None = None
    armed_at: int | None = None

    @property
    def is_leader(self) -> bool:
        return self.member_id != UNKNOWN_MEMBER_ID and self.member_id == self.leader

    @property
    def running(self) -> Tasks:
        """What may be running here now, whatever it shall do next."""
        return self.owned - self.held

    @property
    def lease_stop_at(self) -> int | None:
        """When tasks must be told to stop unless a heartbeat is answered before."""
        if self.lease_until is None or not self.running - self.stopping:
            return None
        return self.lease_until - self.settings.lease_margin_ms

    def next_deadline(self) -> int | None:
        """When the member wants to be called again if nothing else happens."""
        due = (
            self.lease_stop_at,
            self.heartbeat_at,
            self.retry_at,
            self.rejoin_at,
            self.join_by,
            self.record_by,
            self.sync_by,
            self.leave_by,
            self.hold_until if self.held else None,
        )
        return min((at for at in due if at is not None), default=None)

    def validate(self) -> None:
        """Check what must hold in every state.

        :raises LocalProtocolError: naming what does not
        """
        broken = {
            "held tasks are owned": self.held <= self.owned,
            "stopping tasks are owned": self.stopping <= self.owned,
            "a stable member has a member id": self.phase is not Phase.STABLE or self.member_id != UNKNOWN_MEMBER_ID,
            "a stable member has a generation": self.phase is not Phase.STABLE or self.generation != NO_GENERATION,
            "an ended member wants no timer": not self.phase.ended or self.next_deadline() is None,
            "a rebalance is waited for by one request": self.phase
            not in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
            or self.awaiting is not None,
        }
        for rule, holds in broken.items():
            if not holds:
                raise LocalProtocolError(f"{rule}: {self}")


def save(state: MemberState, *, now_ms: int, wall_ms: int) -> dict[str, Any]:
    """What another process needs to go on with this membership.

    Left out is what that process reads for itself (the jobs topic's offset and the group record), and the tasks that
    were told to stop: they end with this process.

    :param now_ms: this process's monotonic clock
    :param wall_ms: the wall clock at the same moment, by which the other process translates times
    :raises LocalProtocolError: if the membership is ending or has ended: going on with it would be another one
    """
    if state.phase is Phase.LEAVING or state.phase.ended:
        raise LocalProtocolError(f"a membership that is {state.phase.value} cannot be handed over")
    stable = state.phase is Phase.STABLE and state.unadopted is None
    return {
        "v": 1,
        "stable": stable,
        "member_id": state.member_id,
        "generation": state.generation,
        "leader": state.leader,
        "protocol": state.protocol.value if state.protocol else None,
        "last_completed": state.last_completed,
        "last_leader": state.last_leader,
        "epoch": state.epoch,
        "told_delay_ms": state.told_delay_ms,
        "owned": tasks_to_json(state.owned - (state.stopping - state.held)),
        "needed_offset": state.needed_offset,
        "predecessor": state.predecessor.value,
        "returning": state.returning,
        "rejoin_reason": state.rejoin_reason,
        "heard_ms": state.heard_at - now_ms,
        "lease_ms": None if state.lease_until is None else state.lease_until - now_ms,
        "rejoin_in_ms": None if state.rejoin_at is None else state.rejoin_at - now_ms,
        "deadline_ms": None if state.rebalance_deadline is None else state.rebalance_deadline - now_ms,
        "hold_ms": None if state.hold_until is None else state.hold_until - now_ms,
        "saved_at_ms": wall_ms,
    }


def resume(data: Mapping[str, Any], settings: MemberSettings, *, now_ms: int, wall_ms: int) -> MemberState:
    """The inverse of :func:`save`; feed the state a :class:`~.events.Resumed` next.

    :raises ValueError: for anything that :func:`save` has not made
    """
    if data.get("v") != 1:
        raise ValueError(f"a saved membership of version {data.get('v')!r}; this release reads version 1")
    try:
        return _resume(data, settings, now_ms=now_ms, wall_ms=wall_ms)
    except (KeyError, TypeError) as wrong:
        raise ValueError(f"not a saved membership: {type(wrong).__name__} {wrong}") from wrong


def _resume(data: Mapping[str, Any], settings: MemberSettings, *, now_ms: int, wall_ms: int) -> MemberState:
    shift = now_ms - max(0, wall_ms - int(data["saved_at_ms"]))

    def at(key: str) -> int | None:
        return None if data[key] is None else int(data[key]) + shift

    state = MemberState(
        settings=settings,
        member_id=MemberId(data["member_id"]),
        generation=GenerationId(int(data["generation"])),
        leader=MemberId(data["leader"]),
        protocol=None if data["protocol"] is None else SubProtocol(data["protocol"]),
        last_completed=GenerationId(int(data["last_completed"])),
        last_leader=MemberId(data["last_leader"]),
        epoch=Epoch(int(data["epoch"])),
        told_delay_ms=int(data["told_delay_ms"]),
        owned=tasks_from_json(data["owned"]),
        needed_offset=ConfigOffset(int(data["needed_offset"])),
        predecessor=Predecessor(data["predecessor"]),
        returning=bool(data["returning"]),
        rejoin_reason=data["rejoin_reason"],
        heard_at=int(data["heard_ms"]) + shift,
        lease_until=at("lease_ms"),
        rebalance_deadline=at("deadline_ms"),
        rejoin_at=at("rejoin_in_ms"),
        hold_until=at("hold_ms"),
    )
    if not data["stable"]:
        return replace(state, rejoin_reason=state.rejoin_reason or "the rebalance was cut short by a hand-over")
    return state
