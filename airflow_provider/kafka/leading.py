"""What a leader makes of the topics: a round, and reasons for the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from heapq import nsmallest
from itertools import chain
from typing import Final

from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.off_loop import off_loop
from airflow_provider.kafka.progress import configured, revocation_rank
from airflow_provider.kafka.records import TaskState, TaskStatus, WorkerStatus
from airflow_provider.kafka.topics.jobs_view import JobsSnapshot
from airflow_provider.kafka.topics.status_view import StatusSnapshot
from airflow_provider.membership.events import AssignmentComputed, PerformAssignment
from airflow_provider.membership.leader import Call, lead
from airflow_provider.membership.model import NO_TASKS, Epoch, TaskId
from airflow_provider.membership.policy import Policy
from airflow_provider.membership.record import GroupRecord, newer

log: Final = logging.getLogger(__name__)


def gather_call(
    command: PerformAssignment, jobs: JobsSnapshot, status: StatusSnapshot, *, policy: Policy, at_ms: int
) -> Call:
    """The round as the topics stand; read them to their ends before."""
    wanted = configured(jobs, status.tasks)
    return Call(
        generation=command.generation,
        protocol=command.protocol,
        leader=command.leader,
        last_completed=command.last_completed,
        members=command.members,
        configured=wanted,
        config_offset=jobs.offset,
        last_record=newer(command.last_record, status.group),
        policy=policy,
        now_ms=at_ms,
        reason=command.reason,
        revocation_rank=revocation_rank(status.tasks),
        ended=frozenset(task for task, told in status.tasks.items() if told.state.final) - wanted,
        spoken_epoch=_spoken_epoch(status),
    )


def _spoken_epoch(status: StatusSnapshot) -> Epoch:
    """Of tasks, too: a worker that outlived the topics may have spoken of them in those made anew, before it ended."""
    words: Iterable[WorkerStatus | TaskStatus] = chain(status.workers.values(), status.tasks.values())
    return max((word.epoch for word in words), default=Epoch(0))


async def assign(command: PerformAssignment, logs: GroupLogs, *, policy: Policy) -> AssignmentComputed:
    """Compute a round from what has been read of the topics: read them to their ends before."""
    jobs, status, now = logs.jobs, logs.status, wall_ms()
    verdict = await off_loop(
        lambda: lead(gather_call(command, jobs, status, policy=policy, at_ms=now)),
        tasks=jobs.planned + len(command.members),
    )
    for worker in verdict.unreadable:
        log.warning("group %s: what worker %s says of itself cannot be read; it gets nothing", logs.group, worker)
    return AssignmentComputed(now_ms=now_ms(), seq=command.seq, assignments=verdict.assignments, record=verdict.record)


def unassigned_work(jobs: JobsSnapshot, status: StatusSnapshot) -> str | None:
    """Why the last round no longer covers what is configured; None if it does.

    Not counted: what was revoked (whoever stops it joins again) and what waits out a scheduled delay. What is no longer
    configured needs no rebalance either: its worker drops it.
    """
    record = status.group
    if record is None:
        return None
    new = configured(jobs, status.tasks) - _covered(record, jobs, status)
    if not new:
        return None
    first = ", ".join(str(task) for task in nsmallest(3, new))
    return f"new work: {first}" + (f" and {len(new) - 3} more" if len(new) > 3 else "")


def outspoken(status: StatusSnapshot) -> str | None:
    """Why what the workers say would not be believed; None if it is. Only a round of a higher epoch helps."""
    if status.group is None or _spoken_epoch(status) <= status.group.epoch:
        return None
    return "somebody spoke in a later epoch than that of the last round"


def _covered(record: GroupRecord, jobs: JobsSnapshot, status: StatusSnapshot) -> set[TaskId]:
    """What some worker has or will be given without another reason to rebalance."""
    covered = set[TaskId]().union(*record.assignment.values())
    covered -= _released(record, status) | _of_a_removed_job(record, jobs, status)
    covered.update(*record.revoked.values())
    if record.memory.deadline_ms:
        covered.update(*record.memory.assignment.values())
    return covered


def _released(record: GroupRecord, status: StatusSnapshot) -> set[TaskId]:
    """What its worker has let go of. What others wrote, or this one before a round that gave it the task (again), says
    nothing of that: that was before.
    """
    begun = NO_TASKS.union(*(move.tasks for move in record.moves if move.target is not None))
    return {
        task
        for task, told in status.tasks.items()
        if (told.state is TaskState.STOPPED or told.state.final)
        and task in record.owned_by(told.worker)
        and (task not in begun or told.epoch >= record.epoch)
    }


def _of_a_removed_job(record: GroupRecord, jobs: JobsSnapshot, status: StatusSnapshot) -> set[TaskId]:
    """What the round gave out of a job that was removed after it, and submitted again: its worker has let go of it, and
    nothing is said of it any more. Of what was given out and begins just now something is soon said.
    """
    submitted_since = {job for job, offset in jobs.defined_at.items() if offset >= record.config_offset}
    if not submitted_since:
        return set()
    given = chain.from_iterable(record.assignment.values())
    return {task for task in given if task.job in submitted_since and task not in status.tasks}
