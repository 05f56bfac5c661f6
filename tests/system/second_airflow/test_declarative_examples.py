"""The example DAGs run unchanged where Airflow's configuration makes groups declarative.

No coordinator is deployed: the processes that hold workers coordinate their groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import test_example_dags as examples
from airflow_group import Group
from fleet import overlaps, starts
from names import EXAMPLES

from airflow_provider.broker.local_broker import LocalBroker
from airflow_provider.declarative_membership.record import DeclarativeRecord
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import TaskState
from demo.airflow import LocalAirflow

CHECKS: Mapping[str, Callable[[LocalAirflow, Path], None]] = {
    "batch": examples.test_a_batch_group,
    "streaming": lambda airflow, _folder: examples.test_a_streaming_query_moves_and_nothing_is_lost_or_written_twice(
        airflow
    ),
}


@dataclass(frozen=True)
class Runs:
    """Runs of the examples: each begins when a test first asks for it."""

    airflow: LocalAirflow
    folder: Path
    over: set[str] = field(default_factory=set)

    def finish(self, name: str) -> None:
        if name not in self.over:
            CHECKS[name](self.airflow, self.folder)
            self.over.add(name)


@pytest.fixture(scope="module")
def runs(airflow: LocalAirflow, example_folder: Path) -> Runs:
    return Runs(airflow, example_folder)


@pytest.mark.parametrize("name", [pytest.param("batch", marks=pytest.mark.thorough), "streaming"])
def test_an_example_runs_as_it_is(runs: Runs, broker: LocalBroker, name: str) -> None:
    runs.finish(name)
    check_declarative(Group(runs.airflow, broker.bootstrap_servers, name=f"{EXAMPLES}.{name}"))


@pytest.mark.thorough
def test_a_dag_reacts_to_a_rebalance(runs: Runs, broker: LocalBroker) -> None:
    examples.test_a_dag_reacts_to_a_rebalance(runs.airflow)
    check_declarative(Group(runs.airflow, broker.bootstrap_servers, name=f"{EXAMPLES}.rebalance"))


def check_declarative(group: Group) -> None:
    assert isinstance(group.record, DeclarativeRecord)
    assert group.described().state == "Dead", "the broker has no such classic group"
    epochs = [each.epoch for each in group.rounds()]
    assert epochs == sorted(set(epochs))


@pytest.mark.thorough
def test_each_task_of_a_batch_finishes_once_and_never_runs_twice_at_a_time(runs: Runs, broker: LocalBroker) -> None:
    """A task that has just started may still move: its owner's record may not have been read before the new target."""
    runs.finish("batch")
    steps = Group(runs.airflow, broker.bootstrap_servers, name=f"{EXAMPLES}.batch").steps()
    finished = {(step.task, step.attempt) for step in steps if step.state is TaskState.FINISHED}
    assert Counter(task for task, _ in finished if not task.is_planner) == {
        TaskId("count_by_digit", index): 1 for index in range(8)
    }
    for task, begun in starts(steps).items():
        assert all(each.until_ms is not None for each in begun), f"{task} has ended wherever it started: {begun}"
    assert overlaps(steps) == []


def test_a_worker_without_tasks_is_deferred_and_comes_back(runs: Runs) -> None:
    runs.finish("streaming")
    api = runs.airflow.api
    (run,) = api.request("GET", "/dags/example_streaming_group/dagRuns")["dag_runs"]
    workers = [
        instance
        for instance in api.task_instances("example_streaming_group", run["dag_run_id"])
        if instance.task_id == "worker"
    ]
    left = api.xcom(api.task_instance("example_streaming_group", run["dag_run_id"], "stop_the_worker_that_runs_it"))
    summaries = {summary["worker"]: summary for summary in map(api.xcom, workers)}
    (other,) = summaries.keys() - {left}
    assert summaries[other]["deferrals"] >= 1, "it had nothing to run until the query moved there"
