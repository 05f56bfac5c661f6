"""The jobs topic: the product's view of it after each change, and the records of each change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from airflow_provider.state.records import SLOTS_KEY, WEIGHT, JobDefinition, Key, KeyKind, PlanRecord, TaskKind
from airflow_provider.state.views.jobs_view import JobsSnapshot, JobsView
from airflow_provider.state.views.topic_view import Parsed
from airflow_provider.values.model import NO_TASKS, PLANNER_INDEX, ConfigOffset, TaskId, Tasks, WorkerId, planner_of

REPLAN_MS = 20_000
MOST_TASKS = 1_000
_AUTHOR = WorkerId("author")


def unweighed(_task: TaskId) -> float | None:
    """A task whose plan has no cost."""
    return None


def of_one_slot(_task: TaskId) -> int:
    """A task that takes one slot."""
    return 1


class JobsTopic:
    """The configuration at each offset at which the author of a history stopped writing.

    A job with a planner is planned again and again: such a planner is always wanted, and already has its plan.

    :param stateful: the jobs whose tasks warm up
    :param streams: the jobs whose tasks do not end
    :param weigh: a task's cost in its plan
    :param wants: a task's slots in its plan
    :ivar written: the tasks that the author wants, finished or not
    """

    def __init__(
        self,
        stateful: frozenset[str] = frozenset(),
        streams: frozenset[str] = frozenset(),
        weigh: Callable[[TaskId], float | None] = unweighed,
        wants: Callable[[TaskId], int] = of_one_slot,
    ) -> None:
        self.written: Tasks = NO_TASKS
        self._stateful = stateful
        self._streams = streams
        self._weigh = weigh
        self._wants = wants
        self._view = JobsView()
        self._snapshots = {ConfigOffset(0): self._view.snapshot()}
        self._lives: Counter[TaskId] = Counter()

    @property
    def offset(self) -> ConfigOffset:
        return ConfigOffset(self._view.offset)

    @property
    def newest(self) -> JobsSnapshot:
        return self._view.snapshot()

    @property
    def weighed(self) -> bool:
        """Whether tasks differ in cost."""
        return self._weigh is not unweighed

    def at(self, offset: ConfigOffset) -> JobsSnapshot:
        return self._snapshots[offset]

    def between(self, first: ConfigOffset, last: ConfigOffset) -> list[JobsSnapshot]:
        """The records at these offsets, both included."""
        return [snapshot for offset, snapshot in self._snapshots.items() if first <= offset <= last]

    def configure(self, tasks: Tasks) -> Tasks:
        """Configure exactly these tasks.

        :return: tasks that are in a plan and not wanted: a plan has all indexes below the highest one
        """
        indexes: defaultdict[str, set[int]] = defaultdict(set)
        for task in tasks:
            indexes[task.job].add(task.index)
        for job in self.newest.jobs.keys() - indexes.keys():
            self._put(KeyKind.JOB, job, None)
            self._put(KeyKind.PLAN, job, None)
        for job in sorted(indexes):
            self._define(job, planned=PLANNER_INDEX in indexes[job])
            self._plan(job, max(indexes[job]) + 1)
        self.written = tasks
        self._publish()
        plans = self.newest.plans  # a worker's plan may arrive after its job's removal
        return NO_TASKS.union(_tasks_of(plans[job] for job in indexes)) - tasks

    def plan_again(self, job: str) -> None:
        """Give all tasks of a job other configs."""
        plan = self.newest.plans[job]
        self._lives.update(_tasks_of([plan]))
        self._plan(job, len(plan.configs))
        self._publish()

    def put_plan(self, plan: PlanRecord) -> None:
        """A worker has planned."""
        self._put(KeyKind.PLAN, plan.job, plan)
        self._publish()

    def _define(self, job: str, *, planned: bool) -> None:
        interval_ms, known = REPLAN_MS if planned else None, self.newest.jobs.get(job)
        if known is None:
            removal = self.newest.removed_at.get(job)
            kind = TaskKind.STREAMING if job in self._streams else TaskKind.BATCH
            known = JobDefinition(name=job, entry_point="jobs:Job", max_tasks=MOST_TASKS, removal=removal, kind=kind)
        definition = replace(known, replan_interval_ms=interval_ms)
        if definition != self.newest.jobs.get(job):
            self._put(KeyKind.JOB, job, definition)

    def _plan(self, job: str, tasks: int) -> None:
        configs = [self._config(TaskId(job, index)) for index in range(tasks)]
        plan = PlanRecord.of(
            self.newest.jobs[job], configs, planned_by=_AUTHOR, at_ms=0, stateful=job in self._stateful
        )
        if plan != self.newest.plans.get(job):
            self._put(KeyKind.PLAN, job, plan)

    def _config(self, task: TaskId) -> dict[str, float]:
        weight, wants = self._weigh(task), self._wants(task)
        config: dict[str, float] = {"life": self._lives[task]}
        if weight is not None:
            config[WEIGHT] = weight
        if wants > 1:
            config[SLOTS_KEY] = wants
        return config

    def _put(self, kind: KeyKind, job: str, content: JobDefinition | PlanRecord | None) -> None:
        self._view.take(Parsed(self._view.offset, Key(kind=kind, name=job), content))

    def _publish(self) -> None:
        self._snapshots[self.offset] = self.newest


def _tasks_of(plans: Iterable[PlanRecord]) -> Iterable[TaskId]:
    return (TaskId(plan.job, index) for plan in plans for index in range(len(plan.configs)))


def all_of(jobs: JobsSnapshot) -> Tasks:
    """All its tasks and planners, finished or not."""
    return frozenset(_tasks_of(jobs.plans.values())) | {planner_of(job) for job in jobs.jobs}
