"""The tasks of one worker, with what is asked of them all the time: which run, which to start next, when to look again.

A worker may have thousands of tasks that wait, and asks after each end of one: no answer looks at all of them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from heapq import heappop, heappush

from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks
from airflow_provider.worker.runs import RunState, TaskRun

_Turn = tuple[bool, int, TaskId]


class RunTable(MutableMapping[TaskId, TaskRun]):
    """Runs by task. A change costs the same, however many there are."""

    __slots__ = ("_active", "_busy", "_claiming", "_due", "_later", "_runs")

    def __init__(self) -> None:
        self._runs: dict[TaskId, TaskRun] = {}
        self._active: set[TaskId] = set()
        self._claiming: set[TaskId] = set()
        self._busy = 0
        # What has changed since it was put there is left there, and passed over when its turn comes.
        self._due: list[_Turn] = []
        self._later: list[tuple[int, TaskId]] = []

    @property
    def active(self) -> Tasks:
        """Those that do not wait."""
        return frozenset(self._active)

    @property
    def claiming(self) -> list[TaskRun]:
        """Those that wait, and whose configuration names a checkpoint."""
        return [self._runs[task] for task in self._claiming]

    def start_next(self, *, slots: int, now_ms: int, blocked: Tasks = NO_TASKS) -> list[TaskId]:
        """Start planners at once, tasks as slots are free, those of the job submitted first first.

        :param now_ms: the monotonic clock
        :param blocked: which may not start yet
        :returns: what was started, in that order
        """
        self._wake(now_ms)
        started, put_off = [], []
        while self._due and (not self._due[0][0] or self._busy < slots):
            turn = heappop(self._due)
            run = self._runs.get(turn[-1])
            if run is None or not _waits(run) or run.not_before_ms > now_ms or _turn(run) != turn:
                continue
            if run.task in blocked:
                put_off.append(turn)
            else:
                self[run.task] = run.start()
                started.append(run.task)
        for turn in put_off:
            heappush(self._due, turn)
        return started

    def next_due_ms(self, *, now_ms: int) -> int | None:
        """When the next task may start that waits for its next attempt (monotonic milliseconds)."""
        self._wake(now_ms)
        while self._later and not self._is_later(*self._later[0]):
            heappop(self._later)
        return self._later[0][0] if self._later else None

    def _wake(self, now_ms: int) -> None:
        while self._later and self._later[0][0] <= now_ms:
            at_ms, task = heappop(self._later)
            if self._is_later(at_ms, task):
                heappush(self._due, _turn(self._runs[task]))

    def _is_later(self, at_ms: int, task: TaskId) -> bool:
        run = self._runs.get(task)
        return run is not None and _waits(run) and run.not_before_ms == at_ms

    # ---- a mapping

    def __getitem__(self, task: TaskId) -> TaskRun:
        return self._runs[task]

    def __setitem__(self, task: TaskId, run: TaskRun) -> None:
        before = self._runs.get(task)
        self._runs[task] = run
        self._busy += run.takes_slot - (before is not None and before.takes_slot)
        if _waits(run) and run.claim is not None:
            self._claiming.add(task)
        else:
            self._claiming.discard(task)
        if not _waits(run):
            self._active.add(task)
            return
        self._active.discard(task)
        if before is not None and _waits(before) and _stays(before, run):
            return
        if run.not_before_ms > 0:
            heappush(self._later, (run.not_before_ms, task))
        else:
            heappush(self._due, _turn(run))

    def __delitem__(self, task: TaskId) -> None:
        self._busy -= self._runs.pop(task).takes_slot
        self._active.discard(task)
        self._claiming.discard(task)

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)


def _waits(run: TaskRun) -> bool:
    return run.state is RunState.WAITING


def _turn(run: TaskRun) -> _Turn:
    if run.task.is_planner:
        return False, 0, run.task
    return True, run.work.definition.submitted_at_ms, run.task


def _stays(before: TaskRun, run: TaskRun) -> bool:
    """Whether a task that waits has its place already."""
    return before.work is run.work and before.not_before_ms == run.not_before_ms
