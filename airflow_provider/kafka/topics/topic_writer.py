"""Writes the topics of a group, for people who submit and steer jobs, for workers, and for the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.event_loops.off_loop import off_loop
from airflow_provider.kafka.topics.errors import HalfDoneError, TopicError
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.kafka.topics.producer import NewRecord
from airflow_provider.state.operations.deciding import altered, check_nothing_lost, check_still_it, decide
from airflow_provider.state.operations.operations import AlterJob, Operation, Outcome, RestartJob
from airflow_provider.state.records import (
    GROUP_KEY,
    REMOVED,
    ActionEvent,
    ControlAction,
    ControlRecord,
    JobDefinition,
    PlanRecord,
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
from airflow_provider.state.records.jobs_topic.checkpoint_conf import without_effect
from airflow_provider.state.records.round_bytes import EncodedRound, encoded_round, is_packed
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.leftovers import Leftovers, leftovers
from airflow_provider.state.views.slots.scaling import Goal, ScaleDown, scale_down
from airflow_provider.state.views.status_view import StatusRecord
from airflow_provider.state.views.task_progress.retrying import retried_in_words, to_try_again
from airflow_provider.values.model import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The outcome of submitting a job.

    :param definition: the job's definition now
    :param changed: False if the same definition was submitted before, with the same run key
    :param retried: the tasks of this run that had failed for good, and are tried again
    :param without_effect: which changed settings have no effect on what runs already, in words
    """

    definition: JobDefinition
    changed: bool
    retried: tuple[TaskId, ...] = ()
    without_effect: str = ""

    def lines(self) -> list[str]:
        """The outcome in words, as "job etl: submitted"."""
        job, retried = self.definition.name, self.retried
        known = "already submitted" if retried else "already submitted, nothing changed"
        return [
            f"job {job}: {'submitted' if self.changed else known}",
            *([retried_in_words(job, retried)] if retried else []),
            *([f"job {job}: {self.without_effect}"] if self.without_effect else []),
        ]


