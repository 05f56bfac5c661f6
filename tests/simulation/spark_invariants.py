"""The rules about ends of Spark, each a function whose docstring states it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from simulation.invariants import Broken, invariant, may_overlap, names

from airflow_provider.state.records import TaskStatus
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun

if TYPE_CHECKING:
    from simulation.world import World


@invariant
def nobody_fails_for_an_end_of_spark_that_may_be_due_to_others(
    task: TaskId, culprit: TaskId | None, others: Collection[TaskId]
) -> None:
    """A task fails for good only for an end of Spark that no other task is the reason of, and, unless it is the reason
    itself, when no other task ran on this Spark.

    :param task: fails for good
    :param culprit: the task that has ended Spark; None: no task
    :param others: which ran there
    """
    if culprit != task and (culprit is not None or others):
        raise Broken(f"{task} fails because {culprit or 'chance'} has ended Spark, beside {names(others) or 'nothing'}")


@invariant
def nobody_pays_for_a_spark_that_does_not_start(before: TaskRun, after: TaskRun | None) -> None:
    """A task whose Spark did not start has failed no more often than before, and is suspected no more. It may be
    acquitted meanwhile.

    :param after: None: its worker does not have it any more
    """
    if after is None:
        return
    then, now = _paid(before), _paid(after)
    if any(now[what] > then[what] for what in now):
        raise Broken(f"{before.task} pays for a Spark that did not start: {then} has become {now}")


def _paid(run: TaskRun) -> Mapping[str, int]:
    return {
        "failures": run.failures,
        "deaths": run.spark_deaths + run.process_deaths,
        "its last try": run.last_try,
        "failed for good": run.state is RunState.CLOSING,
    }


@invariant
def who_ends_spark_is_found(*, deaths: int, most: int) -> None:
    """A task that ends its Spark each time that it runs is found within a number of deaths."""
    if deaths > most:
        raise Broken(f"Spark was ended {deaths} times, and not {most} times at most")


@invariant
def only_what_was_in_trouble_is_suspected(said: TaskStatus, world: World) -> None:
    """A task is only counted as a suspect of the end of a process if the process of its last start has ended, or may
    have lost its lease, or could not write that the task has stopped, or has not heard that others have its tasks.

    :param said: what its next worker writes
    """
    known = world.status.tasks.get(said.task)
    if known is None or said.process_deaths <= known.status.process_deaths or known.status.worker == said.worker:
        return
    if said.epoch < known.status.epoch:  # it has overslept that somebody else has got the task
        return
    if known.start not in world.culprits.troubled and not may_overlap(world.processes[known.status.worker], said.task):
        raise Broken(f"{said.worker} suspects {said.task}, which {known.status.worker} has stopped in order")
