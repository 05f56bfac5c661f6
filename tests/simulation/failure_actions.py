"""Actions with tasks that fail for good, or meet another writer: somebody has the former retried; and with the end of
Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.actions import Action, OnWorker
from simulation.attached import Attached
from simulation.process import Process
from simulation.status import TaskWord
from simulation.world import World

from airflow_provider.state.views.task_progress.retrying import to_try_again
from airflow_provider.values.model import TaskId

REST_WITHIN_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FailTask(Action):
    """A task fails for good wherever it runs."""

    task: TaskId

    def apply(self, world: World) -> bool:
        return _wherever_it_runs(world, self.task, "fails", Attached.fail)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetAnotherWriter(Action):
    """Another writer uses the checkpoint of a task, wherever this runs."""

    task: TaskId

    def apply(self, world: World) -> bool:
        return _wherever_it_runs(world, self.task, "meets another writer", Attached.meet_another_writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSpark(OnWorker):
    """The Spark of a worker ends under its tasks, while its process lives."""

    def befall(self, world: World, process: Process) -> bool:
        return process.tasks.spark.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class LackSpark(OnWorker):
    """The Spark of a worker ends, and does not start.

    :param ms: for how long; None: for ever
    """

    ms: int | None

    def befall(self, world: World, process: Process) -> bool:
        world.lacking.lack_spark(self.worker, self.ms)
        process.tasks.spark.end()
        return True


def _wherever_it_runs(world: World, task: TaskId, what: str, happens: Callable[[Attached, TaskId], None]) -> bool:
    holders = [process for process in world.members if task in process.running]
    if not holders or any(process.asleep for process in holders):
        return False
    world.note(f"world    ---- {task} {what}")
    for process in holders:
        happens(process.tasks, task)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain(Action):
    """Somebody retries the failed tasks of a job.

    :param at_rest: only once the group is at rest, where the retry must not need a round
    """

    job: str
    at_rest: bool = False

    def apply(self, world: World) -> bool:
        if self.at_rest:
            world.comes_to(lambda: world.settled, within_ms=REST_WITHIN_MS)
        jobs, status = world.jobs.newest, world.status.snapshot()
        definition = jobs.jobs.get(self.job)
        if definition is None:
            return False
        again = to_try_again(definition, jobs.plans.get(self.job), status.tasks)
        if not again:
            return False
        tasks = frozenset(word.task for word in again)
        kept = frozenset[TaskId]().union(*(process.tasks.kept for process in world.members))
        alone = world.settled and tasks <= kept and not any(process.hushed for process in world.members)
        world.note(f"world    ---- {', '.join(map(str, sorted(tasks)))} shall be tried again")
        world.trials.ask(tasks, alone=alone)
        for word in again:
            world.task_written(TaskWord(status=word, start=None))
        return True
