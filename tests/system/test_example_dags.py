"""The example DAGs run unchanged where Airflow's configuration makes groups declarative. No coordinator is deployed:
the processes that hold workers coordinate their groups.

In ``make thorough``, the second Airflow runs them without that setting, in classic groups.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from airflow_group import EXAMPLE_GROUP, Group
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fleet import overlaps, starts
from pyarrow import parquet
from waiting import DEADLINE_S

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.presence import present
from airflow_provider.values.model import TaskId
from demo.airflow import LocalAirflow
from demo.airflow_api import TaskInstance

pytestmark = pytest.mark.side_by_side

HAS_CONNECTOR: Final = version("pyspark").startswith(("4.0.", "4.1.", "4.2."))


def run(airflow: LocalAirflow, dag_id: str) -> dict[str, list[TaskInstance]]:
    """Run the DAG until it succeeds; the task instances by task."""
    airflow.api.wait_for_dag(dag_id)
    run_id = airflow.api.trigger(dag_id)
    try:
        airflow.api.wait_for_run(dag_id, run_id)
    except Exception as failed:
        logs = "\n\n".join(
            f"{instance}\n{airflow.api.log(instance)[-4000:]}"
            for instance in airflow.api.task_instances(dag_id, run_id)
            if instance.try_number
        )
        raise AssertionError(f"{failed}\n{logs}") from failed
    instances: dict[str, list[TaskInstance]] = {}
    for instance in airflow.api.task_instances(dag_id, run_id):
        instances.setdefault(instance.task_id, []).append(instance)
    return instances


def check_declarative(group: Group) -> None:
    assert isinstance(group.record, DeclarativeRecord)
    assert group.described().state == "Dead", "the broker has no such classic group"
    epochs = [each.epoch for each in group.rounds()]
    assert epochs == sorted(set(epochs))


def check_drained(airflow: LocalAirflow, workers: list[TaskInstance], *, finished: int) -> None:
    """These workers of one job have left when nothing was left to do, and each task was finished by one of them."""
    summaries = [airflow.api.xcom(worker) for worker in workers]
    assert [summary["worker"] for summary in summaries] == [f"{x.dag_id}.{x.task_id}.{x.map_index}" for x in workers]
    assert {summary["ended"] for summary in summaries} == {"drained"}
    assert sorted(index for summary in summaries for _, index in summary["finished"]) == [*range(finished)]


def check_batch(airflow: LocalAirflow, example_folder: Path) -> None:
    tasks = run(airflow, "example_batch_group")
    report = airflow.api.xcom(tasks["counted"][0])
    assert report["state"] == "finished"
    assert report["counts"] == {"finished": 8}
    assert sum(result["rows"] for result in report["results"].values()) == 1_000_000
    check_drained(airflow, tasks["worker"], finished=8)
    assert all((example_folder / "batch" / f"part={part}" / "_SUCCESS").exists() for part in range(8))


@pytest.mark.thorough
def test_each_task_of_a_batch_finishes_once_and_never_runs_twice_at_a_time(
    airflow: LocalAirflow, group: Group, example_folder: Path
) -> None:
    """A task that has just started may still move: its owner's record may not have been read before the new target."""
    check_batch(airflow, example_folder)
    group.name = f"{EXAMPLE_GROUP}.batch"
    check_declarative(group)
    steps = group.steps()
    finished = {(step.task, step.attempt) for step in steps if step.state is TaskState.FINISHED}
    assert Counter(task for task, _ in finished if not task.is_planner) == {
        TaskId("count_by_digit", index): 1 for index in range(8)
    }
    for task, begun in starts(steps).items():
        assert all(each.until_ms is not None for each in begun), f"{task} has ended wherever it started: {begun}"
    assert overlaps(steps) == []


def check_task_group(airflow: LocalAirflow, example_folder: Path) -> None:
    tasks = run(airflow, "example_job_task_group")
    report = airflow.api.xcom(tasks["count_by_digit.result"][0])
    assert (report["job"], report["counts"]) == ("count_by_digit", {"finished": 4})
    assert airflow.api.xcom(tasks["add_up"][0]) == {"rows": 1_000_000}
    check_drained(airflow, tasks["count_by_digit.worker"], finished=4)
    assert all((example_folder / "task_group" / f"part={part}" / "_SUCCESS").exists() for part in range(4))


@pytest.mark.thorough
def test_a_task_group_runs_its_job_and_hands_on_what_its_tasks_return(
    airflow: LocalAirflow, group: Group, example_folder: Path
) -> None:
    check_task_group(airflow, example_folder)
    group.name = f"{EXAMPLE_GROUP}.task_group"
    check_declarative(group)


