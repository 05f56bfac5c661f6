"""What a leader needs from the topics: the input of a round, and reasons for the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from heapq import nsmallest
from itertools import chain
from typing import Any, Final

from airflow_provider.kafka.jobs_view import JobsSnapshot
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.off_loop import off_loop
from airflow_provider.kafka.progress import configured, revocation_rank, spare_capacity
from airflow_provider.kafka.records import TaskState, TaskStatus, WorkerStatus
from airflow_provider.kafka.status_view import StatusSnapshot
from airflow_provider.membership.events import PerformAssignment
from airflow_provider.membership.leader import Call
from airflow_provider.membership.model import NO_TASKS, Epoch, TaskId, WorkerId
from airflow_provider.membership.policy import Policy
from airflow_provider.membership.record import GroupRecord, newer

_SETTLE_S: Final = 0.05
"""Several jobs are often submitted together; one rebalance shall do for them."""

_REST: Final = 10
"""A look at a group of many tasks takes its time, if in a thread: everything else has ten times as long."""

_BETWEEN_HELPS_S: Final = 2.0
"""The least time between two rebalances for the sake of a worker that has run dry."""


def gather_call(
    command: PerformAssignment, jobs: JobsSnapshot, status: StatusSnapshot, *, policy: Policy, wall_ms: int
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
        now_ms=wall_ms,
        reason=command.reason,
        revocation_rank=revocation_rank(status.tasks),
        ended=frozenset(task for task, told in status.tasks.items() if told.state.final) - wanted,
        spoken_epoch=_spoken_epoch(status),
    )


def _spoken_epoch(status: StatusSnapshot) -> Epoch:
    """Of tasks, too: a worker that outlived the topics may have spoken of them in those made anew, before it ended."""
    words: Iterable[WorkerStatus | TaskStatus] = chain(status.workers.values(), status.tasks.values())
    return max((word.epoch for word in words), default=Epoch(0))


def unassigned_work(jobs: JobsSnapshot, status: StatusSnapshot) -> str | None:
    """Why the last round no longer covers what is configured; None if it does.

    Not counted: what was revoked (whoever stops it joins again) and what waits out a scheduled delay. What is no longer
    configured needs no rebalance either: its worker drops it.
    """
    record = status.group
    if record is None:
        return None
    new = configured(jobs, status.tasks) - _covered(record, status)
    if not new:
        return None
    first = ", ".join(str(task) for task in nsmallest(3, new))
    return f"new work: {first}" + (f" and {len(new) - 3} more" if len(new) > 3 else "")


def outspoken(status: StatusSnapshot) -> str | None:
    """Why what the workers say would not be believed; None if it is. Only a round of a higher epoch helps."""
    if status.group is None or _spoken_epoch(status) <= status.group.epoch:
        return None
    return "somebody spoke in a later epoch than that of the last round"


def _covered(record: GroupRecord, status: StatusSnapshot) -> set[TaskId]:
    """What some worker has or will be given without another reason to rebalance."""
    begun = NO_TASKS.union(*(move.tasks for move in record.moves if move.target is not None))
    covered = {
        task
        for worker, tasks in record.assignment.items()
        for task in tasks
        if not _released(status.tasks.get(task), worker, record.epoch, begun=task in begun)
    }
    covered.update(*record.revoked.values())
    if record.memory.deadline_ms:
        covered.update(*record.memory.assignment.values())
    return covered


def _released(status: TaskStatus | None, worker: WorkerId, epoch: Epoch, *, begun: bool) -> bool:
    """Whether the task's worker has let go of it. What others wrote, or this one before a round that gave it the task
    (again), says nothing of that: that was before.
    """
    if status is None or status.worker != worker or not (status.state.final or status.state is TaskState.STOPPED):
        return False
    return not begun or status.epoch >= epoch


def _nothing() -> None:
    """There is no subscription yet."""


class LeaderWatch:
    """Looks after a stable group while this member leads it: for reasons to rebalance, and for records to mend.

    :param record: the newest round that the member knows of: the topic may not have given it back yet
    :param want: is told the reason
    :param mend: is called when a stale record was written over one that wins
    :param spawn: runs what goes on beside the member
    """

    def __init__(
        self,
        logs: GroupLogs,
        *,
        record: Callable[[], GroupRecord | None],
        want: Callable[[str], None],
        mend: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._unsubscribe: Callable[[], None] = _nothing
        self._logs = logs
        self._record = record
        self._want = want
        self._mend = mend
        self._spawn = spawn
        self._watching: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._help_timer: asyncio.TimerHandle | None = None
        self._settle_s = _SETTLE_S
        self._helped_at = float("-inf")

    def lead(self, leading: bool) -> None:
        """Whether this member leads a stable group, from now on."""
        if leading is (self._watching is not None):
            return
        if self._watching is None:
            self._unsubscribe = self._logs.subscribe(self.look)
            self._watching = self._spawn(self._watch())
            self.look()
        else:
            self._unsubscribe()
            self._watching.cancel()
            self._watching = None

    def look(self) -> None:
        """Something changed: look once it has settled."""
        self._changed.set()

    def close(self) -> None:
        self.lead(False)
        if self._help_timer is not None:
            self._help_timer.cancel()

    async def _watch(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._settle_s)
            self._changed.clear()
            began = time.perf_counter()
            reason = await self._reason()
            self._settle_s = max(_SETTLE_S, _REST * (time.perf_counter() - began))
            if reason is not None:
                self._want(reason)

    async def _reason(self) -> str | None:
        if self._logs.status.overwritten:
            self._mend()
        jobs, status = self._logs.jobs, replace(self._logs.status, group=self._record())
        reason = await off_loop(lambda: unassigned_work(jobs, status) or outspoken(status), tasks=jobs.planned)
        if reason is not None:
            return reason
        spare = await off_loop(lambda: spare_capacity(jobs, status), tasks=jobs.planned)
        return "a worker has run dry while tasks wait elsewhere" if spare and self._may_help() else None

    def _may_help(self) -> bool:
        """Not too often; what is too early now is looked at again when it is time."""
        loop = asyncio.get_running_loop()
        if self._help_timer is not None:
            self._help_timer.cancel()
            self._help_timer = None
        at = self._helped_at + _BETWEEN_HELPS_S
        if loop.time() < at:
            self._help_timer = loop.call_at(at, self.look)
            return False
        self._helped_at = loop.time()
        return True
