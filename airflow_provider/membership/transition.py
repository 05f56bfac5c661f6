"""One transition of the member machine: the state while an event is handled, and the steps that handlers share."""

from __future__ import annotations

from airflow_provider.membership.events import StopLearning
from airflow_provider.membership.lessons import NO_LESSONS
from airflow_provider.membership.requests import Requesting
from airflow_provider.membership.state import Phase
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.member_events import Fail, PublishAssignment, StartTasks, StopTasks
from airflow_provider.protocol.model import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    SubProtocol,
    Tasks,
)


class Transition(Requesting):
    """Steps that handlers share: how a member joins again, what becomes of its tasks, and how its session ends."""

    __slots__ = ()

    # ---- joining again

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
        elif state.protocol is SubProtocol.EXTENSIBLE:
            self.stop(state.lessons.to_stop(state.settings.learned), StopReason.LEARNED)
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

    @property
    def predecessor_may_run(self) -> bool:
        """Whether the process that had this worker's name may have a valid lease still."""
        return self.state.predecessor_may_run(self.now)

    def heed_namesake(self) -> None:
        """Who was expelled takes its name again, perhaps from another process that took it meanwhile: a word of
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

    # ---- tasks

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        """Have these stopped. What a predecessor may still run can't be told to stop: it stays held, and is let go of
        when that one's lease is over. It will not start here, so what was made ready for it is let go of now.
        """
        tasks = (tasks & self.state.owned) - self.state.stopping
        if not tasks:
            return
        self.set(stopping=self.state.stopping | tasks)
        here = tasks - self.state.held if self.predecessor_may_run else tasks
        if never_started := tasks - here:
            self.do(StopLearning(tasks=never_started))
        if here:
            self.set(held=self.state.held - here)
            self.do(StopTasks(tasks=here, reason=reason))

    def released(self, tasks: Tasks) -> None:
        """These do not run here any more."""
        state = self.state
        here = tasks & state.owned
        if here:
            self.set(
                owned=state.owned - here,
                held=state.held - here,
                stopping=state.stopping - here,
                released_since_join=state.released_since_join | here,
            )

    def hold(self, tasks: Tasks) -> None:
        """These are this worker's now; start them once nothing speaks against it."""
        if tasks:
            self.set(owned=self.state.owned | tasks, held=self.state.held | tasks)
        self.start_held()

    def own(self, target: Tasks, revoked: Tasks) -> None:
        """Have these and nothing else. What a round has revoked may still run in the process that had this worker's
        name: it is held as this worker's, and let go of when that can run nothing any more.
        """
        before = self.state.owned
        self.stop(before - target, StopReason.REVOKED)
        if self.predecessor_may_run:
            self.hold((target | revoked) - before)
            self.stop(revoked, StopReason.REVOKED)
        else:
            self.hold(target - before)

    def start_held(self) -> None:
        """Start what is held back, if the jobs topic is read far enough, this member surely is one, and what had
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
        if self.state.lessons.learning:
            self.do(StopLearning(tasks=self.state.lessons.learning))
        self.set(
            lessons=NO_LESSONS,
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
