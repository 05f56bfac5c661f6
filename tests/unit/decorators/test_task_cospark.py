"""``@task.cospark``: the jobs that functions of a DAG file become, and what is refused when the file is parsed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization import serialized_objects
from airflow_values import context
from dag_files import Parse, parsing

from airflow_provider.decorators.cospark import CosparkJob, cospark_task
from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.spark.job import JobContext, SparkJob, TaskContext, spark_job
from airflow_provider.spark.job.config_schema import ConfigError, check_config_here
from airflow_provider.spark.job.loading import EntryPointNotAllowedError, load_job

DAG_FILE = """
from airflow.sdk import DAG, task

@task.cospark(workers=3, worker_args={"slots": 1})
def count(spark, task):
    return f"{task.config['table']} on {spark}"

def plain(spark, task): ...

with DAG("nightly", schedule=None, max_active_runs=1) as dag:

    @task
    def names(): ...

    @task
    def add_up(report): ...

    @task
    def before(): ...

    before() >> (counted := count.expand(config=[{"table": "orders"}, {"table": "items"}]))
    add_up(counted)
    count(config={"table": "people"})
    count.override(group_id="all", workers=1).expand(config=names())
"""


@spark_job
def ready(_spark: object, _task: TaskContext) -> None: ...


@pytest.fixture
def parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parse]:
    with parsing(tmp_path, monkeypatch) as parse:
        yield parse


@pytest.fixture
def dag(parse: Parse) -> Any:
    return parse("nightly.py", DAG_FILE).dag


def submitted(dag: DAG, group_id: str) -> SparkJobOperator:
    submit = dag.task_dict[f"{group_id}.submit"]
    assert isinstance(submit, SparkJobOperator)
    return submit


def plan_of(submit: SparkJobOperator) -> list[dict[str, Any]]:
    """As a worker does it that may import from the DAG file only."""
    job = load_job(submit.entry_point, ["nightly"])
    config: Any = submit.config
    return job.plan(JobContext(name=submit.job, config=config, max_tasks=9, run_key="r"))


def test_each_config_is_a_spark_task_of_one_job(dag: DAG) -> None:
    submit = submitted(dag, "count")
    assert (submit.entry_point, submit.job, submit.group) == ("nightly:count", "count", "nightly.count")
    assert plan_of(submit) == [{"table": "orders"}, {"table": "items"}]
    workers: Any = dag.task_dict["count.worker"]
    assert len(workers.expand_input.value["worker"]) == 3
    assert workers.partial_kwargs["slots"] == 1
    assert workers.partial_kwargs["allowed_entry_points"] == ["nightly"]


def test_a_call_is_a_job_with_one_spark_task_and_each_has_a_task_group_of_its_own(dag: DAG) -> None:
    submit = submitted(dag, "count__1")
    assert (submit.entry_point, submit.group) == ("nightly:count", "nightly.count__1")
    assert plan_of(submit) == [{"table": "people"}]


def test_it_can_be_overridden_and_takes_what_another_task_returns(dag: DAG) -> None:
    submit = submitted(dag, "all")
    assert submit.upstream_task_ids == {"names"}
    workers: Any = dag.task_dict["all.worker"]
    assert len(workers.expand_input.value["worker"]) == 1
    assert workers.partial_kwargs["slots"] == 1, "the rest stays"


def test_what_it_returns_is_the_result_for_other_tasks_and_the_whole_of_it_for_their_order(dag: DAG) -> None:
    assert dag.task_dict["add_up"].upstream_task_ids == {"count.result"}
    assert submitted(dag, "count").upstream_task_ids == {"before"}
    assert dag.task_dict["count.result"].upstream_task_ids == {"count.submit"}
    dag.check_cycle()


@pytest.mark.parametrize("name", ["before >> job", "job << before", "job >> after", "after << job"])
def test_its_whole_task_group_comes_before_or_after(parse: Parse, name: str) -> None:
    given = DAG_FILE.partition("    before() >>")[0]
    job = "    job, other = count(), names()\n"
    line = name.replace("before", "other").replace("after", "other")
    dag = parse("nightly.py", f"{given}{job}    {line}\n").dag
    if "before" in name:
        assert dag.task_dict["count.submit"].upstream_task_ids == {"names"}
        assert dag.task_dict["count.result"].upstream_task_ids == {"count.submit"}
    else:
        assert dag.task_dict["names"].upstream_task_ids == {"count.result", "count.worker"}


def test_the_dag_can_be_stored_and_cut(dag: DAG) -> None:
    known: Any = serialized_objects
    stored = getattr(known, "DagSerialization", None) or known.SerializedDAG
    assert "count.submit" in json.dumps(stored.to_dict(dag))
    part = dag.partial_subset("add_up", include_upstream=True)
    assert sorted(part.task_dict) == ["add_up", "before", "count.result", "count.submit"]


def test_a_worker_runs_the_function_of_the_dag_file(dag: DAG) -> None:
    job = load_job(submitted(dag, "count").entry_point, ["nightly"])
    assert isinstance(job, SparkJob)
    run = TaskContext(job="count", index=0, config={"table": "orders"}, epoch=1, checkpoint_location="/c")
    a_spark: Any = "spark"
    assert job.run(a_spark, run) == "orders on spark"
    assert isinstance(job, CosparkJob)
    assert job.function(a_spark, run) == "orders on spark", "as its unit tests call it"


def test_a_worker_that_is_not_allowed_to_does_not_import_the_dag_file(dag: DAG) -> None:
    with pytest.raises(EntryPointNotAllowedError, match="module nightly is not allowed here"):
        load_job(submitted(dag, "count").entry_point, ["jobs"])


def test_what_another_task_returns_is_checked_before_it_is_submitted(dag: DAG) -> None:
    entry_point = submitted(dag, "count").entry_point
    assert check_config_here("count", entry_point, {"tasks": [{"table": "orders"}]}) is None
    for wrong in ("orders", ["orders"], {"table": "orders"}):
        with pytest.raises(ConfigError, match="tasks"):
            check_config_here("count", entry_point, {"tasks": wrong})


def test_in_a_mapped_task_group_its_config_may_have_what_that_is_mapped_over(parse: Parse) -> None:
    given = DAG_FILE.partition("    @task\n")[0]
    mapped = """
    from airflow.sdk import task_group

    @task_group
    def load(table):
        count(config={"table": table})

    load.expand(table=["orders", "items"])
