"""Claims of checkpoints that tasks' configurations name.

The group protocol ensures that a task runs on one worker only. But when a job is planned again, a checkpoint with a key
of its own may pass from one task to another. Then two workers, each the owner of its task, could use one checkpoint. So
before a worker starts such a task, it claims the key in the task's record, reads its own claim back, and starts when no
claim of another task is valid. The topic has one order for all claims: of two workers that claim, at least one sees the
other. If both do, one of them has an older plan, and withdraws its claim when it has read the newer one.

A claim is valid from its first record until

- its task's record has another claim or an end: its worker has released the task, or another worker has it,
- or a later round was made without its worker: the coordinator has removed this worker, so its lease is over,
- or another process has had that worker's name for so long that the lease of the claiming process must be over.

So a start waits while the last holder really runs or stops, and for one session if the holder was lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from airflow_provider.state.records import CHECKPOINT_KEY, CheckpointClaim, TaskStatus, TaskWork, WorkerPhase
from airflow_provider.state.views.presence import is_same_process
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun

LOOK_MS: Final = 1_000
"""How often to check while something waits: no record says that the lease of a lost holder is over."""
_Holders = Mapping[tuple[str, str], Sequence[TaskStatus]]


@dataclass(frozen=True, slots=True)
class Blocked:
    """The tasks that may not start yet.

    :param unread: their own claims have not been read back
    :param held: other tasks hold their keys
    :param news: messages about keys that are held since the last check
    """

    unread: Tasks
    held: Tasks
    news: tuple[str, ...] = ()

    @property
    def tasks(self) -> Tasks:
        return self.unread | self.held


class Claims:
    """The claims of one process.

    :param process: its identity, as in its worker's record
    :param lease_ms: how long it may continue after another process has taken its worker's name
    :ivar replaced: since when another process has the worker's name of those that have made these claims
    """

    def __init__(self, *, process: str, lease_ms: int) -> None:
        self._process = process
        self._lease_ms = lease_ms
        self._numbers = count(1)
        self._holders: Memo[Mapping[TaskId, TaskStatus], _Holders] = Memo()
        self.replaced: dict[CheckpointClaim, int] = {}
        self._reported = NO_TASKS

    def of(self, work: TaskWork) -> CheckpointClaim | None:
        """A new claim of the checkpoint that the task's configuration names, if it names one."""
        key: Any = None if work.task.is_planner else work.config.get(CHECKPOINT_KEY)
        if not isinstance(key, str):
            return None
        return CheckpointClaim(key=key, process=self._process, number=next(self._numbers), lease_ms=self._lease_ms)

    def blocked(self, runs: Iterable[TaskRun], status: StatusSnapshot, *, now_ms: int) -> Blocked:
        """Which of these may not start yet."""
        waiting = [run for run in runs if run.state is RunState.WAITING and run.claim is not None]
        if not waiting:
            return Blocked(NO_TASKS, NO_TASKS)
        holders = self._holders.get(status.tasks, lambda: self._standing(status.tasks.values()))
        held: dict[TaskId, TaskStatus] = {}
        for run in waiting:
            others = [other for other in _of_key(holders, run) if other.task != run.task]
            holder = next((other for other in others if self._holds(other, status, now_ms)), None)
            if holder is not None:
                held[run.task] = holder
        news = self._news_of(held)
        unread = frozenset(run.task for run in waiting if not _is_read(run, status))
        return Blocked(unread, frozenset(held), news)

    def _standing(self, statuses: Iterable[TaskStatus]) -> _Holders:
        """Also forgets what was noted about claims that stand no more."""
        holders: defaultdict[tuple[str, str], list[TaskStatus]] = defaultdict(list)
        noted: dict[CheckpointClaim, int] = {}
        for status in statuses:
            claim = status.standing_claim
            if claim is not None:
                holders[status.task.job, claim.key].append(status)
                if claim in self.replaced:
                    noted[claim] = self.replaced[claim]
        self.replaced = noted
        return holders

    def _news_of(self, held: Mapping[TaskId, TaskStatus]) -> tuple[str, ...]:
        new = sorted(held.keys() - self._reported)
        self._reported = frozenset(held)
        return tuple(f"task {task} waits: {held[task].task} has its checkpoint, on {held[task].worker}" for task in new)

    def _holds(self, other: TaskStatus, status: StatusSnapshot, now_ms: int) -> bool:
        claim, group, last = other.standing_claim, status.group, status.workers.get(other.worker)
        assert claim is not None
        if group is not None and group.is_without(other.worker, other.epoch):
            return False
        if last is None or last.state is WorkerPhase.JOINING or is_same_process(last.process, claim.process):
            self.replaced.pop(claim, None)
            return True
        return now_ms < self.replaced.setdefault(claim, now_ms) + claim.lease_ms


def _is_read(run: TaskRun, status: StatusSnapshot) -> bool:
    last = status.tasks.get(run.task)
    return last is not None and last.standing_claim == run.claim


def _of_key(holders: _Holders, run: TaskRun) -> Sequence[TaskStatus]:
    return holders.get((run.task.job, run.claim.key), ()) if run.claim else ()