class GroupTopics(FollowedTopics):
    """The topics of one group, to read and to write."""

    async def submit(self, definition: JobDefinition) -> Submission:
        """Ask the group to run a job. If the same definition was submitted before, with the same run key, only those of
        its tasks are tried again that have failed for good.

        A job that was removed begins anew, even if workers that have not read the removal still write records about it.

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
        retried = await self._try_again(definition)
        no_effect = without_effect(known, definition)
        return Submission(definition=definition, changed=True, retried=retried, without_effect=no_effect)

    async def carry_out(self, operation: Operation, *, by: str) -> Outcome:
        """Carry out an operation on the present state of the topics, and record who has asked for it.

        :param by: ``user@host``, a DAG's task, or the user of a page
        :raises OperationError: if it can't be done; then nothing was written
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
        # Last: a worker may try a task again immediately, and should not be told after that to restart its whole job.
        await self._publish_retries(decision.outcome.subject, decision.tasks)
        if isinstance(operation, AlterJob):
            await self._check_nothing_lost(operation, as_it_was)
        return decision.outcome

    async def _check_nothing_lost(self, operation: AlterJob, as_it_was: JobsSnapshot) -> None:
        """Check after a change of a job that it has not overwritten another one.

        :raises LostUpdateError: see :func:`~airflow_provider.state.operations.deciding.check_nothing_lost`
        """
        job = operation.job
        try:
            await self.catch_up()
        except TopicError:
            return  # the change is stored, so this is no error
        written = altered(operation, as_it_was.jobs[job])
        check_nothing_lost(job, written, as_it_was.defined_at.get(job), self.jobs)

    async def retry_failed(
        self, job: str, indexes: Collection[int] | None = None, *, by: str, defined_at: int | None = None
    ) -> tuple[TaskId, ...]:
        """Try those tasks of the job's present run again that have failed for good.

        :param indexes: the tasks, -1 for the planner; None: all
        :param defined_at: see :class:`~airflow_provider.state.operations.operations.OnJob`
        :returns: those that had failed, and are tried again
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
        await self._publish_retries(definition.name, again)
        return tuple(status.task for status in again)

    async def _publish_retries(self, job: str, statuses: Sequence[TaskStatus]) -> None:
        """Write the records by which failed tasks are tried again.

        :raises HalfDoneError: if not all of them are stored; the other records of the operation are
        """
        try:
            await asyncio.gather(*map(self.publish_task, statuses))
        except TopicError as failed:
            raise HalfDoneError(job, [status.task for status in statuses], failed) from failed

    async def remove(self, job: str, *, by: str = "", defined_at: int | None = None) -> bool:
        """Remove a job from the group, with its plan and the states of its tasks.

        The definition is deleted first. If this ends half-way, the rest belongs to no job, and a leader deletes it.

        :param by: who asks for it, for those who wait for the job
        :param defined_at: see :class:`~airflow_provider.state.operations.operations.OnJob`
        :returns: whether there was such a job
        :raises OperationError: if the job was submitted again or altered since; then nothing was written
        :raises TopicError: if it can't be written
        """
        await self.catch_up()
        known = self.jobs.jobs.get(job)
        if known is not None:
            check_still_it(job, defined_at, self.jobs)
        # The record of a task that holds a checkpoint, or may live on, is deleted by the worker that has stopped the
        # task: until then a new job of the same name waits.
        tasks, lives_on = self.status.tasks.items(), self.status.lives_on
        over = (task for task, status in tasks if task.job == job and not (status.standing_claim or lives_on(task)))
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
        """The keys of a job's records in the jobs topic, apart from its definition."""
        jobs = self.jobs
        known = ((jobs.plans, plan_key), (jobs.halts, halt_key), (jobs.restarts, restart_key))
        keys = [key_of(job) for records, key_of in known if job in records]
        restarts = [restart_key(job, task.index) for task in jobs.task_restarts if task.job == job]
        return keys + restarts + [halt_task_key(task) for task in jobs.task_halts if task.job == job]

    async def publish_plan(self, plan: PlanRecord) -> None:
        """Write the task configurations of a job. Done by the worker that has the job's planner."""
        await self._put(self.names.jobs, plan_key(plan.job), plan.to_json())

    async def scale_down(self, goal: Goal, *, within_ms: int | None = None, by: str) -> ScaleDown:
        """Ask as many workers as the goal requires to leave soon (:attr:`.ControlAction.LEAVE_SOON`).

        :param within_ms: how long after the request each worker stops the rest of its tasks and leaves; None: no limit
        :raises ScaleError: if the group can't reach the goal in this way; then no worker was asked
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
        action = "scale" if control.action is ControlAction.LEAVE_SOON else control.action.value
        await self._write_all(
            NewRecord(self.names.jobs, control_key(control.worker), encode(control.to_json())),
            self._action(
                worker_key(control.worker), action, control.worker, by=control.by, details=control.action.value
            ),
        )

    async def clear_control(self, control: ControlRecord) -> None:
        """Delete a request that the worker has carried out."""
        await self._put(self.names.jobs, control_key(control.worker), None)

    def publish_task(self, status: TaskStatus) -> Awaitable[None]:
        """Write a step of a task to the status topic and to the timeline. It is written immediately, not in a
        coroutine: a worker does this for each step of each task, and a coroutine would cost more than the writing.
        """
        key = task_key(status.task)
        said, event = TaskEvent(status=status, at_ms=wall_ms()).both_encoded()
        return self._write_all(NewRecord(self.names.status, key, said), NewRecord(self.names.events, key, event))

    def publish_word(self, status: TaskStatus) -> Awaitable[None]:
        """Write a task's status that is not a new step to the status topic only: its progress while it runs, or its end
        again in a later epoch.
        """
        return self._write_all(NewRecord(self.names.status, task_key(status.task), status.encoded()))

    async def forget_task(self, last: TaskStatus) -> None:
        """Delete the status of a task of a removed job. If another query of the task may be running, its record is the
        only one that names it: a leader deletes it when that query has ended.
        """
        if not self.status.lives_on_beside(last):
            await self._put(self.names.status, task_key(last.task), None)

    async def publish_worker(self, status: WorkerStatus) -> None:
        await self._put(self.names.status, worker_key(status.worker), status.to_json())

    async def encode_group(self, record: GroupRecord) -> EncodedRound:
        """Encode the records of a round; in a thread if it has many tasks."""
        packed = is_packed(record, self.status.workers)
        tasks = sum(map(len, record.assignment.values()))
        return await off_loop(lambda: encoded_round(record, packed=packed), tasks=tasks)

    async def publish_group(self, record: GroupRecord | EncodedRound) -> None:
        """Write a completed round to the status topic and to the timeline. Done by its leader."""
        encoded = record if isinstance(record, EncodedRound) else await self.encode_group(record)
        await self._write_all(
            NewRecord(self.names.status, GROUP_KEY, encoded.status),
            NewRecord(self.names.events, GROUP_KEY, encoded.event),
        )

    async def reassert(self) -> int:
        """Write records again that were overwritten by stale ones, because compaction would keep the stale ones. Done
        by the leader.

        First, everything that is stored by now is read, because newer records may have replaced some of them. Newer
        records that are stored after that win by the rules of the view, and are written again in their turn.

        :returns: how many were written
        :raises TopicError: if they can't be written
        """
        await self.catch_up()
        overwritten = self.status.overwritten
        await asyncio.gather(*(self._write_again(key, record) for key, record in overwritten.items()))
        return len(overwritten)

    async def _write_again(self, key: str, record: StatusRecord) -> None:
        if isinstance(record, GroupRecord):
            encoded = await self.encode_group(record)
            await self._write_all(NewRecord(self.names.status, key, encoded.status))
        else:
            await self._put(self.names.status, key, record.to_json())

    async def sweep(self, leads: Callable[[], bool]) -> int:
        """Delete records that are no longer needed. Done by the leader.

        Only records are deleted that were leftovers before the topics were read to their ends, and still are after
        that. A job that is submitted again uses the same keys, so its tasks must not have been assigned since.

        :param leads: whether no round can have begun without the caller; called right before the records are deleted
        :returns: how many records were deleted
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
