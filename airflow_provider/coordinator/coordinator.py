"""The coordinator of one shard of groups.

Theory of operation
===================

Events that have come together are handled in a *turn* (:mod:`.turn`). What it decides are records, and nothing but
applying a record changes the state of a group: so the state is what the next coordinator gets by replaying them. Beside
it stands what no record says (:mod:`.desk`): heartbeats that are held, who computes the next target, timers. The next
coordinator does without, and it costs nothing but time: it gives each member a fresh session, answers what is asked
again, and chooses anew.

At the end of a turn those members are looked at for which something may have changed, and no others: who waits for a
task that was released (``GroupState.wanted_by``), who was chosen, or all when there is a new target. A heartbeat that
changes nothing costs the same in a group of any size.

===============  ===================================================================================================
validation.py    what a request must be like
heartbeat.py     the five steps of a heartbeat
members.py       join, change, come back, leave, be removed: each a new epoch of the group, if it matters to assignors
computing.py     a new target for the new epoch
bridging.py      a group that also has classic workers
configuring.py   what people set for a group
answering.py     one step of a member towards its target (``declarative/reconcile.py``), and the answer
===============  ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider.coordinator import answering, bridging, computing, configuring, members, validation
from airflow_provider.coordinator.desk import Desk, MadeOf, Untaken
from airflow_provider.coordinator.events import (
    BridgeLost,
    BridgeSaid,
    Effects,
    EpochSpoken,
    Event,
    JobsRead,
    RequestArrived,
    TimerFired,
    ToBridge,
)
from airflow_provider.coordinator.heartbeat import on_heartbeat
from airflow_provider.coordinator.settings import CoordinatorSettings
from airflow_provider.coordinator.state import GroupState
from airflow_provider.coordinator.timers import Kind, Timer, Timers
from airflow_provider.coordinator.turn import Turn
from airflow_provider.coordinator.values import epoch_record
from airflow_provider.declarative.model import JOINING, GroupEpoch, MemberState
from airflow_provider.declarative.wire.apis import RequestBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentRequest
from airflow_provider.declarative.wire.prepare_assignment import ConnectGroupPrepareAssignmentRequest
from airflow_provider.declarative.wire.records import Record
from airflow_provider.declarative.wire.refusals import refusal
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import NO_TASKS, Tasks


class Coordinator:
    """One thread uses it. It has no clock, and does no I/O.

    :param wall_ahead_ms: what to add to its times to get wall clock, milliseconds since 1970. When a delay ends
        stands in records, which another coordinator reads on another host
    """

    def __init__(self, settings: CoordinatorSettings, *, wall_ahead_ms: int = 0) -> None:
        self.settings = settings
        self._wall_ahead_ms = wall_ahead_ms
        self._desks: dict[str, Desk] = {}
        self._timers = Timers()

    @property
    def session_ms(self) -> int:
        return self.settings.session_timeout_ms

    @property
    def groups(self) -> Mapping[str, GroupState]:
        """Those that have records, to be looked at."""
        return {group_id: desk.state for group_id, desk in self._desks.items() if desk.state.is_recorded}

    def has_members(self, group_id: str) -> bool:
        desk = self._desks.get(group_id)
        return desk is not None and bool(desk.state.members)

    def stuck(self, group_id: str) -> str | None:
        """Why there is no target for the group's epoch; None: there is, or will be."""
        desk = self._desks.get(group_id)
        return None if desk is None else desk.stuck

    def made_of(self, group_id: str) -> MadeOf:
        """What a target of the group would be made of."""
        return self._desk(group_id).made_of

    def keep_target(self, group_id: str, untaken: Untaken) -> None:
        """Have a group go on with the target that it has, as no topic takes the next one. Before :meth:`loaded`."""
        self._desk(group_id).untaken = untaken

    def claims(self, group_id: str) -> Tasks:
        """All that anybody in the group may run: what its bridge owns, if it begins now."""
        desk = self._desks.get(group_id)
        return NO_TASKS if desk is None else bridging.claims(desk)

    def to_bridge(self, group_id: str, asked: Tasks) -> ToBridge:
        """:param asked: what the group's bridge would let go of"""
        desk = self._desks.get(group_id)
        return bridging.to_bridge(Desk(GroupState(group_id)) if desk is None else desk, asked)

    def replay(self, record: Record) -> None:
        """Apply a record that another coordinator has written: while loading, before :meth:`loaded`.

        :raises RemoteProtocolError: its value makes no sense
        """
        self._desk(record.key.group_id).state.apply(record)

    def loaded(self, now_ms: int) -> Effects:
        """Begin to coordinate: all records are replayed, and every member gets a fresh session."""
        turn = self._turn(now_ms)
        if self.settings.enabled:
            for desk in self._desks.values():
                _load(turn, desk)
        return turn.effects()

    def handle(self, event: Event) -> Effects:
        """What is to be done about it. Time does not go back from one call to the next."""
        return self.handle_all((event,), event.now_ms)

    def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
        """What is to be done about events that have come together, in one turn: who waits for what several others
        release in it is answered with all of that, and need not ask again in between.

        :param events: each is taken when the one before it is handled
        :param now_ms: of all of them
        """
        turn = self._turn(now_ms)
        for event in events:
            self._take(turn, event)
        while (woken := turn.woken()) is not None:
            answering.look_again(turn, *woken)
        return turn.effects()

    def _take(self, turn: Turn, event: Event) -> None:
        match event:
            case RequestArrived():
                self._request(turn, event)
            case JobsRead():
                _jobs(turn, event)
            case EpochSpoken():
                _go_on_from(turn, event)
            case BridgeSaid():
                bridging.on_said(turn, event)
            case BridgeLost():
                bridging.on_lost(turn, event)
            case TimerFired():
                for timer in self._timers.due(event.now_ms):
                    _timer(turn, timer)

    def _turn(self, now_ms: int) -> Turn:
        return Turn(self.settings, self._desks, self._timers, now_ms, self._wall_ahead_ms)

    def _desk(self, group_id: str) -> Desk:
        """That of this group, which may be a new one."""
        desk = self._desks.get(group_id)
        if desk is None:
            desk = self._desks[group_id] = Desk(GroupState(group_id))
        return desk

    def _request(self, turn: Turn, event: RequestArrived) -> None:
        body = event.body
        if not self.settings.enabled:
            message = "declarative groups are switched off in this coordinator"
            turn.reply(event.request, refusal(body, KafkaErrorCode.UNSUPPORTED_VERSION, message))
        elif (wrong := self._wrong_with(body)) is not None:
            turn.reply(event.request, refusal(body, KafkaErrorCode.INVALID_REQUEST, wrong))
        elif isinstance(body, ConnectGroupHeartbeatRequest):
            on_heartbeat(turn, event, body)
            self._forget_if_empty(body.group_id)
        elif isinstance(body, ConnectGroupPrepareAssignmentRequest):
            computing.on_prepare(turn, event, body)
        elif isinstance(body, ConnectGroupInstallAssignmentRequest):
            computing.on_install(turn, event, body)
        else:
            configuring.on_alter_configs(turn, event, body)
            self._forget_if_empty(body.group_id)

    def _forget_if_empty(self, group_id: str) -> None:
        """Who is refused by a group that there is not leaves nothing of it."""
        desk = self._desks.get(group_id)
        if desk is not None and desk.unrecorded is None and not desk.state.is_recorded:
            del self._desks[group_id]

    def _wrong_with(self, body: RequestBody) -> str | None:
        """Who is not known, and joins, sends its first heartbeat."""
        if not isinstance(body, ConnectGroupHeartbeatRequest) or body.member_epoch != JOINING:
            return validation.wrong_with(body)
        desk = self._desks.get(body.group_id)
        is_member = desk is not None and body.member_id in desk.state.members
        if is_member or not validation.is_first(body):
            return validation.wrong_with(body)
        return validation.wrong_with_first(body)


