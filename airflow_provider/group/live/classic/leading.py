"""What a leader computes from the topics: a round, and reasons for the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import nsmallest
from itertools import chain
from typing import Final

from airflow_provider.assignment.learners.model import DEFAULT_LIMITS, Limits
from airflow_provider.assignment.model import Absence
from airflow_provider.assignment.policy import Policy
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import AssignmentComputed, JoinedMember, PerformAssignment
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.event_loops.off_loop import off_loop
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.blame.tried_elsewhere import tried_elsewhere
from airflow_provider.state.records import TaskState, WorkerStatus
from airflow_provider.state.records.status_topic.worker_absence import may_not_be_started, written_absences
from airflow_provider.state.rounds.causes import names_in_short
from airflow_provider.state.rounds.classic import ClassicRecord, newer
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.unchanged_rounds import hold_back_ms
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.costs import costs_of
from airflow_provider.state.views.slots.free_slots import drained, nobody_stays
from airflow_provider.state.views.slots.learned_jobs import learned_jobs
from airflow_provider.state.views.status_view import StatusSnapshot, can_be_counted_on
from airflow_provider.state.views.task_progress.progress import configured, has_failed, revocation_rank, spoken_epoch
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import Epoch, TaskId, Tasks, WorkerId

log: Final = logging.getLogger(__name__)

_MOST_NAMED: Final = 3


def gather_call(
    command: PerformAssignment,
    jobs: JobsSnapshot,
    status: StatusSnapshot,
    *,
    policy: Policy,
    at_ms: int,
    limits: Limits = DEFAULT_LIMITS,
) -> Call:
    """The input of a round, according to the topics.

    First read the topics to their ends, after all members have joined: then no member can have read further.
    """
    wanted = configured(jobs, status.tasks)
    ended = frozenset(task for task, word in status.tasks.items() if word.state.final) - wanted
    failed = [task for task in ended if status.tasks[task].state is TaskState.FAILED]  # few, even if many finished
    last = newer(command.last_record, last_round(status))
    tried = tried_elsewhere(jobs, replace(status, group=_with_only(command.members, last)), wall_ms=at_ms)
    own_epoch = command.epoch if can_be_counted_on(command.epoch, at_ms) else Epoch(0)
    named = {WorkerId(member.instance_id): member.member_id for member in command.members if member.instance_id}
    return Call(
        generation=command.generation,
        protocol=command.protocol,
        leader=command.leader,
        last_completed=command.last_completed,
        members=command.members,
        configured=wanted,
        config_offset=jobs.offset,
        last_record=last,
        policy=policy,
        now_ms=at_ms,
        reason=command.reason,
        revocation_rank=revocation_rank(status.tasks),
        ended=ended,
        failed=frozenset(task for task in failed if has_failed(task, jobs, status.tasks)),
        spoken_epoch=max(spoken_epoch(status), own_epoch),
        jobs_end=jobs.offset,
        named=frozenset(WorkerId(member.instance_id) for member in command.members if member.instance_id is not None),
        absent={} if last is None else absent_since(last, command.members, status.workers),
        draining=drained(named, status.workers) | may_not_be_started(named, status.workers, wall_ms=at_ms),
        ready=said_ready(command.members, status.workers),
        stateful=learned_jobs(jobs, status),
        renewed=frozenset() if last is None else _submitted_since(last, jobs),
        costs=costs_of(jobs, status, wanted, wall_ms=at_ms, pinned=tried.pinned),
        tried=tried,
        asked_for=rebalance_asked_for(jobs, last) is not None,
        limits=limits,
    )


def _with_only(members: Iterable[JoinedMember], last: ClassicRecord | None) -> ClassicRecord | None:
    """The last round without the workers that are not in this one: they may have crashed, and then they have not
    written that they are gone.
    """
    if last is None:
        return None
    here = {member.instance_id or member.member_id for member in members}
    return replace(last, members={worker: member for worker, member in last.members.items() if worker in here})


def absent_since(
    last: ClassicRecord, members: Iterable[JoinedMember], workers: Mapping[WorkerId, WorkerStatus]
) -> dict[WorkerId, Absence]:
    """What workers of the last round that are not in this one have said about their absence, or too late for it."""
    here = {member.instance_id for member in members}
    gone = {member: worker for worker, member in last.members.items() if worker not in here}
    written = {gone[member]: absence for member, absence in written_absences(gone, workers, since=last.epoch).items()}
    return {worker: absence for worker, absence in left_late(last, workers).items() if worker not in here} | written


def left_late(last: ClassicRecord, workers: Mapping[WorkerId, WorkerStatus]) -> dict[WorkerId, Absence]:
    """What workers that the last round has missed have said since: that they will not return.

    Their own word is of the round before it. An older one is another process's, which had the name before.
    """
    missed = last.waiting_by_worker.keys() - last.members.keys()
    said = {worker: word for worker in missed if (word := workers.get(worker)) and word.epoch >= last.epoch - 1}
    left = {worker: Absence(left=word.left) for worker, word in said.items() if word.left is not None}
    return {worker: absence for worker, absence in left.items() if absence.at_most_ms == 0}


def said_ready(members: Iterable[JoinedMember], workers: Mapping[WorkerId, WorkerStatus]) -> dict[WorkerId, Tasks]:
    """For which tasks each member says that it is ready. Records of another process under the same name don't count."""
    return {
        said.worker: frozenset(lesson.task for lesson in said.learning if lesson.ready)
        for member in members
        if member.instance_id is not None
        and (said := workers.get(WorkerId(member.instance_id))) is not None
        and said.member_id == member.member_id
        and said.learning
        and said.state.applied
    }


