"""One transition of the member machine: the state while an event is handled, and the steps that handlers share."""

from __future__ import annotations

from airflow_provider.declarative.model import JOINING
from airflow_provider.declarative_membership.requests import Requesting
from airflow_provider.declarative_membership.state import Assigning, Phase
from airflow_provider.protocol.holding import StopReason
from airflow_provider.protocol.member_events import Fail, PublishAssignment, StartTasks, StopTasks
from airflow_provider.protocol.member_settings import by_a_slower_clock
from airflow_provider.protocol.model import NO_TASKS, Tasks


class Transition(Requesting):
    """Steps that handlers share: what becomes of its tasks, how it joins again, and how it ends."""

    __slots__ = ()

    # ---- tasks

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        """Have these stopped. What a predecessor may still run can't be told to stop: it stays held, and is let go of
        when that one's lease is over.
        """
        tasks = (tasks & self.state.owned) - self.state.stopping
        if not tasks:
            return
        self.set(stopping=self.state.stopping | tasks)
        here = tasks - self.state.held if self.state.predecessor_may_run(self.now) else tasks
        if here:
            self.set(held=self.state.held - here)
            self.do(StopTasks(tasks=here, reason=reason))

    def hold(self, tasks: Tasks) -> None:
        """These are this worker's now; they start once nothing speaks against it."""
        if tasks:
            self.set(owned=self.state.owned | tasks, held=self.state.held | tasks)

    def released(self, tasks: Tasks) -> None:
        """These do not run here any more, and are not this worker's."""
        state = self.state
        here = tasks & state.owned
        if here:
            self.set(
                owned=state.owned - here,
                held=state.held - here,
                stopping=state.stopping - here,
                released_since_sent=state.released_since_sent | here,
            )

    def stopped(self, tasks: Tasks) -> None:
        """These do not run here any more. What was stopped only because the lease was over is this worker's still: it
        waits for another lease.
        """
        state = self.state
        kept = tasks & state.stopping & state.assigned
        if kept:
            self.set(stopping=state.stopping - kept, held=state.held | kept)
        dropped = tasks & state.owned & state.assigned - state.stopping
        if dropped:
            self.set(dropped=state.dropped | dropped)
        self.released(tasks - kept)

    def take_back(self) -> None:
        """What has stopped without being told to is this worker's still, if the coordinator has not said otherwise:
        nobody else is given it. After an answer, and not before: what can't run here must not be tried all the time.
        """
        state = self.state
        if state.dropped:
            self.set(dropped=NO_TASKS)
            self.hold(state.dropped & state.assigned - state.owned)

    def start_held(self) -> None:
        """Start what is held back, if the jobs topic is read far enough, this member surely is one, what had its name
        before can run nothing any more, and nothing is being revoked: the coordinator never does both together.

        A reply that took most of a session leaves a lease that is nearly over: what started under it would have to stop
        before another heartbeat could be answered, so it is started when one has been.
        """
        state = self.state
        startable = state.held - state.stopping
        if not startable or state.phase is not Phase.STABLE or state.config_offset < state.needed_offset:
            return
        if state.predecessor_may_run(self.now) or state.revoked:
            return
        if state.lease_until is None or self.now >= state.lease_until - state.margin_ms:
            return
        self.set(held=state.held - startable)
        self.do(StartTasks(tasks=startable, epoch=state.assignment_epoch))

    def publish_assignment(self) -> None:
        state = self.state
        self.do(PublishAssignment(epoch=state.assignment_epoch, owned=state.owned, revoking=state.stopping))

    # ---- saying so

    def acknowledge(self) -> None:
        """Say that what was revoked has stopped, as soon as all of it has: others wait for it. A heartbeat that is on
        its way, or that the coordinator holds, is given up.
        """
        state = self.state
        if state.acknowledges and not state.revoked and not state.predecessor_may_run(self.now):
            self.hurry()

    def hurry(self) -> None:
        """Send the next heartbeat now, unless the coordinator is away: then it says everything when it is back."""
        state = self.state
        if state.phase is Phase.STABLE and (state.awaiting is not None or state.attempts == 0):
            self.send_heartbeat()

    def join_when_stopped(self) -> None:
        """Ask to join, with nothing: when all has stopped that was there before."""
        state = self.state
        if (
            state.phase is Phase.JOINING
            and not state.stopping
            and state.awaiting is None
            and state.heartbeat_at is None
        ):
            self.send_heartbeat()

    # ---- endings

    def renew_lease(self, sent_at_ms: int) -> None:
        """The coordinator heard from this member at ``sent_at_ms`` or later, and then waits for a whole session."""
        until = sent_at_ms + by_a_slower_clock(self.state.session_timeout_ms)
        if self.state.lease_until is not None:
            until = max(until, self.state.lease_until)
        self.set(lease_until=until)

    def abandon(self) -> None:
        """The coordinator does not know this member any more, or not in this epoch: others may be given its tasks at
        any time. It stops everything, and joins as the same member that owns nothing.
        """
        refused = self.state.phase is Phase.JOINING
        self.stop(self.state.owned, StopReason.EXPELLED)
        self.forget_assigning()
        self.set(
            phase=Phase.JOINING,
            epoch=JOINING,
            assigned=NO_TASKS,
            dropped=NO_TASKS,
            awaiting=None,
            heartbeat_at=None,
            lease_until=None,
            acknowledges=False,
            says_all=True,
            said=None,
            said_assignors=None,
        )
        if refused:
            self.retry_later()
        else:
            self.set(attempts=0)
            self.join_when_stopped()

    def forget_assigning(self) -> None:
        """Nothing comes of what it may have begun to compute; nor does it ask for another assignment."""
        self.set(assigning=Assigning.NOT, assigning_seq=None, unpublished=None, delay_over_at=None)

    def end(self, phase: Phase, reason: StopReason, error: str | None) -> None:
        """Nothing more will be sent; what still runs is told to stop."""
        self.set(hold_until=None)
        self.stop(self.state.owned, reason)
        self.forget_assigning()
        self.set(phase=phase, awaiting=None, lease_until=None, heartbeat_at=None, leave_by=None)
        if error is not None:
            self.do(Fail(error=error))
