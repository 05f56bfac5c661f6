"""Runs a worker in the process of its task: membership, Spark, and the task log."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_provider.hooks.spark_connect import token_of_handle
from airflow_provider.integration.airflow_api.masking import masked
from airflow_provider.integration.airflow_api.task_instance import TOLD_TO_END, TaskPage, why_ended
from airflow_provider.integration.lineage_events.lineage import UNTOLD, LineageTeller
from airflow_provider.integration.linking import FollowedLink, following_leader
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.integration.rare_collections import collect_rarely
from airflow_provider.integration.stats.airflow_stats import of_task
from airflow_provider.integration.stats.metering import observer_of
from airflow_provider.integration.task_failures.patience import patiently
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import PassingError, TopicError
from airflow_provider.operators.task_process.loop_thread import LoopThread
from airflow_provider.operators.task_process.tries import RUNNING, Tries
from airflow_provider.state.records import WorkerPhase
from airflow_provider.triggers.may_continue import is_of
from airflow_provider.values.model import Epoch
from airflow_provider.worker.endings.after_ending import Finding, Next, Process
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.exit_requests import ExitRequests

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.topic_writer import GroupTopics
    from airflow_provider.state.views.status_view import StatusSnapshot
    from airflow_provider.worker.endings.ending import Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")

_LEAVE_WITHIN_S: Final = 20.0

_ASK_WITHIN_S: Final = 1.0
"""In seconds. Airflow kills a task's process 5 s after asking it to end, and its Spark tasks also need time to stop."""

_CONFIRM_WITHIN_S: Final = 2.0
"""A later answer counts, too: the worker stops its tasks, and may stay in its group for so many seconds more. Otherwise
others would wait for the worker of a task that a user has ended, only because Airflow was slow.
"""