def last_round(status: StatusSnapshot) -> ClassicRecord | None:
    """The group's record, if it is one of this protocol."""
    return status.group if isinstance(status.group, ClassicRecord) else None


async def assign(
    command: PerformAssignment, topics: GroupTopics, *, policy: Policy, settings: MemberSettings
) -> AssignmentComputed:
    """Compute a round from what was read of the topics. Read them to their ends before.

    :param settings: the leader's
    """
    jobs, status, now = topics.jobs, topics.status, wall_ms()
    answer = await off_loop(
        lambda: lead(gather_call(command, jobs, status, policy=policy, limits=settings.limits, at_ms=now)),
        tasks=jobs.planned + len(command.members),
    )
    for worker in answer.unreadable:
        log.warning("group %s: the metadata of worker %s can't be read, so it gets no tasks", topics.group, worker)
    for worker, offset in answer.unbelievable.items():
        log.warning(
            "group %s: worker %s claims to have read the jobs topic up to %d, but it ends at %d; this is ignored",
            topics.group,
            worker,
            offset,
            jobs.offset,
        )
    if answer.record is not None:
        await _hold_back(answer.record, topics.group, settings.session_timeout_ms)
    return AssignmentComputed(now_ms=now_ms(), seq=command.seq, assignments=answer.assignments, record=answer.record)


async def _hold_back(record: ClassicRecord, group: str, session_timeout_ms: int) -> None:
    """Delay the assignment if many rounds in succession have changed nothing."""
    wait_s = hold_back_ms(record.unchanged, session_timeout_ms) / 1000
    if wait_s:
        again = f"; told again to stop tasks: {names_in_short(sorted(record.revoked))}" if record.revoked else ""
        log.warning(
            "group %s: %d rebalances in a row changed nothing (cause of the last one: %s%s); its assignment is held"
            " back for %.1f s",
            group,
            record.unchanged,
            record.because,
            again,
            wait_s,
        )
        await asyncio.sleep(wait_s)


