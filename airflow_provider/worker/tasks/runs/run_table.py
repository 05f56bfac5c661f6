"""The tasks of one worker, with indexes for frequent questions: which tasks run, which starts next, which timer is due.

A worker may have thousands of waiting tasks, and asks whenever one ends. So no answer looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from heapq import heappop, heappush

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun

_Turn = tuple[bool, int, float, TaskId]
_LOOKING = frozenset({RunState.TAKING_OVER, RunState.LEAVING})


class RunTable(MutableMapping[TaskId, TaskRun]):
    """Runs by task. A change costs the same however many there are.

    :ivar held_back: the task that is next, but wants more slots than are free; None: there is none
    """

    __slots__ = (
        "_active",
        "_alone",
        "_busy",
        "_claiming",
        "_detached",
        "_ending",
        "_endless",
        "_failed",
        "_later",
        "_looking",
        "_overdue",
        "_runs",
        "_startable",
        "_waiting",
        "held_back",
    )

    def __init__(self) -> None:
        self._runs: dict[TaskId, TaskRun] = {}
        self._active: set[TaskId] = set()
        self._claiming: set[TaskId] = set()
        self._detached: set[TaskId] = set()
        self._failed: set[TaskId] = set()
        self._looking: set[TaskId] = set()
        self._busy = 0
        self._endless = 0
        self._ending = 0
        self._alone = 0
        self._waiting = 0
        # Entries are not removed when their task changes: outdated ones are skipped when their turn comes.
        self._startable: list[_Turn] = []
        self._later: list[tuple[int, TaskId]] = []
        self._overdue: list[TaskId] = []
        self.held_back: TaskId | None = None

    @property
    def active(self) -> Tasks:
        """The tasks that neither wait nor rest."""
        return frozenset(self._active)

    @property
    def attached(self) -> Tasks:
        """The active tasks that need this process."""
        return frozenset(task for task in self._active if self._runs[task].needs_process)

    def need_no_process(self, slots: int) -> bool:
        """Whether no task needs a process: all are detached, rest, or wait for slots that the detached ones keep."""
        full = self._busy >= slots or self.held_back is not None
        waits_for_slot = self._waiting if slots and full else 0
        return self._alone + waits_for_slot == len(self._runs)

    def has_startable(self, *, slots: int, now_ms: int, blocked: Tasks = NO_TASKS) -> bool:
        """Whether :meth:`startable` has any."""
        self._wake(now_ms)
        if self._busy >= slots and not any(not turn[0] for turn in self._startable):
            return False
        first = min((turn for turn in self._startable if self._may_start(turn, now_ms, blocked)), default=None)
        if first is None:
            return False
        run = self._runs[first[-1]]
        return run.task.is_planner or self._busy + self.share_of(run, slots=slots) <= slots

    def _may_start(self, turn: _Turn, now_ms: int, blocked: Tasks) -> bool:
        return turn[-1] not in blocked and self._has_turn(turn, now_ms)

    def _has_turn(self, turn: _Turn, now_ms: int) -> bool:
        run = self._runs.get(turn[-1])
        return run is not None and _waits(run) and run.not_before_ms <= now_ms and _turn(run) == turn

    @property
    def failed(self) -> Tasks:
        """The tasks that have failed for good, and stay here."""
        return frozenset(self._failed)

    @property
    def looking(self) -> Tasks:
        """The tasks that wait for records about their detached queries."""
        return frozenset(self._looking)

    @property
    def detached(self) -> Tasks:
        """The tasks that run without this process, or may do so."""
        return frozenset(self._detached)

    @property
    def claiming(self) -> list[TaskRun]:
        """The tasks that wait, and whose configuration names a checkpoint."""
        return [self._runs[task] for task in self._claiming]

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        return self._busy

    @property
    def ends_some(self) -> bool:
        """Whether a detached task is being ended."""
        return self._ending > 0

    def share_of(self, run: TaskRun, *, slots: int) -> int:
        """How many slots a task gets: as many as it wants, but at most those that streams leave, because it would wait
        for the others for ever, and all tasks behind it, too.

        :param slots: how many slots the worker has
        """
        return min(run.work.slots, max(1, slots - self._endless))

    def startable(self, *, slots: int, now_ms: int, blocked: Tasks = NO_TASKS) -> Iterator[TaskId]:
        """The tasks that may start: planners, and other tasks while slots are free. Jobs that were submitted first come
        first, and of a job the longest task, so that it does not end last. The caller starts each task, or removes it,
        before it asks for the next one.

        A task that wants several slots is not overtaken: the others would take each slot that becomes free.

        :param slots: how many slots the worker has
        :param now_ms: the monotonic clock, in milliseconds
        :param blocked: the tasks that may not start yet
        """
        self._wake(now_ms)
        self.held_back = None
        put_off = []
        while self._startable and (not self._startable[0][0] or self._busy < slots):
            turn = heappop(self._startable)
            if not self._has_turn(turn, now_ms):
                continue
            run = self._runs[turn[-1]]
            if run.task in blocked:
                put_off.append(turn)
            elif self._busy + self.share_of(run, slots=slots) > slots and not run.task.is_planner:
                put_off.append(turn)
                self.held_back = run.task
                break
            else:
                yield run.task
        for turn in put_off:
            heappush(self._startable, turn)

    def startable_among(self, tasks: Tasks, *, slots: int, now_ms: int) -> Iterator[TaskId]:
        """Those of these tasks that may start, as in :meth:`startable`, when nothing else may."""
        self.held_back = None
        for run in sorted((self._runs[task] for task in tasks), key=_turn):
            fits = run.task.is_planner or self._busy + self.share_of(run, slots=slots) <= slots
            if _waits(run) and run.not_before_ms <= now_ms and fits:
                yield run.task

    def overdue(self, *, now_ms: int) -> list[TaskId]:
        """The tasks that do not wait, and whose time has come (:attr:`TaskRun.due_ms`)."""
        self._wake(now_ms)
        overdue, self._overdue = self._overdue, []
        return [task for task in overdue if self._is_overdue(task, now_ms)]

    def next_due_ms(self, *, now_ms: int) -> int | None:
        """When the time of the next task comes, which may be now (monotonic milliseconds); None: never."""
        self._wake(now_ms)
        if self._overdue and any(self._is_overdue(task, now_ms) for task in self._overdue):
            return now_ms
        while self._later and not self._is_due_at(*self._later[0]):
            heappop(self._later)
        return self._later[0][0] if self._later else None

    def _is_overdue(self, task: TaskId, now_ms: int) -> bool:
        run = self._runs.get(task)
        return run is not None and not _waits(run) and run.due_ms is not None and run.due_ms <= now_ms

    def _wake(self, now_ms: int) -> None:
        while self._later and self._later[0][0] <= now_ms:
            at_ms, task = heappop(self._later)
            if not self._is_due_at(at_ms, task):
                continue
            if _waits(self._runs[task]):
                heappush(self._startable, _turn(self._runs[task]))
            elif task not in self._overdue:
                self._overdue.append(task)

    def _is_due_at(self, at_ms: int, task: TaskId) -> bool:
        run = self._runs.get(task)
        return run is not None and run.due_ms == at_ms

    # ---- a mapping

    def __getitem__(self, task: TaskId) -> TaskRun:
        return self._runs[task]

    def __setitem__(self, task: TaskId, run: TaskRun) -> None:
        before = self._runs.get(task)
        self._runs[task] = run
        self._count(run, 1)
        if before is not None:
            self._count(before, -1)
        waits, due_ms = _waits(run), run.due_ms
        if waits and run.claim is not None:
            self._claiming.add(task)
        else:
            self._claiming.discard(task)
        if waits or run.state.rests:
            self._active.discard(task)
        else:
            self._active.add(task)
        if run.detached:
            self._detached.add(task)
        else:
            self._detached.discard(task)
        if run.state is RunState.FAILED:
            self._failed.add(task)
        else:
            self._failed.discard(task)
        if run.state in _LOOKING or run.waits_to_be_read:
            self._looking.add(task)
        else:
            self._looking.discard(task)
        if before is not None and _waits(before) is waits and before.due_ms == due_ms and _has_its_turn(before, run):
            return
        if due_ms is not None:
            heappush(self._later, (due_ms, task))
        elif waits:
            heappush(self._startable, _turn(run))

    def __delitem__(self, task: TaskId) -> None:
        run = self._runs.pop(task)
        self._count(run, -1)
        self._active.discard(task)
        self._claiming.discard(task)
        self._detached.discard(task)
        self._failed.discard(task)
        self._looking.discard(task)

    def _count(self, run: TaskRun, sign: int) -> None:
        taken = sign * run.taken_slots
        self._busy += taken
        if run.is_endless:
            self._endless += taken
        if not run.needs_process:
            self._alone += sign
        if run.is_being_ended:
            self._ending += sign
        if _waits_for_slot(run):
            self._waiting += sign

    def validate(self) -> None:
        """Check the rules that must hold after each change.

        :raises AssertionError: naming the broken rule
        """
        turns, times = {turn[-1] for turn in self._startable}, set(self._later)
        for task, run in self._runs.items():
            assert run.task == task, f"{task} has the run of {run.task}"
            idle = _waits(run) or run.state.rests
            assert (task in self._active) is not idle, f"{task} is either active, or waits or rests"
            assert (task in self._failed) is (run.state is RunState.FAILED), (
                f"the index of failed tasks is wrong about {task}"
            )
            assert (task in self._detached) is run.detached, f"the index of detached tasks is wrong about {task}"
            assert (task in self._claiming) is (_waits(run) and run.claim is not None), (
                f"the index of claiming tasks is wrong about {task}"
            )
            due_ms = run.due_ms
            known = due_ms is not None and ((due_ms, task) in times or task in self._overdue)
            assert due_ms is None or known or task in turns, f"{task} has no entry for {due_ms}"
            assert due_ms is not None or not _waits(run) or task in turns, f"{task} waits and has no turn"
        there = self._active | self._claiming | self._failed | self._detached
        assert there <= self._runs.keys(), "an index has a task that is gone"
        alone = sum(not run.needs_process for run in self._runs.values())
        assert self._alone == alone, "the number of tasks that need no process is wrong"
        ending = sum(run.is_being_ended for run in self._runs.values())
        assert self._ending == ending, "the number of tasks that are being ended is wrong"
        assert self._waiting == sum(map(_waits_for_slot, self._runs.values())), (
            "the number of tasks that wait for a slot is wrong"
        )
        assert self._busy == sum(run.taken_slots for run in self._runs.values()), "the number of taken slots is wrong"
        endless = sum(run.taken_slots for run in self._runs.values() if run.is_endless)
        assert self._endless == endless, "the number of slots taken by streams is wrong"

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)


def _waits(run: TaskRun) -> bool:
    return run.state is RunState.WAITING


def _waits_for_slot(run: TaskRun) -> bool:
    return run.state is RunState.WAITING and not run.task.is_planner


def _turn(run: TaskRun) -> _Turn:
    if run.task.is_planner:
        return False, 0, 0, run.task
    return True, run.work.definition.submitted_at_ms, -run.cost, run.task


def _has_its_turn(before: TaskRun, run: TaskRun) -> bool:
    """Whether a task's change does not affect its turn."""
    return before.work is run.work or not _waits(run)
