"""Holds a worker's membership in the triggerer while it runs no Spark task in a process."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_provider.integration.airflow_api.airflow_names import conf
from airflow_provider.integration.airflow_api.masking import masked
from airflow_provider.integration.airflow_api.task_instance import OVER, push_xcom, state_of, why_ended
from airflow_provider.integration.airflow_metadata.storable import storable, storable_state, storing_failures
from airflow_provider.integration.linking import following_leader, link_of_trigger
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.integration.rare_collections import collect_rarely
from airflow_provider.integration.stats.airflow_stats import of_process
from airflow_provider.integration.stats.metering import observer_of
from airflow_provider.integration.task_failures.patience import patiently
from airflow_provider.kafka.event_loops.off_loop import off_loop
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.reports.standing import group_so_far
from airflow_provider.triggers.connections import Connection, connection_of
from airflow_provider.triggers.may_continue import Continuation, continuation_of, is_of
from airflow_provider.triggers.resume_delay import pause_left_s
from airflow_provider.triggers.spark_tokens import tokens_by
from airflow_provider.triggers.telling import telling_so_far
from airflow_provider.values.model import Epoch
from airflow_provider.values.saved import SAVED_VERSION, check_saved
from airflow_provider.worker.endings.after_ending import Finding, Next, Process
from airflow_provider.worker.endings.ending import KILLED, Ending
from airflow_provider.worker.exit_requests import ExitRequests

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.topic_writer import GroupTopics
    from airflow_provider.state.views.status_view import StatusSnapshot
    from airflow_provider.worker.endings.ending import Outcome
    from airflow_provider.worker.holding import Held, Holding, Place

log = logging.getLogger(__name__)

_STALE_S: Final = 15.0
_LEAVE_WITHIN_S: Final = 30.0

_BACKGROUND: Final[set[asyncio.Task[None]]] = set()
"""References to running tasks, so that they are not garbage collected."""


def _load() -> None:
    """Import what holds memberships. Not at the top, because a DAG file imports this module.

    Called in a thread, because importing Kafka's clients takes long; and by each trigger, because another one may still
    be importing a module that is already in ``sys.modules``.
    """
    for module in (
        "airflow_provider.group.live.classic.classic_membership",
        "airflow_provider.group.live.declarative.declarative_membership",
        "airflow_provider.group.declarative.server.candidates",
        "airflow_provider.worker.holding",
        "airflow_provider.worker.hands.watching_hands",
    ):
        importlib.import_module(module)
    _freeze("Kafka's clients")


@functools.cache
def _freeze(_loaded: str) -> None:
    """Exclude all present objects from garbage collection, and collect less often: the pending heartbeats of many
    memberships are more objects than Python's threshold of 700, and hardly any of them is garbage.

    Only if it is configured: a triggerer is shared, and garbage cycles of others would never be freed.

    :param _loaded: what has been loaded; this is done once for each
    """
    if conf.getboolean("cooperative_spark", "gc_freeze", fallback=False):
        gc.freeze()
        collect_rarely()


class WorkerTrigger(BaseTrigger):
    """The same worker as in the task's process, with hands that start nothing: it sends heartbeats, joins, syncs and
    assigns.

    It fires once: when there is a task to start (the operator then continues with the same membership), or when the
    membership has ended. When the group has done its work, it ends the task by itself, if it may.

    It waits for a broker that is away. When the triggerer is shut down, the next one takes over the membership; when a
    user ends the task, the membership ends.

    :param kafka_conn_id: the connection; its contents are not stored
    :param plan: see :class:`~airflow_provider.integration.memberships.worker_values.WorkerSpec`
    :param saved: the membership, as the task's process left it
    :param story: see :class:`~airflow_provider.integration.memberships.worker_values.WorkerStory`
    :param deferred_at_ms: when the task deferred (wall clock, milliseconds since 1970)
    :param push_summary: whether to push a summary as the task's ``return_value``
    :param ends_task: whether it may end the task by itself. Airflow then creates no asset events for the task's
        outlets, so a task that has outlets ends on a worker
    :param link: where the task's link to its group leads; it follows the leader
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str,
        plan: Mapping[str, Any],
        saved: Mapping[str, Any],
        story: Mapping[str, Any],
        deferred_at_ms: int = 0,
        push_summary: bool = True,
        ends_task: bool = True,
        link: str = "",
        v: int = SAVED_VERSION,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # without hints
        check_saved({"v": v}, "WorkerTrigger")
        self.kafka_conn_id = kafka_conn_id
        self.spec = WorkerSpec.from_json(plan)
        self.saved = dict(saved)
        self.story = WorkerStory.from_json(story)
        self.deferred_at_ms = deferred_at_ms
        self.push_summary = push_summary
        self.ends_task = ends_task
        self._link = link_of_trigger(self, link)
        self._story = self.story
        self._held: Mapping[str, Any] | None = None
        self._exit_requests = ExitRequests()
        self._holding: asyncio.Task[TriggerEvent] | None = None
        self._killing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "v": SAVED_VERSION,
                "kafka_conn_id": self.kafka_conn_id,
                "plan": self.spec.to_json(),
                "saved": storable_state(self.saved),
                "story": storable_state(self.story.to_json()),
                "deferred_at_ms": self.deferred_at_ms,
                "push_summary": self.push_summary,
                "ends_task": self.ends_task,
                "link": self._link.shown,
            },
        )

    @storing_failures
    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        # In a task of its own: when Airflow cancels this one, it is not known yet whether the membership continues.
        self._holding = asyncio.ensure_future(self._hold())
        yield await asyncio.shield(self._holding)

    async def cleanup(self) -> None:
        """Stop holding the membership, without leaving the group. Does not ask Airflow, which may be gone."""
        if self._ending is None:
            self._ending = _in_background(self._end())
        await asyncio.shield(self._ending)

    async def on_kill(self) -> None:
        """A user has ended the task: leave the group.

        Airflow also calls this for a stalled copy of a trigger that another triggerer has taken over, and for a task
        that was cleared, whose next try already has the membership. In both cases the membership continues: it only
        leaves if the task has really ended.
        """
        if self._killing is None:
            self._killing = _in_background(self._kill())
        await asyncio.shield(self._killing)

    async def _kill(self) -> None:
        state = "deferred" if self.task_instance is None else await state_of(self.task_instance)
        if state not in OVER:
            log.info("Worker %s continues elsewhere", self.spec.member.worker)
            return
        if self._holding is not None and not self._holding.done():
            log.info("Worker %s leaves the group: %s", self.spec.member.worker, why_ended(state))
            self._exit_requests.leave(why_ended(state), KILLED)
            await asyncio.wait([self._holding])

    async def _end(self) -> None:
        if self._killing is not None:
            await asyncio.wait([self._killing], timeout=_LEAVE_WITHIN_S)
            self._killing.cancel()
        if self._holding is not None:
            self._holding.cancel()
            await asyncio.gather(self._holding, return_exceptions=True)

    async def _hold(self) -> TriggerEvent:
        _freeze("Airflow")  # before a thousand triggers start at once and make the collector look at all objects
        async with connection_of(self.kafka_conn_id) as connection:
            await asyncio.to_thread(_load)
            event: TriggerEvent | None = None
            while event is None:
                take_part = functools.partial(self._take_part, connection)
                event = await patiently(take_part, f"Worker {self.spec.member.worker}")
            return event

    async def _take_part(self, connection: Connection) -> TriggerEvent | None:
        """:returns: None if the membership is to continue here"""
        from airflow_provider.worker.holding import held

        settings, narrated = connection.settings, Epoch(self._story.last_epoch or 0)
        async with held(self._how(connection), settings, self._exit_requests, narrated_epoch=narrated) as worker:
            forget = connection.when_other_than(settings, self._exit_requests.hand_over)
            try:
                outcome, then = await worker.run(self._held or await self._continued(worker))
            finally:
                forget()
            self._story = self._story.in_epochs(worker.first_epoch, worker.epoch)
            if then is Next.REOPEN:
                self._held = outcome.saved
                return None
            status = worker.topics.status
            return await self._event_of(outcome, then, await self._summary(outcome, status), status)

    async def _summary(self, outcome: Outcome, status: StatusSnapshot) -> dict[str, Any]:
        """The summary of all tasks of the group; empty if the membership continues."""
        if outcome.ending is Ending.HANDED_OVER:
            return {}
        summary = functools.partial(self._story.summary, self.spec, outcome.ending, status)
        return await off_loop(summary, tasks=len(status.tasks))

    def _how(self, connection: Connection) -> Holding:
        from airflow_provider.worker.holding import Holding

        settings = connection.settings

        async def find(outcome: Outcome, topics: GroupTopics) -> Finding:
            match outcome.ending:
                case Ending.HANDED_OVER if connection.settings != settings or self._exit_requests.leaving:
                    return Finding.STAYS
                case Ending.FENCED if await self._is_mine_all_the_same(topics):
                    return Finding.OWN
                case Ending.DRAINED | Ending.LEFT if self.ends_task and self.task_instance is not None:
                    return Finding.MAY_END_TASK
                case _:
                    return Finding.NOTHING

        @asynccontextmanager
        async def beside(topics: GroupTopics) -> AsyncIterator[None]:
            look = functools.partial(group_so_far, self.spec.member.group_id)
            async with telling_so_far(topics, None, look), following_leader(topics, self._link):
                yield

        return Holding(
            protocol=self.spec.protocol(),
            settings=self.spec.settings(WorkerPhase.DEFERRED),
            place=self._place(),
            process=Process.TRIGGERER,
            find=find,
            beside=beside,
            observer=observer_of(self.spec.member, of_process(), Epoch(self._story.last_epoch or 0)),
        )

    def _place(self) -> Place:
        from airflow_provider.worker.hands.standby import InTriggerer
        from airflow_provider.worker.hands.watching_hands import WatchesInTriggerer

        pause_s = functools.partial(pause_left_s, self.deferred_at_ms)
        watches = self.spec.watches
        if watches is None:
            return InTriggerer(pause_s)
        return WatchesInTriggerer(
            pause_s,
            server=watches.server,
            token_of=tokens_by(watches.server, watches.conn_id),
            tell_every_s=watches.progress_s,
            max_spark_deaths=watches.max_spark_deaths,
            allowed=watches.allowed,
            masters=watches.masters,
            mask=masked,
        )

    async def _continued(self, worker: Held) -> Mapping[str, Any]:
        """The saved membership; under a new member id if another process may hold it, too."""
        how = continuation_of(self._last_said(worker.topics), self.spec.member.url, self.deferred_at_ms)
        goes_on = how is Continuation.GO_ON
        if goes_on or (how is Continuation.DOUBT and not await self._is_mine_all_the_same(worker.topics)):
            return self.saved
        log.info("Worker %s was held elsewhere; this triggerer takes over its name", self.spec.member.worker)
        return worker.taken_over(self.saved)

    async def _is_mine_all_the_same(self, topics: GroupTopics) -> bool:
        """Whether the membership belongs to this copy of the trigger although another process of the same task has it.

        Either copy may be the old one. Airflow removes an old copy within seconds. Until this is decided, this copy
        sends nothing to the coordinator.
        """
        while is_of(self._last_said(topics), self.spec.member.url):
            if self._exit_requests.leaving:
                return True
            log.info("Worker %s is held elsewhere, too; asking Airflow which copy is valid", self.spec.member.worker)
            await asyncio.sleep(_STALE_S)
            if self.task_instance is None or await state_of(self.task_instance) == "deferred":
                return is_of(self._last_said(topics), self.spec.member.url)
        return False

    def _last_said(self, topics: GroupTopics) -> WorkerStatus | None:
        return topics.status.workers.get(self.spec.member.worker)

    async def _event_of(
        self, outcome: Outcome, then: Next, summary: Mapping[str, Any], status: StatusSnapshot
    ) -> TriggerEvent:
        from airflow_provider.worker.hands.watching_hands import what_it_lacks

        log.info("Worker %s: %s at epoch %s", self.spec.member.worker, outcome.ending.value, outcome.epoch)
        if then is Next.SUCCEED:
            if self.push_summary and self.task_instance is not None:
                await push_xcom(self.task_instance, "return_value", dict(summary))
            return TaskSuccessEvent()
        await asyncio.sleep(pause_left_s(self.deferred_at_ms))
        masters = self.spec.watches.masters if self.spec.watches else ()
        return TriggerEvent(  # type: ignore[no-untyped-call]  # without hints
            {
                "v": SAVED_VERSION,
                "worker": self.spec.member.worker,
                "epoch": outcome.epoch,
                "ending": outcome.ending.value,
                "error": storable(outcome.error),
                "lacks": storable(await what_it_lacks(status, self.spec.member.worker, masters)),
                "saved": None if outcome.saved is None else storable_state(outcome.saved),
                "story": storable_state(self._story.to_json()),
                "summary": dict(summary),
                "link": self._link.shown,
            }
        )


def _in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start something that must not be cancelled.

    Airflow (3.3) cancels a trigger that a user has ended once a second until it is gone, even while its ``on_kill``
    waits for Airflow's own answer, and then its ``cleanup``.
    """
    task = asyncio.ensure_future(work)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
    return task
