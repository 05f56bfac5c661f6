"""A worker: connects one membership with what runs its tasks, until its work is done or continues elsewhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_provider.assignment.model import Absence
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.membership import Ended, HowEnded, Memberships
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.views.presence import is_same_process
from airflow_provider.state.views.task_progress.progress import may_run
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.deadlines import Deadline
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks
from airflow_provider.worker.endings.confirmation import Confirmation
from airflow_provider.worker.endings.ending import DRAINED, STOPPED, Ending, Outcome
from airflow_provider.worker.endings.handed_over import HandedOver
from airflow_provider.worker.endings.leave_request import ASKED, LeaveRequest
from airflow_provider.worker.endings.reasons import ReasonsToEnd
from airflow_provider.worker.hands.port import Hands, Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import end_what_outlived, predecessor_of, tell_of_rival, this_process
from airflow_provider.worker.reporting.journal import Journal
from airflow_provider.worker.reporting.learning_report import LearningReport
from airflow_provider.worker.reporting.observer import UNOBSERVED, Observer
from airflow_provider.worker.reporting.own_record import OwnRecord
from airflow_provider.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

_LAST_WORDS_S: Final = 10.0

_FAREWELL_S: Final = 2.0
"""How long a leaving worker waits for the confirmation of why, and until the record that says it is stored."""
_TO_STORE_S: Final = 0.5
"""The part of that which is kept for the record: Airflow kills a task's process 5 s after asking it to end."""


MakeHands = Callable[[Released, Released, Callable[[], None], WorkerLease], Hands]
"""Makes a worker's hands, given callbacks for stopped tasks, finished tasks and any change, and the lease."""


