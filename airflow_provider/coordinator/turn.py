"""Events while they are handled: what they may touch, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.coordinator import values
from airflow_provider.coordinator.desk import Desk
from airflow_provider.coordinator.events import Effects, Reply, RequestId
from airflow_provider.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.coordinator.state import GroupState
from airflow_provider.coordinator.timers import Kind, Timer, Timers
from airflow_provider.declarative.model import CurrentAssignment, GroupEpoch, MemberState
from airflow_provider.declarative.wire.apis import ReplyBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatResponse
from airflow_provider.declarative.wire.records import Record
from airflow_provider.protocol.model import MemberId


class Turn:
    """All changes of a group go through here: records are applied where they are written."""

    __slots__ = ("_desks", "_records", "_replies", "_waking", "now_ms", "settings", "timers", "wall_ahead_ms")

    def __init__(
        self, settings: CoordinatorSettings, desks: dict[str, Desk], timers: Timers, now_ms: int, wall_ahead_ms: int
    ) -> None:
        self.settings = settings
        self.timers = timers
        self.now_ms = now_ms
        self.wall_ahead_ms = wall_ahead_ms
        self._desks = desks
        self._records: list[Record] = []
        self._replies: list[Reply] = []
        self._waking: dict[tuple[str, MemberId], None] = {}

    @property
    def desks(self) -> Mapping[str, Desk]:
        return self._desks

    def desk(self, group_id: str) -> Desk:
        """That of this group, which may be a new one."""
        desk = self._desks.get(group_id)
        if desk is None:
            desk = self._desks[group_id] = Desk(GroupState(group_id))
        return desk

    def effects(self) -> Effects:
        """Answers to heartbeats first: who has installed an assignment shall know its epoch before it hears that."""
        return Effects(
            records=tuple(self._records),
            replies=tuple(sorted(self._replies, key=_is_no_heartbeats)),
            timer_at_ms=self.timers.next_ms,
        )

    # ---- records

    def write(self, desk: Desk, record: Record) -> None:
        desk.state.apply(record)
        self._records.append(record)

    def begin_epoch(self, desk: Desk) -> None:
        """What an assignment is made of has changed. Its own records come first: the group's is the last one.

        Where groups have bridges, there may be no epoch to begin yet: then it begins with the bridge's next round.
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
        """A member has this from now on; None: nothing, and nobody needs to know of it. Who waits for what it does not
        have any more can get it.
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

    def _set_rebalance_timer(self, desk: Desk, member_id: MemberId, after: CurrentAssignment | None) -> None:
        timer = Timer(Kind.REBALANCE, desk.state.group_id, member_id)
        member = desk.state.members.get(member_id)
        if after is not None and member is not None and after.state is MemberState.UNREVOKED:
            self.timers.set(timer, self.now_ms + member.rebalance_timeout_ms)
        else:
            self.timers.cancel(timer)

    # ---- replies

    def reply(self, request: RequestId, body: ReplyBody) -> None:
        self._replies.append(Reply(request, body))

    def wake(self, desk: Desk, member_id: MemberId) -> None:
        """There may be something to say to a member whose heartbeat is held."""
        if member_id in desk.held:
            self._waking[desk.state.group_id, member_id] = None

    def wake_all(self, desk: Desk) -> None:
        self._waking.update(dict.fromkeys((desk.state.group_id, member_id) for member_id in desk.held))

    def woken(self) -> tuple[Desk, MemberId] | None:
        """The next one, if there is one."""
        if not self._waking:
            return None
        group_id, member_id = next(iter(self._waking))
        del self._waking[group_id, member_id]
        return self._desks[group_id], member_id

    # ---- sessions

    @property
    def has_bridges(self) -> bool:
        return self.settings.migration is MigrationPolicy.BIDIRECTIONAL

    def session_ms(self, desk: Desk) -> int:
        """What is granted now: never more than the group's bridge has."""
        session_ms = self._session_ms(desk)
        return session_ms if desk.bridge is None else max(1, min(session_ms, desk.bridge.lease_until_ms - self.now_ms))

    def _session_ms(self, desk: Desk) -> int:
        return desk.state.configuration.session_timeout_ms or self.settings.session_timeout_ms

    def interval_ms(self, desk: Desk) -> int:
        """At most three tenths of a session, whatever is set. The next answer to a heartbeat that is held comes two
        intervals after the last one that was answered was sent, and so long the member lives on that.
        """
        wanted = desk.state.configuration.heartbeat_interval_ms or self.settings.heartbeat_interval_ms
        return max(1, min(wanted, longest_interval_ms(self._session_ms(desk))))

    def grant_session(self, desk: Desk, member_id: MemberId, from_ms: int) -> None:
        """None that was granted is cut short: the answer that tells of a shorter one may be lost, and the member then
        lives on the longer one.
        """
        timer = Timer(Kind.SESSION, desk.state.group_id, member_id)
        self.timers.set(timer, max(from_ms + self.session_ms(desk), self.timers.at(timer) or 0))


def longest_interval_ms(session_ms: int) -> int:
    return session_ms * 3 // 10


def _is_no_heartbeats(reply: Reply) -> bool:
    return not isinstance(reply.body, ConnectGroupHeartbeatResponse)


def next_epoch(desk: Desk) -> GroupEpoch:
    if desk.bridge is not None:
        return GroupEpoch(max(desk.bridge.epoch, desk.state.epoch))
    return GroupEpoch(desk.state.epoch + 1)