def _load(turn: Turn, desk: Desk) -> None:
    state = desk.state
    session_ms = max(turn.session_ms(desk), state.earlier_session_ms)
    for member_id, member in state.members.items():
        turn.timers.set(Timer(Kind.SESSION, state.group_id, member_id), turn.now_ms + session_ms)
        if state.current[member_id].state is MemberState.UNREVOKED:
            timer = Timer(Kind.REBALANCE, state.group_id, member_id)
            turn.timers.set(timer, turn.now_ms + member.rebalance_timeout_ms)
    for member_id in state.lingering:
        turn.timers.set(Timer(Kind.LINGERING, state.group_id, member_id), turn.now_ms + session_ms)
    computing.set_due_timer(turn, desk)
    computing.ensure_target(turn, desk)


def _jobs(turn: Turn, event: JobsRead) -> None:
    """In a group that nobody is in it begins no epoch: it is recorded with the first member."""
    desk = turn.desk(event.group_id)
    desk.unrecorded = event.tasks if event.tasks != desk.state.configured else None
    if desk.unrecorded is not None and desk.state.members:
        turn.begin_epoch(desk)
        computing.ensure_target(turn, desk)


def _go_on_from(turn: Turn, event: EpochSpoken) -> None:
    desk = turn.desk(event.group_id)
    if event.epoch > desk.state.epoch:
        turn.write(desk, epoch_record(event.group_id, GroupEpoch(event.epoch)))
        computing.ensure_target(turn, desk)


def _timer(turn: Turn, timer: Timer) -> None:
    desk, member_id = turn.desks[timer.group_id], timer.member_id
    match timer.kind:
        case Kind.SESSION:
            unknown = KafkaErrorCode.UNKNOWN_MEMBER_ID
            members.remove(turn, desk, member_id, error=unknown, message=f"the session of {member_id} has ended")
        case Kind.REBALANCE:
            message = f"{member_id} has not stopped in time what it was asked to stop"
            members.fence(turn, desk, member_id, error=KafkaErrorCode.UNKNOWN_MEMBER_ID, message=message)
        case Kind.LINGERING:
            members.has_ended(turn, desk, member_id)
        case Kind.HELD:
            answering.release(turn, desk, member_id)
        case Kind.COMPUTE:
            computing.on_compute_timer(turn, desk, member_id)
        case Kind.DUE:
            computing.on_due_timer(turn, desk)
