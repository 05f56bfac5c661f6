"""One turn: handles events, changes groups, and collects the records and replies."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.events import Effects, Reply, RequestId
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.group.declarative.coordinator.timers import Kind, Timer, Timers
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk
from airflow_provider.group.declarative.protocol.model import (
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberState,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.wire.messages.apis import ReplyBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatResponse
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import MemberId, Tasks


class Turn:
    """A turn. All changes of a group go through it: :meth:`write` both applies and collects a record."""

    __slots__ = ("_desks", "_records", "_replies", "_waking", "now_ms", "settings", "timers")

    def __init__(self, settings: CoordinatorSettings, desks: dict[str, Desk], timers: Timers, now_ms: int) -> None:
        self.settings = settings
        self.timers = timers
        self.now_ms = now_ms
        self._desks = desks
        self._records: list[Record] = []
        self._replies: list[Reply] = []
        self._waking: dict[tuple[str, MemberId], None] = {}

    @property
    def desks(self) -> Mapping[str, Desk]:
        """The desks of all groups, by group id."""
        return self._desks

    def desk(self, group_id: str) -> Desk:
        """The desk of this group. A group that is not known gets a new one."""
        desk = self._desks.get(group_id)
        if desk is None:
            desk = self._desks[group_id] = Desk(GroupState(group_id))
        return desk

    def effects(self) -> Effects:
        """The records and replies of this turn. Heartbeats are answered first, so that a member which has installed an
        assignment knows its own new epoch before it learns of the installation.
        """
        return Effects(
            records=tuple(self._records),
            replies=tuple(sorted(self._replies, key=_is_not_heartbeat)),
            timer_at_ms=self.timers.next_ms,
        )

    # ---- records

    def write(self, desk: Desk, record: Record) -> None:
        """Write a record, and apply it to its group."""
        desk.state.apply(record)
        self._records.append(record)

    def begin_epoch(self, desk: Desk) -> None:
        """Begin a group epoch, because the input of an assignment has changed. The caller writes the records of the
        change first: the group's record is the last one.

        In a group with a bridge, the epoch may have to wait for the bridge's next round.
        """
        state = desk.state
        if self.has_bridges:
            desk.wants_epoch = desk.bridge is None or desk.bridge.epoch <= state.epoch
            if desk.wants_epoch:
                return
        epoch = next_epoch(desk)
        if desk.unrecorded is not None:
            self.write(desk, values.configured_record(state.group_id, epoch, desk.unrecorded))
            desk.unrecorded = None
        self.write(desk, values.epoch_record(state.group_id, epoch))

    def give(self, desk: Desk, member_id: MemberId, after: CurrentAssignment | None) -> None:
        """Change a member's current assignment, and wake the members that wait for tasks which it no longer holds.

        :param after: None: the record is deleted
        """
        state = desk.state
        before = state.current.get(member_id)
        if after is None:
            if before is not None:
                self.write(desk, values.current_tombstone(state.group_id, member_id))
        else:
            self.write(desk, values.current_record(state.group_id, member_id, after))
        self._set_rebalance_timer(desk, member_id, after)
        if before is not None:
            for task in before.held if after is None else before.held - after.held:
                waiting = state.wanted_by.get(task)
                if waiting is not None and waiting != member_id:
                    self.wake(desk, waiting)

    def keep(self, desk: Desk, former: MemberId, held: Tasks, last_said: Member | None) -> None:
        """Change what is kept of a former member, in its current assignment.

        :param held: the tasks that it may still run
        :param last_said: what it had said of itself when it left; kept for the next assignor, as long as the target
            names the member
        """
        state = desk.state
        said = last_said if state.target.names(former) else None
        before, after = state.current[former], None
        if held or said is not None:
            after = CurrentAssignment(epoch=before.epoch, assigned=held, last_said=said)
        if after != before:
            self.give(desk, former, after)

    def set_target(self, desk: Desk, target: TargetAssignment) -> None:
        """Set a group's target. What the former members had said that it no longer names is not needed any more."""
        state = desk.state
        self.write(desk, values.target_record(state.group_id, target))
        for former, last_said in list(state.last_said.items()):
            self.keep(desk, former, state.current[former].held, last_said)

    def _set_rebalance_timer(self, desk: Desk, member_id: MemberId, after: CurrentAssignment | None) -> None:
        timer = Timer(Kind.REBALANCE, desk.state.group_id, member_id)
        member = desk.state.members.get(member_id)
        if after is not None and member is not None and after.state is MemberState.UNREVOKED:
            self.timers.set(timer, self.now_ms + member.rebalance_timeout_ms)
        else:
            self.timers.cancel(timer)

    # ---- replies

    def reply(self, request: RequestId, body: ReplyBody) -> None:
        """Answer a request at the end of the turn."""
        self._replies.append(Reply(request, body))

    def wake(self, desk: Desk, member_id: MemberId) -> None:
        """Look at a member again at the end of the turn: there may be news for its held heartbeat."""
        if member_id in desk.held:
            self._waking[desk.state.group_id, member_id] = None

    def wake_all(self, desk: Desk) -> None:
        """The same for all members of a group with a held heartbeat."""
        self._waking.update(dict.fromkeys((desk.state.group_id, member_id) for member_id in desk.held))

    def woken(self) -> tuple[Desk, MemberId] | None:
        """Take the next member to look at; None: there is none."""
        if not self._waking:
            return None
        group_id, member_id = next(iter(self._waking))
        del self._waking[group_id, member_id]
        return self._desks[group_id], member_id

    # ---- sessions

    @property
    def has_bridges(self) -> bool:
        """Whether groups have bridges to classic groups."""
        return self.settings.migration is MigrationPolicy.BIDIRECTIONAL

    def session_ms(self, desk: Desk) -> int:
        """The session that is granted now, in milliseconds: never longer than the bridge's own."""
        session_ms = self._session_ms(desk)
        return session_ms if desk.bridge is None else max(1, min(session_ms, desk.bridge.lease_until_ms - self.now_ms))

    def _session_ms(self, desk: Desk) -> int:
        return desk.state.configuration.session_timeout_ms or self.settings.session_timeout_ms

    def interval_ms(self, desk: Desk) -> int:
        """The heartbeat interval, in milliseconds: at most three tenths of a session, whatever is set.

        A member counts its session from the sending of an answered heartbeat. The answer to its next one, which is
        held, comes up to two intervals later.
        """
        wanted = desk.state.configuration.heartbeat_interval_ms or self.settings.heartbeat_interval_ms
        return max(1, min(wanted, longest_interval_ms(self._session_ms(desk))))

    def grant_session(self, desk: Desk, member_id: MemberId, from_ms: int) -> None:
        """Start a member's session anew, but never shorten one that was granted: the answer with the shorter one may be
        lost, and then the member relies on the longer one.

        :param from_ms: when the session starts
        """
        timer = Timer(Kind.SESSION, desk.state.group_id, member_id)
        self.timers.set(timer, max(from_ms + self.session_ms(desk), self.timers.at(timer) or 0))


def longest_interval_ms(session_ms: int) -> int:
    """The longest heartbeat interval for this session, in milliseconds."""
    return session_ms * 3 // 10


def _is_not_heartbeat(reply: Reply) -> bool:
    return not isinstance(reply.body, ConnectGroupHeartbeatResponse)


def next_epoch(desk: Desk) -> GroupEpoch:
    """The epoch that :meth:`Turn.begin_epoch` begins; with a bridge, that of its last round."""
    if desk.bridge is not None:
        return GroupEpoch(max(desk.bridge.epoch, desk.state.epoch))
    return GroupEpoch(desk.state.epoch + 1)
