"""The topics of a group, as whoever takes part in it sees them: what is to run, what runs, and words to add."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final

from airflow_provider.assignors.record import GroupRecord
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.off_loop import off_loop
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.leftovers import Leftovers, leftovers
from airflow_provider.ledger.records import (
    GROUP_KEY,
    REMOVED,
    ControlRecord,
    JobDefinition,
    PlanRecord,
    RebalanceEvent,
    Removal,
    TaskEvent,
    TaskStatus,
    TopicNames,
    WorkerStatus,
    control_key,
    encode,
    job_key,
    plan_key,
    task_key,
    worker_key,
)
from airflow_provider.ledger.retrying import to_try_again
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ledger.topic_view import About
from airflow_provider.protocol.model import TaskId
from airflow_provider.topics import clients
from airflow_provider.topics.errors import BrokerAwayError, TopicError, TopicRenewedError, TopicTimeoutError
from airflow_provider.topics.feed import GroupFeed
from airflow_provider.topics.producer import NewRecord
from airflow_provider.topics.rights import WATCHER, Needs

DEFAULT_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What came of submitting a job.

    :param definition: the one that holds now
    :param changed: False if the same had been submitted before, under the same run key
    :param retried: the tasks of this run that had failed for good, and are tried again
    """

    definition: JobDefinition
    changed: bool
    retried: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRound:
    """What is written of a completed rebalance: to the status topic, and to the timeline."""

    status: bytes
    event: bytes