def check_task_cospark(airflow: LocalAirflow) -> None:
    tasks = run(airflow, "example_task_cospark")
    report = airflow.api.xcom(tasks["sevens.result"][0])
    assert report["results"] == dict.fromkeys("0123", 25_000)
    assert airflow.api.xcom(tasks["add_up"][0]) == 100_000
    finished = [airflow.api.xcom(worker)["finished"] for worker in tasks["sevens.worker"]]
    assert sorted(index for of_worker in finished for _, index in of_worker) == [0, 1, 2, 3]


@pytest.mark.thorough
def test_a_function_of_the_dag_file_runs_on_workers_that_import_it(airflow: LocalAirflow, group: Group) -> None:
    check_task_cospark(airflow)
    group.name = f"{EXAMPLE_GROUP}.task_cospark"
    check_declarative(group)


def check_sql_files(airflow: LocalAirflow) -> None:
    tasks = run(airflow, "example_sql_files")
    report = airflow.api.xcom(tasks["sales.result"][0])
    assert report["counts"] == {"finished": 2}, "one file by itself, and two of which one runs after the other"
    assert sorted(result["statements"] for result in report["results"].values()) == [2, 5]
    assert airflow.api.xcom(tasks["add_up"][0]) == {"statements": 7}
    check_drained(airflow, tasks["sales.worker"], finished=2)


def test_sql_files_run_as_the_tasks_of_a_job_that_nobody_has_written(airflow: LocalAirflow, group: Group) -> None:
    """In a task group, which submits the job, has workers run it, and hands on what its tasks return."""
    check_sql_files(airflow)
    group.name = f"{EXAMPLE_GROUP}.sql_files"
    check_declarative(group)


def check_spark_applications(airflow: LocalAirflow) -> None:
    tasks = run(airflow, "example_spark_applications")
    report = airflow.api.xcom(tasks["sales.result"][0])
    assert report["counts"] == {"finished": 2}, "one by itself, and two of which one runs after the other"
    assert airflow.api.xcom(tasks["list_submitted"][0]) == ["east", "totals", "west"]
    check_drained(airflow, tasks["sales.worker"], finished=2)
    log = "".join(airflow.api.log(worker) for worker in tasks["sales.worker"])
    assert "east | 50000 sales of east are in" in log
    assert "totals | shop 0 of west has sold" in log
    assert "Spark starts with master" not in log, "the workers' own Spark, which nobody needs"


@pytest.mark.thorough
def test_applications_of_spark_submit_run_as_the_tasks_of_a_job(airflow: LocalAirflow, group: Group) -> None:
    check_spark_applications(airflow)
    group.name = f"{EXAMPLE_GROUP}.spark_applications"
    check_declarative(group)


@pytest.mark.thorough
@pytest.mark.skipif(not HAS_CONNECTOR, reason="for this Spark, its Kafka connector can't be had")
def test_topics_are_copied_into_tables_each_record_once(
    airflow: LocalAirflow, broker: LocalBroker, group: Group, example_folder: Path
) -> None:
    topics = ("example.orders.east", "example.orders.west")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        made.result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        producer.produce(topics[number % 2], json.dumps({"id": number, "name": f"order {number}"}))
    assert producer.flush(DEADLINE_S) == 0
    tasks = run(airflow, "example_kafka_to_table")
    assert airflow.api.xcom(tasks["topics.result"][0])["counts"] == {"finished": 2}
    for parity, topic in enumerate(topics):
        copied = parquet.read_table(example_folder / "kafka_to_table" / topic)
        assert sorted(copied.column("id").to_pylist()) == [*range(parity, 100, 2)]
    group.name = f"{EXAMPLE_GROUP}.kafka_to_table"
    check_declarative(group)


def check_streaming(airflow: LocalAirflow) -> None:
    tasks = run(airflow, "example_streaming_group")
    assert airflow.api.xcom(tasks["each_line_is_there_once"][0]) == {"lines": 100}
    left = airflow.api.xcom(tasks["stop_the_worker_that_runs_it"][0])
    summaries = {summary["worker"]: summary for summary in map(airflow.api.xcom, tasks["worker"])}
    assert {summary["ended"] for summary in summaries.values()} == {"left"}
    assert summaries[left]["stopped"] == 1, "the query ran there, and was stopped there"
    (other,) = summaries.keys() - {left}
    log = "".join(airflow.api.log(worker) for worker in tasks["worker"] if other.endswith(str(worker.map_index)))
    assert "Task copy_lines:0 is running" in log
    assert summaries[other]["deferrals"] >= 1, "it had nothing to run until the query moved there"