class Worker:
    """One worker in this process (it is the membership's listener).

    If a worker has to stop everything, because it leaves or its membership is over, it does not wait for ever for a
    task that does not stop: after the rebalance timeout the run ends, and attached tasks end with the process.

    :param topics: the group's topics, read to their ends
    :param memberships: makes its membership
    :param saved: the membership that another process has saved; None: join as a new member
    :param observer: is told when its lease ends
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        topics: GroupTopics,
        memberships: Memberships,
        make_hands: MakeHands,
        saved: Mapping[str, Any] | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self.settings = settings
        self._observer = observer
        self._topics = topics
        self._saved = None if saved is None else HandedOver.from_json(saved)
        self._leaving: Ending | None = None
        self._over: Ended | None = None
        self._joined = False
        self._overdue = False
        self._handing_over = False
        self._unstarted: Tasks = NO_TASKS
        self._rested: Tasks = NO_TASKS
        self._writing_first: asyncio.Task[None] | None = None
        self._stop_timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._confirmation = Confirmation()
        self._journal = Journal(settings.member.worker)
        self._record = OwnRecord(
            settings, topics, self._journal, view=lambda: self.member.view, hands=lambda: self.hands
        )
        self._idle_error: str | None = None
        # Not beyond what has been read: the topic may have been deleted and created again since.
        read = topics.jobs.offset
        began_at = read if self._saved is None or self._saved.began_at is None else min(read, self._saved.began_at)
        self.reasons = ReasonsToEnd(settings, topics, began_at=began_at, look_again=self._changed.set)
        self.member = memberships.make(self, None if self._saved is None else self._saved.membership)
        self.lease = WorkerLease(lambda: self.member.lease_until_ms)
        self.hands = make_hands(self._stopped, self.member.tasks_finished, self._changed.set, self.lease)
        self._learning = LearningReport(
            ready_from=settings.member.ready_from,
            progress=lambda: self.hands.learning,
            failed=lambda: self.hands.learning.keys() & self.hands.failed_warm_ups.keys(),
            write=self._record.write_progress,
            tell=self.member.learning_progressed,
        )
        self._leave_request = LeaveRequest(self._record, self.hands, self.member, look_again=self._changed.set)

    async def run(self) -> Outcome:
        """Hold the membership until the work is done or continues elsewhere. Cancelling stops without leaving."""
        unsubscribe = self._topics.subscribe(self._on_topics, About.JOBS | About.TASKS)
        try:
            self._begin()
            while (ending := self._ending()) is None:
                await self._changed.wait()
                self._changed.clear()
                self._record.write_news()
                if self._record.stored:
                    self._learning.look()
            outcome = await self._end(ending)
        finally:
            unsubscribe()
            if self._stop_timer is not None:
                self._stop_timer.cancel()
            if self._writing_first is not None:
                self._writing_first.cancel()
            self.reasons.close()
            self._leave_request.close()
            self._learning.close()
            try:
                await self.hands.close()
            finally:
                await self.member.aclose()
                await self._journal.flush(_LAST_WORDS_S)
        return replace(outcome, still_running=self.hands.running, came=self._due(self._rested))

    def leave(
        self,
        reason: str,
        absence: Absence = STOPPED,
        confirm_within_s: float = 0.0,
        *,
        ending: Ending = Ending.LEFT,
    ) -> None:
        """Stop everything and leave the group; :meth:`run` returns when that is done.

        :param reason: for the coordinator's log
        :param absence: for the group's leader: why it leaves, and in what time at most it is started again
        :param confirm_within_s: within how many seconds from now :meth:`confirm` may be called; it waits for that, but
            once its tasks have stopped for no longer than a farewell may take
        """
        if self._leaving is None and self._over is None:
            self._leaving = ending
            self._confirmation.expect(confirm_within_s)
            self._write_that_it_leaves(absence)
            self.member.leave(reason)
            self._changed.set()

    def confirm(self, absence: Absence) -> None:
        """Say for sure, while it leaves, what its absence will mean."""
        if self._leaving is not None and self._over is None:
            self._write_that_it_leaves(absence)
            self._confirmation.arrived()

    def _write_that_it_leaves(self, absence: Absence) -> None:
        """In its record, and to its hands if it does not come back."""
        self._record.absence = absence
        self._record.write(WorkerPhase.STOPPING)
        stands_back = self._leaving is not None and self._leaving.stands_back  # and returns
        if absence.at_most_ms == 0 and not stands_back:
            self.hands.leave_for_good()

    def hand_over(self) -> None:
        """Make :meth:`run` return with a hand-over of the membership. Only with hands that run nothing."""
        self._handing_over = True
        self._changed.set()

    def applied(self) -> Epoch:
        """The last epoch whose assignment it has applied; 0: none so far."""
        return self.member.view.epoch

    # ---- the membership's listener

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        if self._record.stored:
            self.hands.take(tasks, epoch)
        else:
            self._unstarted |= tasks

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        self._unstarted -= tasks
        if reason.ends_lease:
            self._joined = False
            self.lease.end()
            self._observer.lease_ended(reason)
        self.hands.stop(tasks, reason.value)

    def start_learning(self, tasks: Tasks) -> None:
        self.hands.learn(tasks)

    def stop_learning(self, tasks: Tasks) -> None:
        self.hands.stop_learning(tasks)

    def may_leave(self) -> None:
        self._leave_request.nothing_left()

    def assigned(self, epoch: Epoch) -> None:
        if not self._joined:
            self._joined = True
            self.hands.joined()
        self.hands.advance(epoch)
        self._record.write_soon(self.settings.phase)
        self._changed.set()

    async def farewell(self) -> None:
        together = Deadline(_FAREWELL_S)
        await self._confirmation.wait(most_s=together.left_s(but_s=_TO_STORE_S))
        await self._journal.settle(together.left_s(least_s=_TO_STORE_S))

    def ended(self, ended: Ended) -> None:
        self._over = ended
        self._limit_stopping()
        self._changed.set()

    # ---- its life

    def _stopped(self, tasks: Tasks) -> None:
        """Release stopped tasks. If the worker has released some by itself, nobody else knows this, and the tasks may
        be needed again. So it then writes its record, which lists the tasks that it still has.
        """
        unasked = tasks - self.member.view.stopping
        self.member.tasks_stopped(tasks)
        if unasked and self._over is None:
            self._record.write_again_soon()

    def _begin(self) -> None:
        last = self._topics.status.workers.get(self.settings.member.worker)
        predecessor = predecessor_of(last)
        if self._saved is not None:
            self.reasons.go_on_waiting(self._saved.idle_since_ms)
            self._leave_request.resume(self._saved.asked_since_ms)
            if last is not None and is_same_process(last.process, self._saved.process):
                predecessor = Predecessor.GONE  # it has handed the membership over, and runs nothing
        else:
            end_what_outlived(last)
            tell_of_rival(last)
            self._record.phase = WorkerPhase.JOINING
        self.member.begin(predecessor)
        self._writing_first = asyncio.ensure_future(self._write_first())

    async def _write_first(self) -> None:
        """Write which process holds the membership, and start no task before this is stored: a successor learns from
        this record that it has to wait for the tasks that run here.
        """
        try:
            await self._record.write_until_stored()
            tasks, self._unstarted = self._unstarted, NO_TASKS
            self.hands.take(tasks, self.member.view.epoch)
        except Exception as bug:  # noqa: BLE001  nobody waits for this
            self.member.fail(bug)
        self._writing_first = None
        self._changed.set()

    def _on_topics(self) -> None:
        try:
            self.hands.refresh()
        except Exception as bug:  # noqa: BLE001  the caller can't handle it
            self.member.fail(bug)
        self._changed.set()

    def _ending(self) -> Ending | None:
        """How this run has ended; None: it has not. Asks the membership to leave when the work is done."""
        if self._over is None and self.hands.fault is not None:
            self.member.fail(self.hands.fault)
        if self._over is not None:
            return self._ending_of(self._over.how) if self._overdue or not self.hands.running else None
        if self._leaving is not None or self.member.view.leaving:
            self._limit_stopping()
            return Ending.FAILED if self._overdue and self.hands.running else None
        return self._reason_to_end()

    def _reason_to_end(self) -> Ending | None:
        wish = self.reasons.wish
        if self.hands.unable:
            self.leave("no task can be started here", ending=Ending.STOOD_BACK)
        elif self.hands.blamed:
            self.leave("tasks fail here that go well elsewhere", ending=Ending.BLAMED)
        elif wish is not None and (absence := self._leave_request.decide(wish)) is not None:
            self.leave(ASKED, absence)
        elif self.reasons.is_done:
            self.leave("the group is drained", DRAINED, ending=Ending.DRAINED)
        elif error := self.reasons.waited_too_long(self.hands.running):
            self._idle_error = error
            self.leave(error, ending=Ending.IDLE)
        elif self._handing_over or self._may_hand_over():
            return Ending.HANDED_OVER
        return None

    def _ending_of(self, how: HowEnded) -> Ending:
        if how is HowEnded.LEFT:
            return self._leaving or Ending.LEFT
        return Ending.FENCED if how is HowEnded.FENCED else Ending.FAILED

    def _may_hand_over(self) -> bool:
        return self.hands.done and self._record.stored and self.member.view.settled

    def _limit_stopping(self) -> None:
        def overdue() -> None:
            self._overdue = True
            self._changed.set()

        if self._stop_timer is None:
            wait_s = self.settings.member.rebalance_timeout_ms / 1000
            if running := self.hands.running:
                labels = [self._topics.jobs.label(task) for task in sorted(running)]
                log.info(
                    "This worker ends when these have stopped, after %g s at most: %s",
                    wait_s,
                    in_short(labels, most=10),
                )
            self._stop_timer = asyncio.get_running_loop().call_later(wait_s, overdue)

    async def _end(self, ending: Ending) -> Outcome:
        epoch = self.member.view.epoch
        if ending is Ending.HANDED_OVER:
            self._rested = self.member.view.owned - self._due(self.member.view.owned)
            saved = HandedOver(
                membership=await self.member.hand_over(),
                began_at=self.reasons.began_at,
                process=this_process(),
                idle_since_ms=self.reasons.waits_since_ms,
                asked_since_ms=self._leave_request.asked_since_ms,
            )
            if not self._handing_over:  # otherwise this process goes on with it
                self._record.write_handed_over()
            return Outcome(ending=ending, epoch=epoch, saved=saved.to_json())
        if ending.stands_back:
            self._record.write(WorkerPhase.LEFT)
            return Outcome(ending=ending, epoch=epoch, error=self.hands.unable or self.hands.blamed)
        if ending in (Ending.LEFT, Ending.DRAINED, Ending.IDLE):
            self._record.write(WorkerPhase.LEFT)
            wish = self.reasons.wish
            if wish is not None:
                self._journal.note(lambda: self._topics.clear_control(wish))
        elif ending is Ending.FAILED and self._record.phase is WorkerPhase.JOINING:
            # Its first record, written before it joined, names this process: a successor would wait for it.
            self._record.write(WorkerPhase.LEFT)
        return Outcome(ending=ending, epoch=epoch, error=self._error())

    def _due(self, tasks: Tasks) -> Tasks:
        jobs, statuses = self._topics.jobs, self._topics.status.tasks
        return frozenset(task for task in tasks if may_run(task, jobs, statuses))

    def _error(self) -> str | None:
        if self._over is not None:
            return self._over.error or self._idle_error
        if not self._overdue:
            return None
        stuck = ", ".join(map(self._topics.jobs.label, sorted(self.hands.running)))
        return (
            f"told to stop {self.settings.member.rebalance_timeout_ms / 1000:g} s ago and still running: {stuck}; the"
            " worker ends without having left the group (does the job look at task.stopping?)"
        )
