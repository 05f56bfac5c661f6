"""The coordinator of one shard of groups.

Theory of operation
===================

Events that have arrived together are handled in one *turn* (:mod:`.turn`). Its decisions are records, and a group's
state changes only when a record is applied. So the next coordinator gets the same state by replaying the records. What
is in no record (:mod:`.desk`) are held heartbeats, the member that computes the next target, and timers. The next
coordinator does without them, which costs only time: it gives each member a fresh session, answers requests that are
sent again, and chooses a member again.

At the end of a turn, only those members are looked at for which something may have changed: a member that waits for a
released task (``GroupState.wanted_by``), one that was chosen, or all when there is a new target. So a heartbeat that
changes nothing costs the same in a group of any size.

=====================  ===================================================================================
validation.py          checks requests by themselves
heartbeat.py           the five steps of a heartbeat
membership_changes.py  join, change, come back, leave: a new epoch of the group, if it matters to assignors
computing.py           a new target for the new epoch
bridging.py            a group that also has classic workers
configuring.py         the settings that people give one group
answering.py           one step of a member towards its target (``protocol/reconcile.py``), and the answer
=====================  ===================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider.group.declarative.coordinator.events import (
    BridgeClaims,
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
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.coordinator.handlers import (
    answering,
    bridging,
    computing,
    configuring,
    membership_changes,
    validation,
)
from airflow_provider.group.declarative.coordinator.handlers.heartbeat import on_heartbeat
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.coordinator.timers import Kind, Timer, Timers
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk
from airflow_provider.group.declarative.coordinator.values import epoch_record
from airflow_provider.group.declarative.protocol.model import JOINING, GroupEpoch, MemberState
from airflow_provider.group.declarative.protocol.wire.messages.apis import RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
)
from airflow_provider.group.declarative.protocol.wire.messages.refusals import refusal
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, Tasks


class Coordinator:
    """The coordinator of the groups of one shard: takes events, and returns records and replies.

    It has no clock and does no I/O. Only one thread may use it.
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.settings = settings
        self._desks: dict[str, Desk] = {}
        self._timers = Timers()

    @property
    def session_ms(self) -> int:
        """The default session of all groups."""
        return self.settings.session_timeout_ms

    @property
    def shortest_session_ms(self) -> int:
        """The shortest session of any group; the default one if there is no group."""
        own = (desk.state.configuration.session_timeout_ms for desk in self._desks.values())
        return min((session_ms or self.session_ms for session_ms in own), default=self.session_ms)

    @property
    def longest_session_ms(self) -> int:
        """The longest session that a member of any group may have, at least the default one."""
        states = [desk.state for desk in self._desks.values()]
        own = (max(state.configuration.session_timeout_ms or 0, state.earlier_session_ms) for state in states)
        return max(self.session_ms, *own, 0)

    @property
    def groups(self) -> Mapping[str, GroupState]:
        """The groups that have records, to be read only."""
        return {group_id: desk.state for group_id, desk in self._desks.items() if desk.state.is_recorded}

    def has_members(self, group_id: str) -> bool:
        desk = self._desks.get(group_id)
        return desk is not None and bool(desk.state.members)

    def instance_of(self, group_id: str, member_id: MemberId) -> str | None:
        """The instance id of a member. None: it has none, or is not known."""
        desk = self._desks.get(group_id)
        member = None if desk is None else desk.state.members.get(member_id)
        return None if member is None else member.instance_id

    def claims(self, group_id: str) -> BridgeClaims:
        """What a new bridge of the group says it owns."""
        desk = self._desks.get(group_id)
        return BridgeClaims() if desk is None else bridging.claims(desk)

    def to_bridge(self, group_id: str, asked: Tasks) -> ToBridge:
        """What the group's bridge has to know.

        :param asked: the tasks that the bridge wants to release
        """
        desk = self._desks.get(group_id)
        return bridging.to_bridge(Desk(GroupState(group_id)) if desk is None else desk, asked)

    def replay(self, record: Record) -> None:
        """Apply a record that another coordinator has written, while loading. To be called before :meth:`loaded`.

        :raises RemoteProtocolError: the record has an invalid value
        """
        group_id = record.key.group_id
        if group_id not in self._desks:
            self._desks[group_id] = Desk(GroupState(group_id))
        self._desks[group_id].state.apply(record)

    def loaded(self, now_ms: int) -> Effects:
        """Begin to coordinate, when all records are replayed. Every member gets a fresh session."""
        turn = self._turn(now_ms)
        if self.settings.enabled:
            for desk in self._desks.values():
                _load(turn, desk)
        return turn.effects()

    def handle(self, event: Event) -> Effects:
        """Handle one event. ``now_ms`` must not decrease from one call to the next."""
        return self.handle_all((event,), event.now_ms)

    def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
        """Handle events that have arrived together, in one turn.

        If several members release tasks in it, a member that waits for these tasks gets them all in one answer.

        :param events: read lazily: each is taken when the one before it is handled
        :param now_ms: the time of all of them
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
                _on_jobs_read(turn, event)
            case EpochSpoken():
                _on_epoch_spoken(turn, event)
            case BridgeSaid():
                bridging.on_said(turn, event)
            case BridgeLost():
                bridging.on_lost(turn, event)
            case TimerFired():
                for timer in self._timers.due(event.now_ms):
                    _on_timer(turn, timer)

    def _turn(self, now_ms: int) -> Turn:
        return Turn(self.settings, self._desks, self._timers, now_ms)

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
        """Forget a group without records, so that refused requests to unknown groups leave nothing behind."""
        desk = self._desks.get(group_id)
        if desk is not None and desk.unrecorded is None and not desk.state.is_recorded:
            del self._desks[group_id]

    def _wrong_with(self, body: RequestBody) -> str | None:
        """What is wrong with a request by itself. Of a heartbeat by which an unknown member joins, more is required."""
        if not isinstance(body, ConnectGroupHeartbeatRequest) or body.member_epoch != JOINING:
            return validation.wrong_with(body)
        desk = self._desks.get(body.group_id)
        is_member = desk is not None and body.member_id in desk.state.members
        if is_member or not validation.is_first(body):
            return validation.wrong_with(body)
        return validation.wrong_with_first(body)


def _load(turn: Turn, desk: Desk) -> None:
    """Set the timers of a group whose records are replayed, and start to compute a target if it needs one."""
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


def _on_jobs_read(turn: Turn, event: JobsRead) -> None:
    """Begin an epoch if the configured tasks have changed. In a group without members, they are recorded with the
    epoch of the first member.
    """
    desk = turn.desk(event.group_id)
    desk.unrecorded = event.tasks if event.tasks != desk.state.configured else None
    if desk.unrecorded is not None and desk.state.members:
        turn.begin_epoch(desk)
        computing.ensure_target(turn, desk)


def _on_epoch_spoken(turn: Turn, event: EpochSpoken) -> None:
    """Raise the group's epoch to that in which its workers have written."""
    desk = turn.desk(event.group_id)
    if event.epoch > desk.state.epoch:
        turn.write(desk, epoch_record(event.group_id, GroupEpoch(event.epoch)))
        computing.ensure_target(turn, desk)


def _on_timer(turn: Turn, timer: Timer) -> None:
    desk, member_id = turn.desks[timer.group_id], timer.member_id
    match timer.kind:
        case Kind.SESSION:
            unknown = KafkaErrorCode.UNKNOWN_MEMBER_ID
            message = f"the session of {member_id} has ended"
            membership_changes.remove(turn, desk, member_id, error=unknown, message=message)
        case Kind.REBALANCE:
            message = f"{member_id} has not stopped its revoked tasks in time"
            membership_changes.fence(turn, desk, member_id, error=KafkaErrorCode.UNKNOWN_MEMBER_ID, message=message)
        case Kind.LINGERING:
            membership_changes.has_ended(turn, desk, member_id)
        case Kind.HELD:
            answering.release(turn, desk, member_id)
        case Kind.COMPUTE:
            computing.on_compute_timer(turn, desk, member_id)
        case Kind.DUE:
            computing.on_due_timer(turn, desk)