@pytest.mark.thorough
def test_a_streaming_query_moves_and_nothing_is_lost_or_written_twice(airflow: LocalAirflow, group: Group) -> None:
    check_streaming(airflow)
    group.name = f"{EXAMPLE_GROUP}.streaming"
    check_declarative(group)


@pytest.mark.thorough
def test_streams_are_warm_before_they_move_as_a_group_grows_and_shrinks(airflow: LocalAirflow) -> None:
    tasks = run(airflow, "example_learners")
    assert airflow.api.xcom(tasks["each_total_is_exact"][0]) == {
        region: {str(n): 30 * n * n for n in range(1, 6)} for region in ("east", "west")
    }
    shares = airflow.api.xcom(tasks["a_stream_has_moved"][0])
    assert sorted(shares.values()) == [[0], [1]]
    halved = airflow.api.xcom(tasks["halve"][0])
    (asked,), (left,) = halved["asked"], halved["left"]
    assert asked == left
    assert halved["drained"] == []
    assert halved["to_move"][asked] == {"slots": 2, "tasks": 1, "running": 1, "stateful": 1}
    workers = {name: airflow.api.xcom(tasks[name.rpartition(".")[2]][0]) for name in shares}
    assert {summary["ended"] for summary in workers.values()} == {"left"}
    logs = {name: airflow.api.log(tasks[name.rpartition(".")[2]][0]) for name in shares}
    (joined,) = [name for name in shares if name.endswith("second_worker")]
    (stayed,) = shares.keys() - {asked}
    for worker, tasks_learned in ((joined, shares[joined]), (stayed, shares[asked])):
        for index in tasks_learned:
            assert f"starts revenue:{index}" in logs[worker]
            assert "fully warmed up" in logs[worker]


def test_a_dag_reacts_to_a_rebalance(airflow: LocalAirflow, group: Group) -> None:
    check_rebalance(airflow, reason="balance", moves=(2,))
    group.name = f"{EXAMPLE_GROUP}.rebalance"
    check_declarative(group)


def check_rebalance(airflow: LocalAirflow, *, reason: str, moves: Collection[int]) -> None:
    """Half of the four streams move.

    :param moves: how many may do so in the last round, of which the sensor tells
    """
    tasks = run(airflow, "example_react_to_rebalance")
    before, after = (airflow.api.xcom(tasks[name][0]) for name in ("before", "rebalanced"))
    assert before["members"] == ["example_react_to_rebalance.first_worker"]
    assert len(after["members"]) == 2
    assert after["epoch"] > before["epoch"]
    assert after["converged"] is True
    moved = after["moved"]
    # Airflow may start the new worker's task anew, if it comes back soon after it has deferred: a round without moves.
    came_once = tasks["second_worker"][0].try_number == 1
    assert len(moved) in moves or not came_once
    for move in moved:
        assert (move["from"], move["to"], move["reason"]) == (
            "example_react_to_rebalance.first_worker",
            "example_react_to_rebalance.second_worker",
            reason,
        )
    assert airflow.api.xcom(tasks["react"][0]) == [f"{job}:{index}" for job, index in (m["task"] for m in moved)]
    page = airflow.api.links(tasks["rebalanced"][0])["Spark group"]
    assert page is not None
    assert page.startswith(f"http://127.0.0.1:{airflow.port}/dags/")


@pytest.mark.thorough
def test_a_group_grows_and_shrinks_with_its_work(airflow: LocalAirflow, group: Group) -> None:
    """A worker has two slots, and a stream takes one. The DAG looks every minute."""

    def submit(streams: int) -> None:
        ticks = "airflow_provider.example_dags.jobs:Ticks"
        group.submit("ticks", tasks=streams, entry_point=ticks, kind=TaskKind.STREAMING)

    group.name = f"{EXAMPLE_GROUP}.elastic"
    for dag_id in ("example_elastic_worker", "example_elastic_group"):
        airflow.api.wait_for_dag(dag_id)
        airflow.api.unpause(dag_id)
    try:
        submit(3)
        assert len(present(group.wait_for_running("ticks", 3).status)) == 2
        submit(1)
        group.wait_for(lambda seen: len(present(seen.status)) == 1, "a worker has left")
        group.wait_for_running("ticks", 1)
    finally:
        airflow.api.pause("example_elastic_group")
