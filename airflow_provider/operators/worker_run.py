"""A worker in the process of its task: membership, Spark, and the words for the task log."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.common.linking import FollowedLink, following_leader
from airflow_provider.common.task_instance import TaskPage
from airflow_provider.common.worker_values import WorkerPlan, WorkerStory
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.operators.loop_thread import LoopThread
from airflow_provider.operators.masking import masked
from airflow_provider.operators.tries import RUNNING, Tries
from airflow_provider.protocol.model import Epoch
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.narrator import narrated

if TYPE_CHECKING:
    from airflow_provider.ledger.status_view import StatusSnapshot
    from airflow_provider.worker.ending import Outcome
    from airflow_provider.worker.standing_back import SteadyWorker

    Leaving = Callable[[SteadyWorker], Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)

_LEAVE_WITHIN_S: Final = 20.0

_ASK_WITHIN_S: Final = 1.0
"""Airflow kills a task's process 5 s after it has told it to end; so long its tasks may take to stop, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a worker's run in this process ended.

    :param status: what the status topic said at the end
    """

    outcome: Outcome
    story: WorkerStory
    status: StatusSnapshot


class WorkerRun:
    """Runs a worker until it is done, told to leave, or its membership had better go on in the triggerer.

    :param saved: the membership, as the triggerer left it; None to join anew
    :param tries: what becomes of the worker when this process ends
    :param link: the task's link to its group
    """

    def __init__(
        self,
        plan: WorkerPlan,
        equipment: Equipment,
        kafka: KafkaSettings,
        story: WorkerStory,
        saved: Mapping[str, Any] | None,
        tries: Tries,
        link: FollowedLink,
    ) -> None:
        self._link = link
        self._tries = tries
        self._plan = plan
        self._equipment = equipment
        self._kafka = kafka
        self._story = story
        self._saved = saved
        self._worker: SteadyWorker | None = None
        self._leaving: Leaving | None = None
        self._asking: asyncio.Task[None] | None = None
        self._thread: LoopThread[RunResult] = LoopThread(self._work)

    def run(self) -> RunResult:
        """Blocks until the end. Interrupted (when the task's time is over, say), the worker leaves the group.

        :raises TopicError: if the group's topics can't be used
        """
        self._thread.start()
        try:
            self._thread.join()
        except BaseException:
            self._leave_soon(self._interrupted)
            self._thread.join(_LEAVE_WITHIN_S)
            raise
        return self._thread.result()

    def leave(self, reason: str) -> None:
        """Airflow ends the task: stop everything and leave the group. May be called by a signal handler, so it takes no
        lock.
        """
        self._leave_soon(functools.partial(self._ended_by_airflow, reason))

    def _leave_soon(self, leaving: Leaving) -> None:
        self._leaving = leaving
        self._thread.call_soon(self._leave)

    def _leave(self) -> None:
        if self._worker is not None and self._leaving is not None and self._asking is None:
            self._asking = asyncio.ensure_future(self._leaving(self._worker))

    async def _interrupted(self, worker: SteadyWorker) -> None:
        worker.leave("its task was interrupted", self._tries.interrupted())

    async def _ended_by_airflow(self, reason: str, worker: SteadyWorker) -> None:
        """Only Airflow knows whether the task is to be run again: a user has marked it, or cleared it."""
        page = TaskPage.of(self._plan.member.url)
        state: str | None = RUNNING
        if page is not None:
            try:
                state = await asyncio.wait_for(asyncio.to_thread(page.state), _ASK_WITHIN_S)
            except Exception as failed:  # noqa: BLE001  whatever Airflow's client raises, the worker has to leave
                log.warning("Airflow does not say why it ends the task: %s", str(failed) or type(failed).__name__)
        worker.leave(reason, self._tries.ended_by_airflow(state))

    async def _work(self) -> RunResult:
        from airflow_provider.group.classic import ClassicMemberships
        from airflow_provider.group.shared import shared_group
        from airflow_provider.ledger.records import WorkerPhase
        from airflow_provider.triggers.standby import worker_settings
        from airflow_provider.worker.attached import SparkOfProcess, attached_hands
        from airflow_provider.worker.process import is_gone
        from airflow_provider.worker.standing_back import SteadyWorker
        from airflow_provider.worker.worker import Worker

        plan = self._plan
        settings = worker_settings(plan, WorkerPhase.STABLE, self._tries.returns_ms)
        async with shared_group(self._kafka, plan.member.group_id) as (transport, topics):
            memberships = ClassicMemberships(plan.member, transport, topics, policy=plan.policy, is_gone=is_gone)
            make_hands = attached_hands(self._equipment, settings, topics, masked)

            def make(saved: Mapping[str, Any] | None) -> Worker:
                return Worker(settings, topics=topics, memberships=memberships, make_hands=make_hands, saved=saved)

            means = SparkOfProcess(self._equipment, settings, masked)
            worker = SteadyWorker(settings, topics, make, means, self._saved)
            told = Epoch(self._story.last_epoch or 0)
            applied = worker.applied if self._saved is None else None
            narrating = narrated(topics, plan.member.worker, already_told=told, applied=applied)
            async with following_leader(topics, self._link), narrating as narrator:
                self._worker = worker
                self._thread.call_soon(self._leave)  # it may have been told so before
                outcome = await worker.run()
            story = self._story.stopped_more(worker.stopped_running)
            story = story.in_epochs(narrator.first_epoch, narrator.epoch)
            return RunResult(outcome=outcome, story=story, status=topics.status)
