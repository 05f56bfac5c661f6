"""How many slots a group has, and how many it lacks or has to spare, so that workers can be added or removed. Pure.

This is about one moment. Whoever adds workers averages over time anyway (Prometheus, Kubernetes), or looks again. Only
since when a task has waited is known from the records, so short waits can be left out.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Set
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

from airflow_provider.assignment.balancing.portions import slots_or_mean
from airflow_provider.state.metrics.waiting import task_waits_since_ms
from airflow_provider.state.records import PlanRecord, TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.slots.costs import slots_of
from airflow_provider.state.views.slots.scaling import goes
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import needs_running
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.counted import counted
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId, planner_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The slots of a group.

    A worker that has not written its slots, as one of Java's, counts as the mean of the others, and what it has as
    running.

    :param workers: how many workers there are; those that leave or drain do not count
    :param slots: how many slots all workers have together
    :param busy: how many of them running tasks take
    :param spare: how many stay free when each task has started that may start: those that wait, those that will do so
        (for their next attempt, their lost worker, a checkpoint), and those that a leaving worker still runs
    :param waiting_tasks: how many tasks wait because the slots that they want are free on no worker that stays
    :param waiting_streams: how many of these are streams
    :param lacking: how many slots these want together
    """

    workers: int = 0
    slots: int = 0
    busy: int = 0
    spare: int = 0
    waiting_tasks: int = 0
    waiting_streams: int = 0
    lacking: int = 0

    @property
    def in_words(self) -> str:
        """As in "8 slots, 6 busy: 3 streams wait for 5 slots"; empty if there is nothing to say."""
        if not self.slots and not self.waiting_tasks:
            return ""
        has = f"{counted(self.slots, 'slot')}, {self.busy} busy" if self.slots else "no slots"
        spare = f", {self.spare} to spare" if self.spare else ""
        return f"{has}{spare}{self._waits}"

    @property
    def _waits(self) -> str:
        others = self.waiting_tasks - self.waiting_streams
        both = self.waiting_streams > 0 < others
        kinds = ((self.waiting_streams, "stream"), (others, "other task" if both else "task"))
        who = " and ".join(counted(number, kind) for number, kind in kinds if number)
        wait = "waits" if self.waiting_tasks == 1 else "wait"
        return f": {who} {wait} for {counted(self.lacking, 'slot')}" if who else ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


NO_ROOM: Final = Room()
"""That of a group that does not exist."""


def room(jobs: JobsSnapshot, status: StatusSnapshot, *, now_ms: int, waited_ms: int = 0) -> Room:
    """The slots of a group now. Takes time in proportion to the number of tasks.

    :param now_ms: wall clock, milliseconds since 1970
    :param waited_ms: only tasks that have waited for so long lack slots
    """
    there = present(status)
    staying = frozenset(worker for worker in there if not goes(worker, status))
    slots, runs = slots_or_mean(there, slots_of(status)), _running(there, jobs, status)
    demand = _Demand(jobs, status, runs.keys(), now_ms=now_ms, waited_ms=waited_ms)
    if not staying:
        demand.add_planners()
    taken: Counter[WorkerId] = Counter()
    for task, worker in runs.items():
        taken[worker] += jobs.slots_of(task)
        if worker not in staying:
            demand.later[jobs.slots_of(task)] += 1
    free = sorted(max(0, slots[worker] - taken[worker]) for worker in staying)
    most = max((slots[worker] for worker in staying), default=0)
    streams, others, _ = (_placed(free, kind, most) for kind in (demand.streams, demand.others, demand.later))
    waiting = streams + others
    return Room(
        workers=len(staying),
        slots=sum(slots.values()),
        busy=sum(min(number, taken[worker]) for worker, number in slots.items()),
        spare=sum(free),
        waiting_tasks=waiting.total(),
        waiting_streams=streams.total(),
        lacking=sum(wants * number for wants, number in waiting.items()),
    )


