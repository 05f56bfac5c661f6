"""One transition of the member machine: its state while an event is handled, and the steps that handlers share."""

from __future__ import annotations

from airflow_provider.group.declarative.member.requests import Requesting
from airflow_provider.group.declarative.member.state import Assigning, Phase
from airflow_provider.group.declarative.protocol.model import JOINING
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.settings import by_a_slower_clock
from airflow_provider.values.model import NO_TASKS, Tasks


class Transition(Requesting):
    """A transition: how tasks are started, stopped and released, and how a member joins again and ends."""

    __slots__ = ()

    # ---- tasks

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
        """Start held tasks, if this member is in the group and no revoked task has yet to stop."""
        state = self.state
        if state.phase is Phase.STABLE and not state.revoked:
            self.start(state.assignment_epoch, spare_ms=state.margin_ms)

    # ---- heartbeats

    def acknowledge(self) -> None:
        """Tell the coordinator as soon as all revoked tasks have stopped, because other members wait for them. An
        unanswered heartbeat, perhaps one that the coordinator holds, is given up.
        """
        state = self.state
        if state.acknowledges and not state.revoked and not self.predecessor_may_run:
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
        self.set(lease_until=self.lease_from(sent_at_ms, by_a_slower_clock(self.state.session_timeout_ms)))

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
        self.stop_for_good(reason)
        self.forget_assigning()
        self.enter_final_phase(phase, error)
