"""The state of a member while an event is handled, and the steps that handlers share."""

from __future__ import annotations

from airflow_provider.group.classic.member.events import StopLearning
from airflow_provider.group.classic.member.lessons import NO_LESSONS
from airflow_provider.group.classic.member.requests import Requesting
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.values.model import NO_GENERATION, UNKNOWN_MEMBER_ID, SubProtocol, Tasks


class Transition(Requesting):
    """The steps that handlers share: how a member joins again, stops and starts its tasks, and ends."""

    __slots__ = ()

    # ---- joining again

    def want_join(self, reason: str) -> None:
        """Join as soon as possible, as others may be waiting for it."""
        self.set(rejoin_reason=self.state.rejoin_reason or reason)
        self.join_when_ready()
        self.limit_patience()

    def join_when_ready(self) -> None:
        """Join if this member wants to and nothing is stopping any more. In an eager group, stop everything first."""
        state = self.state
        if state.rejoin_reason is None or state.coordinator is None or state.unadopted is not None:
            return
        if state.phase is not Phase.STABLE and (state.phase is not Phase.UNJOINED or state.awaiting is not None):
            return
        if state.protocol is SubProtocol.DEFAULT:
            self.stop(state.owned, StopReason.EAGER)
        elif state.learns:
            self.stop(state.lessons.to_stop(state.settings.learned), StopReason.LEARNED)
        if not self.state.stopping:
            self.send_join(state.rejoin_reason)

    def limit_patience(self) -> None:
        """Limit how long tasks that do not stop may delay a join, because others wait for this member.

        It waits for half of the time that is left to join the rebalance (or that there would be, if none has begun),
        and then joins with what still runs. This does not apply in an eager group, where tasks must have stopped before
        a join, nor after being expelled, when others may have the tasks.
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

    def heed_namesake(self) -> None:
        """Notice that another process has taken this name while this member was expelled.

        An expelled member takes its name again. But the coordinator's answer may be old, if this process slept, and
        another process may have the name by now. A later round in which another member had this name tells.
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
        """Tell tasks to stop. Those that a predecessor may still run will not start here, so what was warmed up for
        them is discarded now.
        """
        never_started = (tasks & self.state.held) - self.state.stopping
        if never_started and self.predecessor_may_run:
            self.do(StopLearning(tasks=never_started))
        super().stop(tasks, reason)

    def own(self, target: Tasks, revoked: Tasks) -> None:
        """Own exactly the tasks of the target.

        Revoked tasks may still run in the process that had this worker's name. They are held as this worker's, and
        released when that process can't run any more.
        """
        before = self.state.owned
        self.stop(before - target, StopReason.REVOKED)
        if self.predecessor_may_run:
            self.hold((target | revoked) - before)
            self.stop(revoked, StopReason.REVOKED)
        else:
            self.hold(target - before)
        self.start_held()

    def start_held(self) -> None:
        """Start held tasks, in a stable group. A heartbeat must have time to be answered."""
        settings = self.state.settings
        if self.state.phase is Phase.STABLE:
            self.start(self.state.epoch, spare_ms=settings.lease_margin_ms + settings.heartbeat_interval_ms // 2)

    # ---- endings

    def renew_lease(self, sent_at_ms: int) -> None:
        """Extend the lease: the coordinator heard from this member at ``sent_at_ms`` or later, and waits for a session
        from then on. But a member that does not join a rebalance has only until that one's deadline.
        """
        state = self.state
        until = self.lease_from(sent_at_ms, state.settings.session_lease_ms)
        if state.rebalance_deadline is not None:
            until = min(until, state.rebalance_deadline)
        self.set(lease_until=until)

    def expelled(self, why: str, predecessor: Predecessor = Predecessor.GONE) -> None:
        """Stop everything and join again: the coordinator does not know this member, so others may get its tasks any
        time.

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
        """End the membership: send nothing more, and tell all tasks to stop."""
        self.stop_for_good(reason)
        if self.state.lessons.learning:
            self.do(StopLearning(tasks=self.state.lessons.learning))
        self.set(lessons=NO_LESSONS, coordinator=None, retry_at=None)
        self.forget_round()
        self.enter_final_phase(phase, error)
