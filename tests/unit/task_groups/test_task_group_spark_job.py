"""The task group of a job: which tasks it makes, and what it refuses when its DAG is parsed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup, task, task_group
from airflow_values import context

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor
from airflow_provider.spark.job import SparkJob
from airflow_provider.task_groups.spark_job import SparkJobTaskGroup


class Copy(SparkJob):
    """A job that workers can import from here."""


@pytest.fixture
def dag() -> DAG:
    return DAG("etl", schedule=None, max_active_runs=1)


def submitting(dag: DAG, task_id: str = "copy.submit") -> SparkJobOperator:
    submit = dag.task_dict[task_id]
    assert isinstance(submit, SparkJobOperator)
    return submit


def working(dag: DAG, task_id: str = "copy.worker") -> list[SparkWorkerOperator]:
    """As Airflow makes them when they run."""
    mapped: Any = dag.task_dict[task_id]
    cases = mapped.expand_input.value["worker"]
    made = [mapped.unmap({"worker": worker}) for worker in cases]
    assert all(isinstance(worker, SparkWorkerOperator) for worker in made)
    return made


def waiting(dag: DAG, task_id: str = "copy.result") -> JobSensor:
    result = dag.task_dict[task_id]
    assert isinstance(result, JobSensor)
    return result


def test_a_job_is_submitted_before_its_workers_start_and_while_they_work_it_is_waited_for(dag: DAG) -> None:
    with dag:
        SparkJobTaskGroup("copy", entry_point="jobs.copying:Copy", config={"table": "orders"})
    submit, result, workers = submitting(dag), waiting(dag), working(dag)
    assert submit.downstream_task_ids == {"copy.worker", "copy.result"}
    assert result.downstream_task_ids == set()
    assert (submit.entry_point, submit.config, submit.job) == ("jobs.copying:Copy", {"table": "orders"}, "copy")
    assert (result.job, result.state, result.deferrable) == ("copy", "finished", True)
    assert [worker.allowed_entry_points for worker in workers] == [["jobs.copying"]] * 2
    assert (submit.group, result.group, *(worker.group for worker in workers)) == ("etl.copy",) * 4
    dag.check_cycle()


def test_a_killed_process_is_tried_again_whatever_is_usual_for_other_tasks() -> None:
    usual: Any = {"retries": 0, "retry_delay": timedelta(hours=1)}
    with DAG("etl", schedule=None, max_active_runs=1, default_args=usual) as dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", worker_args={"retries": 9})
    submit, result = submitting(dag), waiting(dag)
    (worker, _) = working(dag)
    assert [each.retries for each in (submit, worker, result)] == [3, 9, 3]
    assert {each.retry_delay for each in (submit, worker, result)} == {timedelta(seconds=1)}


def test_what_is_usual_in_the_dag_does_not_change_how_its_tasks_work_together() -> None:
    usual: Any = {"allowed_entry_points": ["everything"], "worker": "one", "until": "forever", "trigger_rule": "always"}

    @task_group
    def load(table: str) -> None:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", config={"table": table}, workers=1)

    with DAG("etl", schedule=None, max_active_runs=1, default_args=usual) as dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy")
        load.expand(table=["orders"])
        SparkJobTaskGroup(
            "own",
            entry_point="jobs:Copy",
            worker_args={"until": "forever", "trigger_rule": "always", "allowed_entry_points": ["more"]},
        )
    in_mapped: Any = dag.task_dict["load.copy.worker_1"]
    for worker in (*working(dag), in_mapped):
        assert (worker.allowed_entry_points, worker.worker, worker.until) == (["jobs"], None, "drained")
        assert worker.trigger_rule == "all_success"
    assert waiting(dag).trigger_rule == "all_success"
    assert submitting(dag).trigger_rule == "always", "what comes before the job is the DAG's own affair"
    (own, _) = working(dag, "own.worker")
    assert (own.allowed_entry_points, own.until, own.trigger_rule) == (["more"], "forever", "always")


def test_further_parameters_reach_the_tasks(dag: DAG) -> None:
    with dag:
        SparkJobTaskGroup(
            "copy",
            entry_point="jobs:Copy",
            workers=3,
            kafka_conn_id="mine",
            submit_args={"run_key": "monday", "max_tasks": 8},
            worker_args={"slots": 4, "allowed_entry_points": ["jobs", "more_jobs"]},
            result_args={"timeout": 60},
        )
    submit, result, workers = submitting(dag), waiting(dag), working(dag)
    assert (submit.max_tasks, submit.run_key) == (8, "monday")
    assert (result.run_key, result.timeout) == ("monday", 60), "it waits for what was submitted"
    assert [(worker.slots, worker.allowed_entry_points) for worker in workers] == [(4, ["jobs", "more_jobs"])] * 3
    connections = submit.kafka_conn_id, result.kafka_conn_id, *(worker.kafka_conn_id for worker in workers)
    assert connections == ("mine",) * 5


def test_a_class_is_its_own_entry_point(dag: DAG) -> None:
    with dag:
        SparkJobTaskGroup("copy", entry_point=Copy)
    assert submitting(dag).entry_point == f"{__name__}:Copy"
    assert working(dag)[0].allowed_entry_points == [__name__]


def test_it_takes_templates_and_what_other_tasks_return_and_gives_others_its_results(dag: DAG) -> None:
    @task
    def tables() -> list[str]:
        return ["orders"]

    @task
    def use(results: object) -> None: ...

    with dag:
        known_later: Any = tables()
        copied = SparkJobTaskGroup(
            "copy",
            entry_point="{{ params.job }}",
            config={"tables": known_later},
            worker_args={"allowed_entry_points": ["jobs"]},
        )
        SparkJobTaskGroup("again", entry_point="jobs:Copy", config="{{ params.again | tojson }}")
        use(copied.output)
    assert submitting(dag).upstream_task_ids == {"tables"}
    assert dag.task_dict["use"].upstream_task_ids == {"copy.result"}
    assert submitting(dag, "again.submit").config == "{{ params.again | tojson }}"


def test_several_in_a_dag_have_groups_and_workers_of_their_own(dag: DAG) -> None:
    with dag, TaskGroup("night"):
        first = SparkJobTaskGroup("copy", entry_point="jobs:Copy")
        second = SparkJobTaskGroup("check", entry_point="jobs:Check")
        first >> second
    assert submitting(dag, "night.copy.submit").group == "etl.night.copy"
    assert submitting(dag, "night.check.submit").group == "etl.night.check"
    assert submitting(dag, "night.check.submit").upstream_task_ids == {"night.copy.worker", "night.copy.result"}
    dag.check_cycle()


def test_they_may_share_a_group_in_which_each_has_its_job(dag: DAG) -> None:
    with dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", group="shared")
        SparkJobTaskGroup("check", entry_point="jobs:Check", group="shared", job="checking")
    made = [submitting(dag), submitting(dag, "check.submit")]
    assert [(submit.group, submit.job) for submit in made] == [("shared", "copy"), ("shared", "checking")]
    assert waiting(dag, "check.result").job == "checking"


def test_in_a_mapped_task_group_each_instance_has_a_job_and_all_share_the_workers(dag: DAG) -> None:
    @task_group
    def load(table: str) -> None:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", config={"table": table})

    with dag:
        load.expand(table=["orders", "items"])
    assert sorted(dag.task_dict) == [f"load.copy.{name}" for name in ("result", "submit", "worker_1", "worker_2")]
    submit, result = submitting(dag, "load.copy.submit"), waiting(dag, "load.copy.result")
    for operator in (submit, result):
        operator.render_template_fields(context(map_index=1))
    assert (submit.job, submit.config, submit.group) == ("load.copy.1", {"table": "items"}, "etl.load.copy")
    assert (result.job, result.group) == ("load.copy.1", "etl.load.copy")


def test_a_name_that_kafka_does_not_know_is_spelled_so_that_it_does() -> None:
    with DAG("größe", schedule=None, max_active_runs=1) as dag:
        SparkJobTaskGroup("maß" + "s" * 190, entry_point="jobs:Copy")
    submit = next(each for each in dag.tasks if each.task_id.endswith(".submit"))
    assert isinstance(submit, SparkJobOperator)
    assert submit.group.startswith("gr__e.ma_s")
    assert len(submit.group) == len(submit.job) == 190


@pytest.mark.parametrize(
    ("given", "in_workers"),
    [({"kind": "streaming"}, {"checkpoint_root": "/checkpoints"}), ({"replan_interval": 60}, {})],
)
def test_a_job_without_an_end_is_waited_for_until_it_runs(dag: DAG, given: Any, in_workers: Any) -> None:
    with dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", submit_args=given, worker_args=in_workers)
    assert waiting(dag).state == "running"


def test_a_part_of_the_dag_has_the_same_tasks(dag: DAG) -> None:
    """As when a user runs one task with those before it."""
    with dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy")
    part = dag.partial_subset("copy.result", include_upstream=True)
    assert sorted(part.task_dict) == ["copy.result", "copy.submit"]
    assert isinstance(part.task_group.children["copy"], SparkJobTaskGroup)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"slots": 4}, "slots: is no parameter of a task group.* worker_args"),
        ({"entry_point": "jobs.Copy"}, "entry_point: 'jobs.Copy' must have the shape"),
        ({"entry_point": Copy()}, "entry_point: .* must be 'package.module:Class'"),
        ({"entry_point": "{{ params.job }}"}, "entry_point: .* say in worker_args which"),
        ({"config": ["orders"]}, "config: must be an object"),
        ({"workers": 0}, "workers: 0 must be a whole number, at least 1"),
        ({"workers": "{{ params.workers }}"}, "workers: .* must be when the DAG is parsed"),
        ({"group": "no name"}, "group: 'no name' must be 1 to"),
        ({"job": "no/name"}, "job: 'no/name'"),
        ({"submit_args": {"job": "b"}}, "submit_args: 'job' is set by the task group"),
        ({"submit_args": {"wait_for_completion": True}}, "submit_args: 'wait_for_completion' is set"),
        ({"worker_args": {"group": "b"}}, "worker_args: 'group' is set by the task group"),
        ({"worker_args": {"worker": "one name"}}, "worker_args: 'worker' is set by the task group"),
        ({"worker_args": {"slots": 0}}, "task 'copy.worker': slots: 0 must be"),
        ({"worker_args": {"max_moves": 4}}, r"max_moves: .* write policy=Incremental\(max_moves=\.\.\.\)"),
        ({"result_args": {"state": "done"}}, "state: 'done' must be one of"),
        ({"submit_args": {"kind": "streaming"}}, "worker_args: the tasks of a streaming job need a checkpoint_root"),
    ],
)
def test_what_can_not_work_is_refused_by_name(dag: DAG, parameters: Any, problem: str) -> None:
    with dag, pytest.raises(ValueError, match=f"^task group 'copy': {problem}"):
        SparkJobTaskGroup("copy", **{"entry_point": "jobs:Copy", **parameters})


def test_runs_that_may_overlap_need_a_group_each() -> None:
    with DAG("etl", schedule=None, max_active_runs=2) as dag:
        with pytest.raises(ValueError, match=r"^task group 'copy': group: 'etl\.copy' is .*, of which 2 may be active"):
            SparkJobTaskGroup("copy", entry_point="jobs:Copy")
        SparkJobTaskGroup("each", entry_point="jobs:Copy", group="etl.{{ run_id | replace(':', '-') }}")
    assert submitting(dag, "each.submit").group == "etl.{{ run_id | replace(':', '-') }}"


def test_two_task_groups_can_not_submit_the_same_job(dag: DAG) -> None:
    with dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", group="etl", job="orders")
        SparkJobTaskGroup("other", entry_point="jobs:Copy", group="etl", job="items")
        with pytest.raises(
            ValueError, match=r"^task group 'again': job: task group 'copy' also submits a job 'orders'"
        ):
            SparkJobTaskGroup("again", entry_point="jobs:Check", group="etl", job="orders")


def test_only_one_can_do_without_a_prefix(dag: DAG) -> None:
    with dag:
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", prefix_group_id=False)
        with pytest.raises(ValueError, match=r"^task group 'check': prefix_group_id: .*'submit' is the id of a task"):
            SparkJobTaskGroup("check", entry_point="jobs:Check", prefix_group_id=False)
    assert sorted(dag.task_dict) == ["result", "submit", "worker"]


@pytest.mark.parametrize("parameter", ["submit_args", "worker_args", "result_args"])
@pytest.mark.parametrize("wrong", ["retries", True, []])
def test_further_parameters_must_be_a_dict(dag: DAG, parameter: str, wrong: Any) -> None:
    with dag, pytest.raises(ValueError, match=f"^task group 'copy': {parameter}: .* must be a dict of parameters"):
        SparkJobTaskGroup("copy", entry_point="jobs:Copy", **{parameter: wrong})
