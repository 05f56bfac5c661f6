"""What is written into the topics of a group, by those who want jobs run, by its workers and by its leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider.assignors.record import GroupRecord
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.off_loop import off_loop
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.leftovers import Leftovers, leftovers
from airflow_provider.ledger.retrying import retried_in_words, to_try_again
from airflow_provider.ledger.scaling import Goal, ScaleDown, scale_down
from airflow_provider.operations.deciding import altered, check_nothing_lost, check_still_it, decide
from airflow_provider.operations.operations import AlterJob, Operation, Outcome, RestartJob
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import (
    GROUP_KEY,
    REMOVED,
    ActionEvent,
    ControlAction,
    ControlRecord,
    JobDefinition,
    PlanRecord,
    RebalanceEvent,
    Removal,
    TaskEvent,
    TaskStatus,
    WorkerStatus,
    control_key,
    encode,
    halt_key,
    halt_task_key,
    job_key,
    plan_key,
    restart_key,
    task_key,
    worker_key,
)
from airflow_provider.topics.errors import HalfDoneError, TopicError
from airflow_provider.topics.followed import FollowedTopics
from airflow_provider.topics.producer import NewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The outcome of submitting a job.

    :param definition: the job's definition now
    :param changed: False if the same had been submitted before, under the same run key
    :param retried: the tasks of this run that had failed for good, and are tried again
    """

    definition: JobDefinition
    changed: bool
    retried: tuple[TaskId, ...] = ()

    def lines(self) -> list[str]:
        """As in "job etl: submitted", for a terminal or the page."""
        job, retried = self.definition.name, self.retried
        known = "already submitted" if retried else "already submitted, nothing changed"
        return [
            f"job {job}: {'submitted' if self.changed else known}",
            *([retried_in_words(job, retried)] if retried else []),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRound:
    """What is written of a completed rebalance: to the status topic, and to the timeline."""

    status: bytes
    event: bytes


class GroupTopics(FollowedTopics):
    """The topics of one group, to read and to write."""

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
        submitted = self._action(
            job_key(definition.name), "submit", definition.name, by=definition.submitted_by, details=definition.run_key
        )
        await self._write_all(
            NewRecord(self.names.jobs, job_key(definition.name), encode(definition.to_json())), submitted
        )
        return Submission(definition=definition, changed=True, retried=await self._try_again(definition))

    async def carry_out(self, operation: Operation, *, by: str) -> Outcome:
        """Do what is asked, as the topics stand now, and write down who has asked.

        :param by: ``user@host``, a DAG's task, or the user of a page
        :raises OperationError: if it can't be done: nothing was written
        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        as_it_was = self.jobs
        decision = decide(operation, as_it_was, self.status, by=by, at_ms=wall_ms())
        if decision.event is None:
            return decision.outcome
        steered = [
            NewRecord(self.names.jobs, key, None if data is None else encode(data))
            for key, data in decision.jobs.items()
        ]
        await self._write_all(*steered, self._event(decision.about, decision.event))
        # After that: who tries a task again by its word at once need not hear then that its whole job is to start anew.
        await self._have_tried_again(decision.outcome.subject, decision.tasks)
        if isinstance(operation, AlterJob):
            await self._check_nothing_lost(operation, as_it_was)
        return decision.outcome

    async def _check_nothing_lost(self, operation: AlterJob, as_it_was: JobsSnapshot) -> None:
        """:raises LostUpdateError: see :func:`~airflow_provider.operations.deciding.check_nothing_lost`"""
        job = operation.job
        try:
            await self.catch_up()
        except TopicError:
            return  # what was asked for is stored
        written = altered(operation, as_it_was.jobs[job])
        check_nothing_lost(job, written, as_it_was.defined_at.get(job), self.jobs)

    async def retry_failed(
        self, job: str, indexes: Collection[int] | None = None, *, by: str, defined_at: int | None = None
    ) -> tuple[TaskId, ...]:
        """Have tasks of the job's present run tried again that failed for good.

        :param indexes: which tasks, -1 for the planner; None: all
        :param defined_at: see :class:`~airflow_provider.operations.operations.OnJob`
        :returns: which of them had failed
        :raises OperationError: if there is no such job, or no such task
        :raises TopicError: if it can't be written
        """
        tasks = None if indexes is None else frozenset(indexes)
        again = RestartJob(job=job, defined_at=defined_at, tasks=tasks, only_failed=True)
        return (await self.carry_out(again, by=by)).retried

    def _action(self, key: str, action: str, subject: str, *, by: str, details: str = "") -> NewRecord:
        event = ActionEvent(action=action, subject=subject, by=by, at_ms=wall_ms(), details=details)
        return self._event(key, event)

    def _event(self, key: str, event: ActionEvent) -> NewRecord:
        return NewRecord(self.names.events, key, encode(event.to_json()))

    async def _try_again(self, definition: JobDefinition) -> tuple[TaskId, ...]:
        again = to_try_again(definition, self.jobs.plans.get(definition.name), self.status.tasks)
        await self._have_tried_again(definition.name, again)
        return tuple(status.task for status in again)

    async def _have_tried_again(self, job: str, words: Sequence[TaskStatus]) -> None:
        """:raises HalfDoneError: if these are not all stored, for all that was written before"""
        try:
            await asyncio.gather(*map(self.publish_task, words))
        except TopicError as failed:
            raise HalfDoneError(job, [word.task for word in words], failed) from failed

    async def remove(self, job: str, *, by: str = "", defined_at: int | None = None) -> bool:
        """Ask the group to run a job no more, and forget how far it was.

        The job goes first: should this end half-way, what is left is of no job, and a leader deletes it.

        :param by: who asks for it, for those who wait for the job
        :param defined_at: see :class:`~airflow_provider.operations.operations.OnJob`
        :returns: whether there was such a job
        :raises OperationError: if the job is another by now: nothing was written
        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        known = self.jobs.jobs.get(job)
        if known is not None:
            check_still_it(job, defined_at, self.jobs)
        # What holds a checkpoint, or may run on, is forgotten by who has stopped it: a job of the same name waits.
        words, lives_on = self.status.tasks.items(), self.status.lives_on
        over = (task for task, word in words if task.job == job and not (word.standing_claim or lives_on(task)))
        statuses = [task_key(task) for task in over]
        if known is not None:
            removal = Removal(by=by, at_ms=wall_ms(), run_key=known.run_key, bounded=known.bounded)
            last = encode({**known.to_json(), REMOVED: removal.to_json()})
            await self._write_all(
                NewRecord(self.names.jobs, job_key(job), last),
                NewRecord(self.names.jobs, job_key(job), None),
                self._action(job_key(job), "remove", job, by=by),
            )
        await asyncio.gather(*(self._put(self.names.jobs, key, None) for key in self._beside(job)))
        await asyncio.gather(*(self._put(self.names.status, key, None) for key in statuses))
        return known is not None

    def _beside(self, job: str) -> list[str]:
        """The keys of what the jobs topic has of a job beside its definition."""
        jobs = self.jobs
        known = ((jobs.plans, plan_key), (jobs.halts, halt_key), (jobs.restarts, restart_key))
        keys = [key_of(job) for records, key_of in known if job in records]
        restarts = [restart_key(job, task.index) for task in jobs.task_restarts if task.job == job]
        return keys + restarts + [halt_task_key(task) for task in jobs.task_halts if task.job == job]

    async def publish_plan(self, plan: PlanRecord) -> None:
        """Write the task configs of a job. By the worker that has the job's planner."""
        await self._put(self.names.jobs, plan_key(plan.job), plan.to_json())

    async def scale_down(self, goal: Goal, *, within_ms: int | None = None, by: str) -> ScaleDown:
        """Ask workers to leave when others have learned what they have, as many as the goal wants. All or nobody.

        :param within_ms: so long after it has heard of it, each stops what it still runs and leaves; None: it takes the
            time that it takes
        :raises ScaleError: if the group can't come to its goal that way; nobody was asked then
        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        plan = scale_down(goal, self.jobs, self.status)
        at_ms = wall_ms()
        await asyncio.gather(
            *(
                self.publish_control(
                    ControlRecord(
                        worker=worker, action=ControlAction.LEAVE_SOON, at_ms=at_ms, within_ms=within_ms, by=by
                    )
                )
                for worker in plan.asked
            )
        )
        return plan

    async def publish_control(self, control: ControlRecord) -> None:
        """Ask something of a worker."""
        action = "scale" if control.action is ControlAction.LEAVE_SOON else control.action.value
        await self._write_all(
            NewRecord(self.names.jobs, control_key(control.worker), encode(control.to_json())),
            self._action(
                worker_key(control.worker), action, control.worker, by=control.by, details=control.action.value
            ),
        )

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

    def publish_word(self, status: TaskStatus) -> Awaitable[None]:
        """Write what is no step of a task, to the status topic only: how far it is while it goes on running, or its end
        once more, in a later epoch.
        """
        return self._write_all(NewRecord(self.names.status, task_key(status.task), status.encoded()))

    async def forget_task(self, last: TaskStatus) -> None:
        """Delete the last word about a task of a job that was removed, unless another query of it may be running, which
        has no other record: a leader deletes it when that has ended.
        """
        if not self.status.lives_on_beside(last):
            await self._put(self.names.status, task_key(last.task), None)

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