def unassigned_work(jobs: JobsSnapshot, status: StatusSnapshot) -> str | None:
    """Why the last round no longer covers what is configured; None: it does.

    Not counted are revoked tasks (their worker joins again when it has stopped them), and tasks that wait for a
    scheduled delay. Nor does a task that is no longer configured need a rebalance: its worker drops it. If all workers
    leave, new work waits for others to join.
    """
    record = last_round(status)
    if record is None or nobody_stays(record, status.workers):
        return None
    released = released_since(record, status) | _of_a_removed_job(record, jobs, status)
    new = configured(jobs, status.tasks) - covered(record, released)
    if not new:
        return None
    return f"new work: {in_short(nsmallest(_MOST_NAMED, new), of=len(new), most=_MOST_NAMED)}"


def rebalance_asked_for(jobs: JobsSnapshot, last: GroupRecord | None) -> str | None:
    """The reason for a rebalance that people have asked for since the last one; None: nobody has."""
    wanted = jobs.rebalance
    if wanted is None or last is None or wanted.offset < last.config_offset:
        return None
    return f"{wanted.by or 'somebody'} asked for it"


def waits_in_vain(status: StatusSnapshot) -> str | None:
    """Why nobody has to wait for the lost tasks of some workers any more; None: they may return."""
    record = last_round(status)
    left = () if record is None else sorted(left_late(record, status.workers))
    return f"{names_in_short(left)} will not return" if left else None


def learned_for_nothing(jobs: JobsSnapshot, status: StatusSnapshot) -> str | None:
    """Why some lessons have become useless; None: none has.

    If their job was removed, or has a shorter plan by now, nobody becomes ready for these tasks any more, and others
    wait for their places.
    """
    record = last_round(status)
    if record is None or all(jobs.work_of(task) for tasks in record.learning.values() for task in tasks):
        return None
    return "a learned task no longer exists"


def later_epoch(status: StatusSnapshot) -> str | None:
    """Why the workers' records would be rejected as stale; None: they are not. A round of a higher epoch mends it."""
    if status.group is None or spoken_epoch(status) <= status.group.epoch:
        return None
    return "a record is of a later epoch than the last round"


def covered(record: ClassicRecord, released: AbstractSet[TaskId]) -> set[TaskId]:
    """The tasks that some worker has, or will get without another reason to rebalance.

    :param released: tasks that their workers have released since
    """
    tasks = set[TaskId]().union(*record.assignment.values()) - released
    tasks.update(*record.revoked.values())
    if record.memory.ends_ms:
        tasks.update(*record.memory.assignment.values())
    return tasks


def released_since(record: GroupRecord, status: StatusSnapshot) -> set[TaskId]:
    """The tasks that their worker has released since this round, or before it had the round's assignment.

    A worker's own record says what it has left. A task's record says that it has ended, or has failed and is to be
    tried again, unless the worker keeps failed tasks and has said so. A record of a stop says nothing: a worker that
    was told to stop joins again, is not in the group any more, or was fenced by another process under the same name,
    which now answers for the task.
    """
    ended = {
        task
        for task, word in status.tasks.items()
        if (word.state.final or word.state is TaskState.UNASSIGNED) and not word.kept
        if word.epoch >= record.epoch and task in record.owned_by(word.worker)
    }
    for worker, tasks in record.assignment.items():
        said = status.workers.get(worker)
        if said is not None and said.state.applied and said.epoch >= record.epoch:
            ended |= tasks - said.owned
    return ended


def _submitted_since(record: GroupRecord, jobs: JobsSnapshot) -> frozenset[str]:
    return frozenset(job for job, offset in jobs.defined_at.items() if offset >= record.config_offset)


def _of_a_removed_job(record: GroupRecord, jobs: JobsSnapshot, status: StatusSnapshot) -> set[TaskId]:
    """Tasks that the round assigned, of a job that was removed and submitted again since.

    Their workers have released them, and the records are deleted. A task that waits for a slot has no record either, so
    it is included; in the next round its worker reports it, which tells the two cases apart.
    """
    submitted_since = _submitted_since(record, jobs)
    if not submitted_since:
        return set()
    given = chain.from_iterable(record.assignment.values())
    return {task for task in given if task.job in submitted_since and task not in status.tasks}
