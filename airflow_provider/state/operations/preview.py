"""Previews what a plan would change, and which workers would get its tasks as the group is now. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.state.records import JobDefinition, PlanRecord, task_name
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.costs import costs_of
from airflow_provider.state.views.slots.free_slots import drained
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured, revocation_rank
from airflow_provider.state.views.task_progress.replanning import in_known_order
from airflow_provider.values.counted import counted
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import GenerationId, TaskId, Tasks, WorkerId

_NOBODY = WorkerId("")


class Change(str, Enum):
    """What the plan would change for a task."""

    NEW = "new"
    GOES_ON = "goes on"
    """It is the same as now, and continues."""
    STARTS_ANEW = "starts anew"
    """It has another config, or is of another run, so it would be started again."""
    FINISHED = "has finished"
    """It has finished in this run, and stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedTask:
    """A task of the plan.

    :param worker: the one that would get it; None: the group has no workers, or it has finished
    """

    task: TaskId
    name: str
    config: Mapping[str, Any]
    change: Change
    worker: WorkerId | None

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.task.index,
            "name": self.name,
            "config": dict(self.config),
            "change": self.change.value,
            "worker": self.worker,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a plan would change.

    :param gone: tasks of the present plan that would no longer exist
    :param moved: running tasks of any job that would have to move to another worker
    """

    job: str
    tasks: tuple[PreviewedTask, ...]
    gone: tuple[TaskId, ...]
    moved: tuple[TaskId, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "tasks": [task.to_json() for task in self.tasks],
            "gone": [str(task) for task in self.gone],
            "moved": [str(task) for task in self.moved],
        }

    def lines(self) -> list[str]:
        """The preview for a terminal."""
        head = f"{self.job}: {counted(len(self.tasks), 'task')}; nothing is written"
        lines = [head]
        for task in self.tasks:
            label = f"{task.task} ({task.name})" if task.name else str(task.task)
            to = "" if task.change is Change.FINISHED else f", on {task.worker or 'nobody: the group is empty'}"
            lines.append(f"  {label}: {task.change.value}{to}: {dict(task.config)}")
        lines += [f"  {task}: it would no longer exist" for task in self.gone]
        return lines + [f"  {task}: would move" for task in self.moved]


def preview(
    definition: JobDefinition,
    configs: Iterable[Mapping[str, Any]],
    jobs: JobsSnapshot,
    status: StatusSnapshot,
    *,
    at_ms: int,
) -> Preview:
    """Preview this definition, if its planner made these tasks now.

    The tasks are placed by the rules of cooperative groups, without what only a round's leader knows: lost tasks that
    wait for their worker, and tasks that are learned first.

    :param at_ms: wall clock, milliseconds since 1970
    :raises JobError: for a plan that would be refused
    """
    name = definition.name
    plan = PlanRecord.of(definition, configs, planned_by=_NOBODY, at_ms=at_ms)
    plan = in_known_order(plan, jobs.plans.get(name))
    halts = {job: placed for job, placed in jobs.halts.items() if job != name}
    task_halts = {task: placed for task, placed in jobs.task_halts.items() if task.job != name}
    as_it_is = replace(jobs, halts=halts, task_halts=task_halts)
    then = replace(as_it_is, jobs={**jobs.jobs, name: definition}, plans={**jobs.plans, name: plan})
    wanted = configured(then, status.tasks)
    owned = _owned(status, wanted)
    target = _placed(owned, wanted, status, at_ms, costs_of(then, status, wanted, wall_ms=at_ms))
    where = {task: worker for worker, tasks in target.items() for task in tasks}
    before = {task: worker for worker, tasks in owned.items() for task in tasks}
    known = jobs.plan_of(name)
    tasks = (TaskId(name, index) for index in range(len(plan.configs)))
    return Preview(
        job=name,
        tasks=tuple(
            PreviewedTask(
                task=task,
                name=task_name(plan.configs[task.index]),
                config=plan.config_of(task.index),
                change=_change(task, jobs, then, wanted),
                worker=where.get(task),
            )
            for task in tasks
        ),
        gone=tuple(TaskId(name, index) for index in range(len(plan.configs), len(known.configs) if known else 0)),
        moved=tuple(sorted(task for task, worker in before.items() if where.get(task, worker) != worker)),
    )


def _owned(status: StatusSnapshot, wanted: Tasks) -> dict[WorkerId, Tasks]:
    record = status.group
    members = [] if record is None else [member for member in record.members if member != BRIDGE]
    return {member: record.owned_by(member) & wanted for member in members if record is not None}


def _placed(
    owned: Mapping[WorkerId, Tasks], wanted: Tasks, status: StatusSnapshot, at_ms: int, costs: Costs
) -> Mapping[WorkerId, Tasks]:
    if not owned or status.group is None:
        return {}
    now = Round(
        now_ms=at_ms,
        generation=GenerationId(2),
        last_completed=GenerationId(1),
        configured=wanted,
        owned=owned,
        revocation_rank=revocation_rank(status.tasks),
        draining=drained(status.group.members, status.workers) & owned.keys(),
        costs=costs,
    )
    target = assign(now, Memory(), policy=IMMEDIATE).target
    # Tasks that have to be stopped first are assigned in the round after that, by the same rules.
    return assign(replace(now, owned=target), Memory(), policy=IMMEDIATE).target


def _change(task: TaskId, jobs: JobsSnapshot, then: JobsSnapshot, wanted: Tasks) -> Change:
    if task not in wanted:
        return Change.FINISHED
    before, after = jobs.planned_work(task), then.planned_work(task)
    if before is None or after is None:
        return Change.NEW
    return Change.GOES_ON if before.is_same(after) else Change.STARTS_ANEW
