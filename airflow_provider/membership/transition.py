"""One transition of the member machine: the state while an event is handled, and the steps that handlers share."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from airflow_provider.membership.events import (
    ArmTimer,
    Command,
    Fail,
    FindCoordinator,
    PublishAssignment,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    StartTasks,
    StopTasks,
)
from airflow_provider.membership.state import MemberState, Phase
from airflow_provider.protocol.embedded import CODECS
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import (
    NO_GENERATION,
    NO_TASKS,
    UNKNOWN_MEMBER_ID,
    Assignment,
    MemberId,
    SubProtocol,
    Tasks,
    WorkerState,
)

_HEARTBEAT_GROWTH = 1.5
_HEARTBEATS_A_SECOND = 200
"""So many at most of a whole group, while it heartbeats fast; a coordinator has other groups, too."""


class Transition:
    """The state before and, step by step, after an event; and the commands that come out.

    Steps change the state and add commands. They never read a clock: ``now`` is the event's.
    """

    __slots__ = ("_changes", "_state", "commands", "now")

    def __init__(self, state: MemberState, now_ms: int) -> None:
        self._state = state
        self._changes: dict[str, Any] = {}
        self.now = now_ms
        self.commands: list[Command] = []

    @property
    def state(self) -> MemberState:
        """The state after the last step. Made when somebody looks: several changes make one new state."""
        if self._changes:
            self._state, self._changes = self._state.changed(self._changes), {}
        return self._state

    def set(self, **changes: Any) -> None:
        self._changes.update(changes)

    def do(self, command: Command) -> None:
        self.commands.append(command)

    def next_seq(self) -> int:
        seq = self.state.seq + 1
        self.set(seq=seq)
        return seq

    # ---- requests

    def find_coordinator(self) -> None:
        state = self.state
        seq = self.next_seq()
        may_be_forgotten = state.may_be_forgotten or (state.returning and state.member_id != UNKNOWN_MEMBER_ID)
        self.set(awaiting=seq, coordinator=None, retry_at=None, may_be_forgotten=may_be_forgotten)
        self.do(FindCoordinator(seq=seq))

    def retry_later(self) -> None:
        """Look for the coordinator again after a while: doubling from try to try, spread by the worker's name."""
        settings, attempts = self.state.settings, self.state.attempts
        wait = min(settings.retry_backoff_max_ms, settings.retry_backoff_ms * 2 ** min(attempts, 20))
        spread = zlib.crc32(f"{settings.worker}/{attempts}".encode()) % 400 - 200
        self.set(
            awaiting=None,
            coordinator=None,
            attempts=attempts + 1,
            retry_at=self.now + wait + wait * spread // 1000,
        )

    def send_join(self, reason: str) -> None:
        """Join with what this worker has, and keep running it."""
        state = self.state
        assert state.coordinator is not None
        seq = self.next_seq()
        self.set(
            phase=Phase.PREPARING_REBALANCE,
            awaiting=seq,
            returning=state.returning or state.member_id == UNKNOWN_MEMBER_ID,
            join_reason=reason,
            join_sent_at=self.now,
            joining_since=self.now if state.joining_since is None else state.joining_since,
            rejoin_reason=None,
        )
        self.forget_round()
        self.do(
            SendJoin(
                seq=seq,
                node=state.coordinator,
                member_id=state.member_id,
                protocols=tuple((offer.value, self._metadata(offer)) for offer in state.settings.protocol.offered),
                reason=reason,
            )
        )

    def _metadata(self, offer: SubProtocol) -> bytes:
        state = self.state
        return CODECS[offer].encode_metadata(
            WorkerState(
                version=offer.version,
                url=state.settings.url,
                config_offset=state.config_offset,
                assignment=self._owned(offer) if offer.cooperative else None,
            )
        )

    def _owned(self, offer: SubProtocol) -> Assignment | None:
        """What this member says that it owns. It carries the delay of the last round, as in Connect: only metadata
        that differ from those of the last join make the coordinator rebalance, and when the delay is over it shall.

        A returning member does not know yet what it owns. All it may speak for is what a predecessor may still run.
        """
        state = self.state
        if state.returning:
            claimed = self._predecessors()
            return Assignment(version=offer.version, assigned=claimed) if claimed else None
        return Assignment(
            version=offer.version,
            leader=state.last_leader,
            config_offset=state.config_offset,
            assigned=state.owned,
            delay_ms=state.told_delay_ms,
        )

    def _predecessors(self) -> Tasks:
        """What the process that had this name may still run: nobody else may be given it as long as its lease lasts."""
        state = self.state
        if state.record is None or not (state.predecessor is Predecessor.UNKNOWN or self.predecessor_may_run):
            return NO_TASKS
        worker = state.settings.worker
        return state.record.owned_by(worker) | state.record.revoked_from(worker)

    @property
    def predecessor_may_run(self) -> bool:
        """Whether the process that had this worker's name may have a valid lease still."""
        return self.state.hold_until is not None and self.now < self.state.hold_until

    def heed_namesake(self) -> None:
        """Whoever was expelled takes its name again, perhaps from another process that took it meanwhile: a word of
        the coordinator is old when a process that slept hears of it. What tells is a later round in which somebody
        else was under this name.
        """
        state = self.state
        if not state.returning or state.former_id == UNKNOWN_MEMBER_ID:
            return
        if state.record is None or state.record.epoch <= state.epoch:
            return
        holder = state.record.members.get(state.settings.worker)
        if holder in (None, state.member_id, state.former_id):
            return
        if state.phase in (Phase.UNJOINED, Phase.PREPARING_REBALANCE):
            self.set(predecessor=Predecessor.UNKNOWN)
        else:
            self.set(hold_until=self.now + state.settings.session_timeout_ms)

    def send_sync(self, assignments: Mapping[MemberId, bytes]) -> None:
        """Ask for this member's assignment; the leader sends everybody's. Waiting as long as a session tells of a lost
        request or answer: when a leader is gone, the coordinator answers sooner.
        """
        state = self.state
        assert state.coordinator is not None
        assert state.protocol is not None
        assert state.awaiting is not None
        self.set(sync_by=self.now + state.settings.session_timeout_ms)
        self.do(
            SendSync(
                seq=state.awaiting,
                node=state.coordinator,
                member_id=state.member_id,
                generation=state.generation,
                protocol=state.protocol,
                assignments=assignments,
            )
        )

    def send_heartbeat(self) -> None:
        state = self.state
        assert state.coordinator is not None
        longer = max(int(state.heartbeat_step * _HEARTBEAT_GROWTH) + 1, self._shortest_step())
        seq = self.next_seq()
        self.set(
            heartbeat_at=self.now + state.heartbeat_step,
            heartbeat_step=min(state.settings.heartbeat_interval_ms, longer),
        )
        self.do(SendHeartbeat(seq=seq, node=state.coordinator, member_id=state.member_id, generation=state.generation))

    def heartbeat_fast(self) -> None:
        """Heartbeat soon and then ever more slowly: a rebalance is often followed by another."""
        step = min(self.state.settings.heartbeat_interval_ms, self._shortest_step())
        self.set(heartbeat_step=step, heartbeat_at=self.now + step)

    def heartbeat_slowly(self) -> None:
        """Only so that the session goes on: there is nothing to hear that the answer waited for would not tell."""
        step = self.state.settings.heartbeat_interval_ms
        self.set(heartbeat_step=step, heartbeat_at=self.now + step)

    def _shortest_step(self) -> int:
        """In a large group all do this at once: as far as its size is known, they shall not overrun the coordinator."""
        record = self.state.record
        at_once = 0 if record is None else len(record.members) * 1000 // _HEARTBEATS_A_SECOND
        return max(self.state.settings.fast_heartbeat_ms, at_once)

    def send_leave(self) -> None:
        state = self.state
        assert state.coordinator is not None
        seq = self.next_seq()
        self.set(awaiting=seq)
        self.do(SendLeave(seq=seq, node=state.coordinator, member_id=state.member_id, reason=state.join_reason))

    # ---- joining again

    def forget_round(self) -> None:
        """Of the round that this member was in, nothing is waited for any more."""
        self.set(rejoin_at=None, join_by=None, record_by=None, sync_by=None, unadopted=None, unpublished=None)

    def want_join(self, reason: str) -> None:
        """Join as soon as it may be; somebody waits for it."""
        self.set(rejoin_reason=self.state.rejoin_reason or reason)
        self.join_when_ready()
        self.limit_patience()

    def join_when_ready(self) -> None:
        """Join if this member wants to: after what is stopping has stopped, and in an eager group after all has."""
        state = self.state
        if state.rejoin_reason is None or state.coordinator is None or state.unadopted is not None:
            return
        if state.phase is not Phase.STABLE and (state.phase is not Phase.UNJOINED or state.awaiting is not None):
            return
        if state.protocol is SubProtocol.DEFAULT:
            self.stop(state.owned, StopReason.EAGER)
        if not self.state.stopping:
            self.send_join(state.rejoin_reason)

    def limit_patience(self) -> None:
        """Somebody waits for this member to join. So it waits for tasks that do not stop no longer than half of the
        time that is left to join the rebalance (where none has begun: that there would be), and joins with what runs.

        Not in an eager group, where who joins must have stopped; nor when expelled, for then others may have the tasks.
        """
        state = self.state
        if not state.stopping or state.rejoin_reason is None or state.phase not in (Phase.STABLE, Phase.UNJOINED):
            return
        if state.protocol is SubProtocol.DEFAULT or state.member_id == UNKNOWN_MEMBER_ID:
            return
        whole = self.now + state.settings.rebalance_lease_ms
        deadline = whole if state.rebalance_deadline is None else state.rebalance_deadline
        join_by = self.now + max(0, deadline - self.now) // 2
        self.set(join_by=join_by if state.join_by is None else min(state.join_by, join_by))

    # ---- tasks

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        """Have these stopped. What a predecessor may still run can't be told to stop: it stays held, and is let go of
        when that one's lease is over.
        """
        tasks = (tasks & self.state.owned) - self.state.stopping
        if not tasks:
            return
        self.set(stopping=self.state.stopping | tasks)
        here = tasks - self.state.held if self.predecessor_may_run else tasks
        if here:
            self.set(held=self.state.held - here)
            self.do(StopTasks(tasks=here, reason=reason))

    def released(self, tasks: Tasks) -> None:
        """These do not run here any more."""
        state = self.state
        self.set(owned=state.owned - tasks, held=state.held - tasks, stopping=state.stopping - tasks)

    def hold(self, tasks: Tasks) -> None:
        """These are this worker's now; start them once nothing speaks against it."""
        self.set(owned=self.state.owned | tasks, held=self.state.held | tasks)
        self.start_held()

    def start_held(self) -> None:
        """Start what is held back, if the jobs topic is read far enough, this member surely is one, and whoever had
        its name before can run nothing any more.

        A join that took most of a session leaves a lease that is nearly over: what started under it would have to stop
        before a heartbeat could be answered, so it is started when one has been.
        """
        state = self.state
        startable = state.held - state.stopping
        if not startable or state.config_offset < state.needed_offset or state.phase is not Phase.STABLE:
            return
        if self.predecessor_may_run:
            return
        spare_ms = state.settings.lease_margin_ms + state.settings.heartbeat_interval_ms // 2
        if state.lease_until is None or self.now >= state.lease_until - spare_ms:
            return
        self.set(held=state.held - startable)
        self.do(StartTasks(tasks=startable, epoch=state.epoch))

    def publish_assignment(self) -> None:
        state = self.state
        self.do(PublishAssignment(epoch=state.epoch, owned=state.owned, revoking=state.stopping))

    # ---- endings

    def renew_lease(self, sent_at_ms: int) -> None:
        """The coordinator heard from this member at ``sent_at_ms`` or later, and then waits for a whole session; but
        for a member that does not join a rebalance no longer than until the rebalance's deadline.
        """
        state = self.state
        until = sent_at_ms + state.settings.session_lease_ms
        if state.lease_until is not None:
            until = max(until, state.lease_until)
        if state.rebalance_deadline is not None:
            until = min(until, state.rebalance_deadline)
        self.set(lease_until=until)

    def expelled(self, why: str, predecessor: Predecessor = Predecessor.GONE) -> None:
        """The coordinator does not know this member: others may be given its tasks at any time.

        :param predecessor: what is known of the process that the coordinator may know in its place
        """
        self.stop(self.state.owned, StopReason.EXPELLED)
        self.set(
            phase=Phase.UNJOINED,
            awaiting=None,
            former_id=self.state.member_id or self.state.former_id,
            member_id=UNKNOWN_MEMBER_ID,
            generation=NO_GENERATION,
            leader=UNKNOWN_MEMBER_ID,
            returning=True,
            may_be_forgotten=False,
            joining_since=None,
            predecessor=predecessor,
            heartbeat_at=None,
            lease_until=None,
            rebalance_deadline=None,
            rejoin_reason=why,
        )
        self.heed_namesake()
        self.forget_round()
        if self.state.coordinator is None:
            if self.state.retry_at is None:
                self.find_coordinator()
        else:
            self.join_when_ready()

    def end(self, phase: Phase, reason: StopReason, error: str | None) -> None:
        """Nothing more will be sent; what still runs is told to stop."""
        self.set(hold_until=None)
        self.stop(self.state.owned, reason)
        self.set(
            phase=phase,
            awaiting=None,
            coordinator=None,
            lease_until=None,
            heartbeat_at=None,
            retry_at=None,
            leave_by=None,
        )
        self.forget_round()
        if error is not None:
            self.do(Fail(error=error))

    def arm(self) -> None:
        """Ask to be called when the next thing is due, if that is another time than the one asked for."""
        due = self.state.next_deadline()
        if due is not None and due != self.state.armed_at:
            self.set(armed_at=due)
            self.do(ArmTimer(at_ms=due))
