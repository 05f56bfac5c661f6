"""What the tasks of a group cost, how many slots they take, and how much of running ones is left: according to their
plans and to the times of earlier runs. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.assignment.shares import grouped
from airflow_provider.state.records import PlanRecord, TaskKind, TaskState, TaskStatus, cost_of
from airflow_provider.state.records.jobs_topic.slots import MOST_SLOTS
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


def costs_of(
    jobs: JobsSnapshot, status: StatusSnapshot, wanted: Iterable[TaskId], *, wall_ms: int, pinned: Tasks = NO_TASKS
) -> Costs:
    """The costs of bounded tasks, and the slots of all tasks.

    :param wanted: the tasks to look at
    :param wall_ms: now, milliseconds since 1970
    :param pinned: tasks that do not move; they count as running
    """
    times = {task: last.times_ms for task, last in status.tasks.items() if last.took_before_ms or last.took_ms}
    plans = {job: plan for job in jobs.jobs if (plan := jobs.plan_of(job)) is not None}
    slots = slots_of(status)
    if not times and not any(plan.weights or plan.large for plan in plans.values()):
        return replace(NO_COSTS, slots=slots)
    batch = {job: plan for job, plan in plans.items() if jobs.jobs[job].kind is TaskKind.BATCH}
    of = {
        task: cost_of(batch[task.job].weight_of(task.index), times.get(task, ()))
        for task in wanted
        if task.job in batch and not task.is_planner
    }
    for task in [task for task in of if (last := status.tasks.get(task)) and last.kind is TaskKind.STREAMING]:
        del of[task]
    units_s = _units_s(batch, status.tasks)
    of = {task: cost * units_s.get(task.job, 1.0) for task, cost in of.items()}
    return Costs(
        of=of,
        left={
            task: _left(cost, (last.running_ms(wall_ms) or 0) / 1000)
            for task, cost in of.items()
            if (last := status.tasks.get(task)) is not None and (last.state is TaskState.RUNNING or task in pinned)
        },
        large=grouped(
            (TaskId(job, index), wants) for job, plan in plans.items() for index, wants in plan.large.items()
        ),
        slots=slots,
    )


def slots_of(status: StatusSnapshot) -> dict[WorkerId, int]:
    """The slots of each worker, as it has written. A bridge stands for several workers, whose slots are not known."""
    return {worker: min(said.slots, MOST_SLOTS) for worker, said in status.workers.items() if worker != BRIDGE}


def _left(cost: float, ran_s: float) -> float:
    """What is left of a running task: at least half of the time that it has run, as nobody knows how long it takes."""
    return max(cost - ran_s, ran_s / 2)


def _units_s(plans: Mapping[str, PlanRecord], statuses: Mapping[TaskId, TaskStatus]) -> dict[str, float]:
    """How many seconds one unit of a job's weights takes, according to its finished tasks."""
    weighted = {job: plan for job, plan in plans.items() if plan.weights}
    took_s: defaultdict[str, float] = defaultdict(float)
    weights: defaultdict[str, float] = defaultdict(float)
    for task, last in statuses.items() if weighted else ():
        plan = weighted.get(task.job)
        if plan is None or last.state is not TaskState.FINISHED or last.run_key != plan.run_key:
            continue
        weight = plan.weight_of(task.index)
        if weight is not None and last.took_ms:
            took_s[task.job] += last.took_ms / 1000
            weights[task.job] += weight
    return {job: took_s[job] / weight for job, weight in weights.items()}