async def _ask(page: TaskPage | None) -> str | None:
    """The state of the task instance; ``running`` if that can't be known."""
    if page is None:
        return RUNNING
    try:
        return await asyncio.to_thread(page.state)
    except Exception as failed:  # noqa: BLE001  whatever Airflow's client raises, the worker has to leave
        log.warning("Can't ask Airflow why it ends the task: %s", str(failed) or type(failed).__name__)
        return RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a worker's run in this process ended.

    :param then: what comes next
    :param status: the status topic at the end
    """

    outcome: Outcome
    then: Next
    story: WorkerStory
    status: StatusSnapshot

    @property
    def error(self) -> str | None:
        """Why it has ended, unless its work is done."""
        if self.outcome.ending is not Ending.FENCED or self.then is not Next.RETRY:
            return self.outcome.error
        stuck = ", ".join(map(str, sorted(self.outcome.still_running)))
        return (
            f"it was held in two places; told to stop and still running: {stuck}, which ends with this process; its"
            " next try joins again (does the job look at task.stopping?)"
        )


class WorkerRun:
    """Runs a worker until its work is done, it has to leave, or it hands its membership over to the triggerer.

    :param saved: the membership, as the triggerer left it; None: to join
    :param tries: whether and when the worker returns after this process
    :param link: the task's link to its group
    :param lineage: sends OpenLineage events of its Spark tasks
    :ivar why_ended: why Airflow ends the task, if it does
    """

    def __init__(
        self,
        spec: WorkerSpec,
        equipment: Equipment,
        kafka: KafkaSettings,
        story: WorkerStory,
        saved: Mapping[str, Any] | None,
        tries: Tries,
        link: FollowedLink,
        lineage: LineageTeller = UNTOLD,
    ) -> None:
        self._lineage = lineage
        self._link = link
        self._tries = tries
        self._spec = spec
        self._equipment = equipment
        self._kafka = kafka
        self._story = story
        self._saved = saved
        self._may_be_held_twice = saved is not None
        self._exit_requests = ExitRequests()
        self.why_ended = TOLD_TO_END
        self._leaving: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._thread: LoopThread[RunResult] = LoopThread(self._work)

    def run(self) -> RunResult:
        """Block until the end. If this is interrupted (for example by the task's time limit), the worker leaves the
        group.

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

    def leave(self) -> None:
        """Stop everything and leave the group, because Airflow ends the task. A signal handler may call this, so it
        takes no lock.
        """
        self._leave_soon(self._ended_by_airflow)

    def _leave_soon(self, leaving: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._leaving = leaving
        self._thread.call_soon(self._leave)

    def _leave(self) -> None:
        if self._leaving is not None and self._asking is None:
            self._asking = asyncio.ensure_future(self._leaving())

    async def _interrupted(self) -> None:
        self._exit_requests.leave("its task was interrupted", self._tries.interrupted())

    async def _ended_by_airflow(self) -> None:
        """Leave. Only Airflow knows whether the task will run again, as a user has marked or cleared it."""
        asked = asyncio.ensure_future(_ask(TaskPage.of(self._spec.member.url)))
        in_time, _ = await asyncio.wait({asked}, timeout=_ASK_WITHIN_S)
        if not in_time:
            log.warning("Airflow has not said within %g s why it ends the task", _ASK_WITHIN_S)
            self._exit_requests.leave(self.why_ended, self._tries.ended_by_airflow(RUNNING), _CONFIRM_WITHIN_S)
        state = await asked
        self.why_ended = why_ended(state)
        absence = self._tries.ended_by_airflow(state)
        if in_time:
            self._exit_requests.leave(self.why_ended, absence)
        else:
            self._exit_requests.confirm(absence)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """:raises TopicError: if it has not succeeded when the worker was asked to leave"""

        async def unless_it_leaves() -> T:
            try:
                return await work()
            except PassingError as away:
                if self._exit_requests.leaving:
                    raise TopicError(f"{self.why_ended}; before it could leave: {away}") from away
                raise

        return await patiently(unless_it_leaves, f"Worker {self._spec.member.worker}")

    async def _find(self, outcome: Outcome, topics: GroupTopics) -> Finding:
        if outcome.ending is Ending.HANDED_OVER and outcome.came:
            return Finding.STAYS
        if outcome.ending is Ending.FENCED and await self._is_held_twice(topics):
            return Finding.STUCK if outcome.still_running else Finding.OWN
        return Finding.NOTHING

    async def _is_held_twice(self, topics: GroupTopics) -> bool:
        """Whether a copy of the trigger of this task may have taken the worker's name: once, since it comes from there.

        When a triggerer stalls, another one takes over its triggers, and its copy may have to join again.
        """
        if not self._may_be_held_twice:
            return False
        self._may_be_held_twice = False
        await self._patiently(topics.catch_up)
        last = topics.status.workers.get(self._spec.member.worker)
        return is_of(last, self._spec.member.url) and not self._exit_requests.leaving

    async def _work(self) -> RunResult:
        # Imported here, because they import Kafka's clients and PySpark, and DAG files import this module.
        from airflow_provider.worker.hands.in_process import InThisProcess
        from airflow_provider.worker.holding import Holding, held

        self._thread.call_soon(self._leave)  # in case it was asked before the loop ran
        narrated = Epoch(self._story.last_epoch or 0)
        holding = Holding(
            protocol=self._spec.protocol(self._tries.returns_ms),
            settings=self._spec.settings(WorkerPhase.STABLE, self._tries.returns_ms),
            place=InThisProcess(self._equipment, masked, self._lineage.hear, token_of_handle),
            process=Process.TASK,
            find=self._find,
            beside=lambda topics: following_leader(topics, self._link),
            observer=observer_of(self._spec.member, of_task(), narrated),
        )

        collect_rarely()
        hold = functools.partial(held, holding, self._kafka, self._exit_requests, narrated_epoch=narrated)
        try:
            async with AsyncExitStack() as stack:
                worker = await self._patiently(lambda: stack.enter_async_context(hold()))
                outcome, then = await worker.run(self._saved)
                status = worker.topics.status  # while they are open
        finally:
            await self._lineage.close()
        story = self._story.stopped_more(worker.stopped_running).in_epochs(worker.first_epoch, worker.epoch)
        return RunResult(outcome=outcome, then=then, story=story, status=status)