class GroupTopics:
    """The jobs, status and events topics of one group, for one event loop.

    Cheap: all of a process that use the same connection share its clients, and the views of a group.

    :param settings: the connection
    :param group: the group's id
    :param needs: what its user must be allowed to do
    :raises TopicError: if the group has no name: no worker could join it
    """

    def __init__(self, settings: KafkaSettings, group: str, needs: Needs = WATCHER) -> None:
        if not group:
            raise TopicError("the name of the group is empty")
        self.group = group
        self._needs = needs
        self.names = TopicNames.of(group)
        self._settings = settings
        self._clients: clients.Clients | None = None
        self._feed: GroupFeed | None = None
        self._ends: Mapping[str, int] = {}

    async def __aenter__(self) -> GroupTopics:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def attach(self) -> None:
        """Begin to read, and make no topics: for whoever only looks. :meth:`catch_up` says if one is missing."""
        self._acquire()
        self._open().follow(self._followed())

    async def start(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Make the topics that are missing, if that is for this user to do, and begin to read.

        :raises NoTopicError: if one is missing and is not for this user to make
        :raises RightsError: if one is missing and may not be made, or the user may not do what this is for
        :raises RefusedError: if the broker refuses the connection
        :raises BrokerAwayError: if no broker answers in time
        :raises TopicError: if a topic can't be used
        """
        self._acquire()
        try:
            await self._prepare(self._needs, timeout_s)
        except BaseException:
            await self.aclose()
            raise

    async def start_for(self, needs: Needs, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """As :meth:`start`, for one more who uses these topics, and who needs this; if that fails, it fails alone.

        :raises TopicError: see :meth:`start`
        """
        self._acquire()
        await self._prepare(needs, timeout_s)

    async def _prepare(self, needs: Needs, timeout_s: float) -> None:
        """See that the user may do this, before anything is done: half of it would help nobody.

        Once granted is granted: what is taken away later shows where it is needed.
        """
        if needs.writes:
            self._open().warm_up()
        feed = self._followed()
        async with feed.preparing():
            if needs not in feed.granted:
                await self._open().admin.prepare(self.names, needs, timeout_s=timeout_s)
                feed.granted.add(needs)
        self._open().follow(feed)

    async def aclose(self) -> None:
        """Stop reading, when what was written is stored. May be called again."""
        if self._clients is None:
            return
        self._clients = self._feed = None
        unused = clients.release(self._settings, self.group)
        if unused is not None:
            await asyncio.to_thread(unused.close)

    @property
    def jobs(self) -> JobsSnapshot:
        """The jobs topic, as far as it has been read."""
        return self._followed().jobs.snapshot()

    @property
    def status(self) -> StatusSnapshot:
        """The status topic, as far as it has been read."""
        return self._followed().status.snapshot()

    @property
    def unread(self) -> Mapping[str, tuple[int, int]]:
        """Which topics have not been read to where they ended at the last :meth:`catch_up`: how far they are, and to
        where.
        """
        feed = self._followed()
        read = {self.names.jobs: feed.jobs.offset, self.names.status: feed.status.offset}
        return {topic: (read[topic], end) for topic, end in self._ends.items() if read[topic] < end}

    @property
    def missing(self) -> str | None:
        """The name of a topic that does not exist, if that has been so for some seconds."""
        return self._followed().missing

    @property
    def problem(self) -> TopicError | None:
        """Why one of the topics can't be read at present."""
        return self._followed().problem

    @property
    def fault(self) -> TopicError | None:
        """Why one of the topics is read no more: what is known of the group grows old."""
        return self._followed().fault

    @property
    def renewals(self) -> Mapping[str, int]:
        """How often each topic was found to have been deleted and made anew, since this process began to read it."""
        return self._followed().renewals

    async def catch_up(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until everything has been read that was in the jobs and status topics when this was called.

        :raises NoTopicError, RightsError: if a topic can't be read
        :raises RefusedError: if the broker refuses the connection
        :raises TopicRenewedError: if a topic was deleted and made anew since this process began to read it
        :raises BrokerAwayError: if no broker answers in time
        """
        deadline = time.monotonic() + timeout_s
        feed, jobs, status = self._followed(), self.names.jobs, self.names.status
        read = {jobs: feed.jobs.offset, status: feed.status.offset}
        ends = await self._open().admin.end_offsets((jobs, status), timeout_s=timeout_s)
        for topic in read:
            if ends[topic] < read[topic]:
                raise TopicRenewedError(topic)
        self._ends = ends
        await self._wait(
            lambda: feed.jobs.offset >= ends[jobs] and feed.status.offset >= ends[status],
            timeout_s=max(0.0, deadline - time.monotonic()),
            waiting_for="the end of the topics",
        )

    async def wait_for(
        self, predicate: Callable[[JobsSnapshot, StatusSnapshot], bool], *, timeout_s: float | None = None
    ) -> None:
        """Wait until ``predicate`` holds; it is asked now and after each change.

        :raises TopicTimeoutError: if it does not in time, though the broker is there
        :raises BrokerAwayError: if it does not in time, and no broker is there
        :raises TopicError: if a topic can't be read
        """
        await self._wait(lambda: predicate(self.jobs, self.status), timeout_s=timeout_s, waiting_for="a change")

    def subscribe(self, listener: Callable[[], None], about: About = About.EVERYTHING) -> Callable[[], None]:
        """Call ``listener`` in the running loop soon after each change, perhaps once for several changes.

        :param about: which changes matter to it
        :returns: a function that ends it
        """
        return self._followed().changes.listen(listener, about)

    async def submit(self, definition: JobDefinition) -> Submission:
        """Ask the group to run a job. The same definition under the same run key changes nothing, but that tasks which
        have failed for good are tried again.

        A job that was removed begins anew, whatever is still said of it by those who have not read the removal.

        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        known = self.jobs.jobs.get(definition.name)
        if known is not None and known.same_as(definition):
            return Submission(definition=known, changed=False, retried=await self._try_again(known))
        removal = self.jobs.removed_at.get(definition.name) if known is None else known.removal
        definition = replace(definition, removal=removal)
        await self._put(self.names.jobs, job_key(definition.name), definition.to_json())
        return Submission(definition=definition, changed=True, retried=await self._try_again(definition))

    async def retry_failed(self, job: str, indexes: Collection[int] | None = None) -> tuple[TaskId, ...]:
        """Have tasks of the job's present run tried again that failed for good.

        :param indexes: which tasks, -1 for the planner; None: all
        :returns: which of them had failed
        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        definition = self.jobs.jobs.get(job)
        return () if definition is None else await self._try_again(definition, indexes)

    async def _try_again(self, definition: JobDefinition, indexes: Collection[int] | None = None) -> tuple[TaskId, ...]:
        again = to_try_again(definition, self.jobs.plans.get(definition.name), self.status.tasks, indexes)
        await asyncio.gather(*map(self.publish_task, again))
        return tuple(status.task for status in again)

    async def remove(self, job: str, *, by: str = "") -> bool:
        """Ask the group to run a job no more, and forget how far it was.

        The job goes first: should this end half-way, what is left is of no job, and a leader deletes it.

        :param by: who asks for it, for those who wait for the job
        :returns: whether there was such a job
        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        known = self.jobs.jobs.get(job)
        # What holds a checkpoint is forgotten by its worker when it has stopped; a job of the same name waits for it.
        words = self.status.tasks.items()
        statuses = [task_key(task) for task, word in words if task.job == job and word.standing_claim is None]
        if known is not None:
            removal = Removal(by=by, at_ms=wall_ms(), run_key=known.run_key, bounded=known.bounded)
            last = encode({**known.to_json(), REMOVED: removal.to_json()})
            await self._write_all(
                NewRecord(self.names.jobs, job_key(job), last), NewRecord(self.names.jobs, job_key(job), None)
            )
        if job in self.jobs.plans:
            await self._put(self.names.jobs, plan_key(job), None)
        await asyncio.gather(*(self._put(self.names.status, key, None) for key in statuses))
        return known is not None

    async def publish_plan(self, plan: PlanRecord) -> None:
        """Write the task configs of a job. By whoever holds the job's planner."""
        await self._put(self.names.jobs, plan_key(plan.job), plan.to_json())

    async def publish_control(self, control: ControlRecord) -> None:
        """Ask something of a worker."""
        await self._put(self.names.jobs, control_key(control.worker), control.to_json())

    async def clear_control(self, control: ControlRecord) -> None:
        """The worker has done what it was asked."""
        await self._put(self.names.jobs, control_key(control.worker), None)

    def publish_task(self, status: TaskStatus) -> Awaitable[None]:
        """Write what became of a task, to the status topic and to the timeline. Written as it is called: a worker does
        this for each step of each task, and a coroutine for each would cost more than the writing.
        """
        key, event = task_key(status.task), TaskEvent(status=status, at_ms=wall_ms())
        return self._write_all(
            NewRecord(self.names.status, key, status.encoded()), NewRecord(self.names.events, key, event.encoded())
        )

    def publish_progress(self, status: TaskStatus) -> Awaitable[None]:
        """Write how far a task is that goes on running, to the status topic only."""
        return self._write_all(NewRecord(self.names.status, task_key(status.task), status.encoded()))

    async def forget_task(self, task: TaskId) -> None:
        """Delete the last word about a task of a job that was removed."""
        await self._put(self.names.status, task_key(task), None)

    async def publish_worker(self, status: WorkerStatus) -> None:
        """Write what a worker does."""
        await self._put(self.names.status, worker_key(status.worker), status.to_json())

    async def encode_group(self, record: GroupRecord) -> EncodedRound:
        """The bytes of a rebalance's records; in a thread, if it is a large one."""

        def encoded() -> EncodedRound:
            return EncodedRound(status=encode(record.to_json()), event=encode(RebalanceEvent.of(record).to_json()))

        return await off_loop(encoded, tasks=sum(map(len, record.assignment.values())))

    async def publish_group(self, record: GroupRecord | EncodedRound) -> None:
        """Write a completed rebalance, to the status topic and to the timeline. By its leader."""
        encoded = record if isinstance(record, EncodedRound) else await self.encode_group(record)
        await self._write_all(
            NewRecord(self.names.status, GROUP_KEY, encoded.status),
            NewRecord(self.names.events, GROUP_KEY, encoded.event),
        )

    async def reassert(self) -> int:
        """Write the records again that stale ones were written over, which compaction would keep. By the leader.

        What has landed by now is read first: it may have made one of them old. What lands after that wins by the rules
        of the view, and is written again in its turn.

        :returns: how many
        :raises TopicError: if they can't be written
        """
        await self.catch_up()
        overwritten = self.status.overwritten
        await asyncio.gather(
            *(self._put(self.names.status, key, record.to_json()) for key, record in overwritten.items())
        )
        return len(overwritten)

    async def sweep(self, leads: Callable[[], bool]) -> int:
        """Delete what is of nobody any more. By the leader.

        What was there before the topics were read to their ends and is of nobody then, is of nobody for good: a job
        that is submitted again begins anew, and under the same keys. So nobody may have been given its tasks since.

        :param leads: whether no round can have begun without the caller; asked right before the records are deleted
        :returns: how many records
        :raises TopicError: if they can't be deleted
        """
        before = await self._leftovers()
        if not before:
            return 0
        await self.catch_up()
        left = before & await self._leftovers()
        if not leads():
            return 0
        await asyncio.gather(
            *(self._put(self.names.jobs, key, None) for key in left.jobs),
            *(self._put(self.names.status, key, None) for key in left.status),
        )
        return len(left.jobs) + len(left.status)

    async def _leftovers(self) -> Leftovers:
        jobs, status = self.jobs, self.status
        now_ms = wall_ms()
        return await off_loop(lambda: leftovers(jobs, status, wall_ms=now_ms), tasks=len(status.tasks))

    async def _put(self, topic: str, key: str, data: dict[str, Any] | None) -> None:
        await self._write_all(NewRecord(topic, key, None if data is None else encode(data)))

    def _write_all(self, *records: NewRecord) -> Awaitable[None]:
        return self._open().writer.write(*records)

    async def _wait(self, holds: Callable[[], bool], *, timeout_s: float | None, waiting_for: str) -> None:
        feed, outage = self._followed(), self._open().outage
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look() -> None:
            if done.done():
                return
            try:
                if holds():
                    done.set_result(None)
                elif feed.problem is not None:
                    done.set_exception(feed.problem)
            except Exception as error:  # noqa: BLE001  the predicate's own: it goes to whoever waits
                done.set_exception(error)

        stop = feed.changes.listen(look)
        look()
        try:
            await asyncio.wait_for(done, timeout_s)
        except asyncio.TimeoutError:
            doing = f"waiting for {waiting_for} of group {self.group!r}"
            if outage.away:
                raise BrokerAwayError(outage.servers, doing, outage.reason) from None
            raise TopicTimeoutError(f"{doing}: not within {timeout_s:g} s") from None
        finally:
            stop()

    def _acquire(self) -> None:
        if self._clients is None:
            self._clients, self._feed = clients.acquire(self._settings, self.group)

    def _open(self) -> clients.Clients:
        if self._clients is None:
            raise TopicError(f"the topics of group {self.group!r} are not open: call start() first")
        return self._clients

    def _followed(self) -> GroupFeed:
        self._open()
        assert self._feed is not None
        return self._feed