"""
    submit = submitted(parse("nightly.py", given + mapped).dag, "load.count")
    submit.render_template_fields(context(map_index=1))
    assert submit.config == {"tasks": [{"table": "items"}]}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("count.expand(config={'table': 'orders'})", "count: config: .* must be a list"),
        ("count.expand(config='{{ params.tables }}')", "count: config: .* must be a list"),
        ("count.expand(config=['orders'])", "count: config: 'orders' must be a JSON object"),
        ("count(config='orders')", "count: config: 'orders' must be a JSON object"),
        ("task.cospark(entry_point='a:B')", "entry_point: the function is the job"),
        ("task.cospark(config={})", "config: the function is the job"),
        ("task.cospark(lambda table: table)", "<lambda> must take two arguments"),
        ("task.cospark(task.cospark(lambda spark, task: 1))", ".* must be a plain function"),
        ("task.cospark(DAG)", ".* must be a plain function"),
    ],
)
def test_what_can_not_work_is_refused_by_name(parse: Parse, line: str, problem: str) -> None:
    given = DAG_FILE.partition("    @task\n")[0]
    with pytest.raises(ValueError, match=f"^@task.cospark:? ?{problem}"):
        parse("nightly.py", f"{given}    {line}\n")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("count.override(retries=5)()", "task group 'count': retries: is no parameter of a task group"),
        ("other = task.cospark(plain)\n    other()", "entry_point: workers import plain"),
    ],
)
def test_so_is_what_no_task_group_takes(parse: Parse, line: str, problem: str) -> None:
    given = DAG_FILE.partition("    @task\n")[0]
    with pytest.raises(ValueError, match=problem):
        parse("nightly.py", f"{given}    {line}\n")


def test_a_function_in_a_file_that_workers_can_not_import_is_refused(parse: Parse) -> None:
    with pytest.raises(ValueError, match=r"task group 'count': entry_point: count is in the DAG file \(.*my-dag"):
        parse("my-dag.py", DAG_FILE)


def test_a_function_in_a_function_is_refused() -> None:
    @cospark_task
    def local(_spark: object, _task: TaskContext) -> None: ...

    with DAG("d", schedule=None, max_active_runs=1), pytest.raises(ValueError, match="defined inside of a function"):
        local()


def test_a_job_that_is_one_already_is_told_where_it_belongs() -> None:
    with pytest.raises(ValueError, match="entry_point of a SparkJobTaskGroup"):
        cospark_task(ready)
