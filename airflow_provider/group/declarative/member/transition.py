"""One transition of the member machine: its state while an event is handled, and the steps that handlers share."""

from __future__ import annotations

from airflow_provider.group.declarative.member.requests import Requesting
from airflow_provider.group.declarative.member.state import Assigning, Phase
from airflow_provider.group.declarative.protocol.model import JOINING
from airflow_provider.group.holding import StopReason
from airflow_provider.group.machine.events import Fail, PublishAssignment, StartTasks, StopTasks
from airflow_provider.group.machine.settings import by_a_slower_clock
from airflow_provider.values.model import NO_TASKS, Tasks


class Transition(Requesting):
    """A transition: how tasks are started, stopped and released, and how a member joins again and ends."""

    __slots__ = ()

    # ---- tasks

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        """Stop tasks. Those that a predecessor may still run can't be told to stop: they stay held, and are released
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
        """Own new tasks. :meth:`start_held` starts them."""
        if tasks:
            self.set(owned=self.state.owned | tasks, held=self.state.held | tasks)

    def released(self, tasks: Tasks) -> None:
        """Release tasks, which do not run here any more."""
        state = self.state
        here = tasks & state.owned
        if here:
            self.set(
                owned=state.owned - here,
                held=state.held - here,
                stopping=state.stopping - here,
                just_released=state.just_released | here,
            )

    def stopped(self, tasks: Tasks) -> None:
        """Note that tasks have stopped. Those that were only stopped because the lease was over still belong to this
        worker, and wait for another lease; the others are released.
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
        """Own the dropped tasks again if they are still assigned: the coordinator gives them to no other member. This
        is done after an answer, so that a task which can't run here is not started all the time.
        """
        state = self.state
        if state.dropped:
            self.set(dropped=NO_TASKS)
            self.hold(state.dropped & state.assigned - state.owned)

    def start_held(self) -> None:
        """Start held tasks, if the jobs topic was read far enough, the lease is valid, no predecessor may run, and no
        revoked task has yet to stop.

        If a reply took most of a session, the lease is nearly over. Tasks that start now would have to stop before
        another heartbeat could be answered, so they start after the next answer.
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
        """Write which tasks this worker has in which epoch."""
        state = self.state
        self.do(PublishAssignment(epoch=state.assignment_epoch, owned=state.owned, revoking=state.stopping))

    # ---- heartbeats

    def acknowledge(self) -> None:
        """Tell the coordinator as soon as all revoked tasks have stopped, because other members wait for them. An
        unanswered heartbeat, perhaps one that the coordinator holds, is given up.
        """
        state = self.state
        if state.acknowledges and not state.revoked and not state.predecessor_may_run(self.now):
            self.hurry()

    def hurry(self) -> None:
        """Send the next heartbeat now, unless the last one has failed: then the next try contains all fields anyway."""
        state = self.state
        if state.phase is Phase.STABLE and (state.awaiting is not None or state.attempts == 0):
            self.send_heartbeat()

    def join_when_stopped(self) -> None:
        """Ask to join when all former tasks have stopped, so that the member owns nothing."""
        state = self.state
        if (
            state.phase is Phase.JOINING
            and not state.stopping
            and state.awaiting is None
            and state.heartbeat_at is None
        ):
            self.send_heartbeat()

    # ---- the lease, and endings

    def renew_lease(self, sent_at_ms: int) -> None:
        """Extend the lease to a session after the sending of an answered heartbeat. The coordinator got it later, so it
        waits longer.

        :param sent_at_ms: when the heartbeat was sent
        """
        until = sent_at_ms + by_a_slower_clock(self.state.session_timeout_ms)
        if self.state.lease_until is not None:
            until = max(until, self.state.lease_until)
        self.set(lease_until=until)

    def abandon(self) -> None:
        """Stop everything, then join again with the same member id, owning nothing.

        The coordinator does not know this member any more, or not in this epoch, so others may be given its tasks at
        any time.
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
        """Give up computing an assignment, and asking for another one after a delay."""
        self.set(assigning=Assigning.NOT, assigning_seq=None, unpublished=None, delay_over_at=None)

    def end(self, phase: Phase, reason: StopReason, error: str | None) -> None:
        """End the membership: stop all tasks, and send nothing more.

        :param error: why it has failed; None: it has not
        """
        self.set(hold_until=None)
        self.stop(self.state.owned, reason)
        self.forget_assigning()
        self.set(phase=phase, awaiting=None, lease_until=None, heartbeat_at=None, leave_by=None)
        if error is not None:
            self.do(Fail(error=error))