def _running(there: Set[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> dict[TaskId, WorkerId]:
    """Where each running task takes its slots; what a worker without a record has counts as running."""
    runs = {}
    for task, last in status.tasks.items():
        now = effective_status(task, jobs, status) if last.state is TaskState.RUNNING else None
        if now is not None and now.state is TaskState.RUNNING:
            owner = now.worker if now.worker in there else status.owner_of(task)
            if owner is not None and owner in there:
                runs[task] = owner
    for worker in there - status.workers.keys():
        if status.group is not None:
            runs.update(dict.fromkeys(status.group.owned_by(worker), worker))
    return runs


class _Demand:
    """How many tasks want so many slots: streams and others that wait for nothing else, and those that want them later.

    These are the tasks that are :func:`~airflow_provider.state.views.task_progress.progress.configured`, without those
    that run or are paused. Of most of a hundred thousand nothing is written, so these are counted without looking at
    each.

    :param runs: the tasks that run
    """

    def __init__(
        self,
        jobs: JobsSnapshot,
        status: StatusSnapshot,
        runs: Set[TaskId],
        *,
        now_ms: int,
        waited_ms: int,
    ) -> None:
        self.streams, self.others, self.later = Counter[int](), Counter[int](), Counter[int]()
        self._jobs = jobs
        self._status = status
        self._since_ms = now_ms - waited_ms
        self._any_wait = not waited_ms
        self._lost = NO_TASKS if status.deserted or status.group is None else status.group.waiting
        self._apart = runs | jobs.stopped_tasks()
        known: defaultdict[str, list[TaskId]] = defaultdict(list)
        for task in chain(status.tasks, (self._apart | self._lost) - status.tasks.keys()):
            known[task.job].append(task)
        for name in jobs.jobs:
            plan = jobs.plan_of(name)
            if plan is not None and jobs.halt_of(name) is None:
                self._add(plan, known[name])

    def add_planners(self) -> None:
        """They take no slot, but a worker."""
        for name in self._jobs.jobs:
            planner = planner_of(name)
            to_run = needs_running(planner, self._jobs, self._status.tasks) and not self._jobs.is_paused(name)
            if to_run and self._waits(planner):
                self._of_kind(name)[1] += 1

    def _add(self, plan: PlanRecord, known: Iterable[TaskId]) -> None:
        """:param known: the job's tasks of which something is known"""
        wanted = Counter({1: len(plan.configs) - len(plan.large)}) + Counter(plan.large.values())
        for task in known:
            if not 0 <= task.index < len(plan.configs):
                continue
            wants = plan.large.get(task.index, 1)
            if task in self._apart or self._is_over(task, plan):
                wanted[wants] -= 1
            elif task in self._lost or not self._waits(task):
                wanted[wants] -= 1
                self.later[wants] += 1
        waited = plan.at_ms <= self._since_ms or self._any_wait
        (self._of_kind(plan.job) if waited else self.later).update(wanted)

    def _of_kind(self, job: str) -> Counter[int]:
        return self.streams if self._jobs.jobs[job].kind is TaskKind.STREAMING else self.others

    def _is_over(self, task: TaskId, plan: PlanRecord) -> bool:
        last = self._status.tasks.get(task)
        return last is not None and last.state.final and last.is_of(plan.run_key, plan.fingerprints[task.index])

    def _waits(self, task: TaskId) -> bool:
        """Whether it waits for nothing but slots, and has done so for long enough."""
        last = self._status.tasks.get(task)
        if last is not None and last.standing_claim is not None:
            return False
        if self._any_wait and (last is None or last.retry_at_ms is None):
            return True
        since_ms = task_waits_since_ms(task, self._jobs, self._status)
        return since_ms is None or since_ms <= self._since_ms


def _placed(free: list[int], tasks: Counter[int], most: int) -> Counter[int]:
    """Let tasks take what is free, the largest first, each where it leaves the least.

    :param free: of each worker, in ascending order; changed
    :param tasks: how many tasks want so many slots
    :param most: no worker has more: a task that wants more takes all of one; 0: there is no worker
    :returns: those for which nothing is free
    """
    left: Counter[int] = Counter()
    for wants in sorted(tasks, reverse=True):
        takes = min(wants, most or wants)
        for placed in range(tasks[wants]):
            place = bisect_left(free, takes)
            if place == len(free):
                left[takes] += tasks[wants] - placed
                break
            insort(free, free.pop(place) - takes)
    return left
