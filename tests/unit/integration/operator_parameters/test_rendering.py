"""Names and maps of text stay as their author wrote them, also where templates are rendered as native objects."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

CONTEXT: Any = {
    "month": "2024_01",
    "version": "1.10",
    "day": "20240131",
    "number": 3,
    "zip": "01234",
    "map": {"a": 1},
    "quoted": "'2024_01'",
    "word": '"x"',
    "none": "None",
    "flag": "True",
    "pair": "(1, 2)",
    "nothing": None,
    "number_of_jobs": 0,
}


def rendered(kind: Any, **parameters: Any) -> Any:
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        operator = kind(task_id="t", **parameters)
    operator.render_template_fields(CONTEXT)
    return operator


@pytest.mark.parametrize("job", ["2024_01", "{{ month }}", "1_0", "1.10", "{{ version }}"])
@pytest.mark.parametrize("kind", [RemoveSparkJobOperator, JobSensor])
def test_a_name_is_what_its_author_wrote(kind: Any, job: str) -> None:
    operator = rendered(kind, group="2024_01", job=job)
    assert operator.group == "2024_01"
    assert operator.job == {"{{ month }}": "2024_01", "{{ version }}": "1.10"}.get(job, job)


@pytest.mark.parametrize(("job", "name"), [("{{ flag }}", "True"), ("{{ pair }}", "(1, 2)"), ("{{ day }}", "20240131")])
def test_a_name_is_a_text_whatever_python_reads_in_it(job: str, name: str) -> None:
    assert rendered(SparkJobOperator, group="g", job=job, entry_point="m:J").job == name


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("template", ["{{ next() }}", "run-{{ next() }}", "{% set n = next() %}", "{{ next() }}_0"])
def test_each_template_is_rendered_once(template: str, *, native: bool) -> None:
    """A macro may have an effect, or be slow."""
    numbers = itertools.count()
    macros = {"next": lambda: next(numbers)}
    with DAG("d", schedule=None, render_template_as_native_obj=native, user_defined_macros=macros):
        operator = SparkJobOperator(task_id="t", group="g", job="j", entry_point="m:J", run_key=template)
    operator.render_template_fields(CONTEXT)
    assert next(numbers) == 1


def test_an_error_names_the_line_of_the_template() -> None:
    with pytest.raises(ZeroDivisionError) as failed:
        rendered(RemoveSparkJobOperator, group="g", job="a\n{{ 1 // number_of_jobs }}")
    assert (failed.traceback[-1].path, failed.traceback[-1].lineno) == ("<template>", 1)


@pytest.mark.parametrize("native", [True, False])
def test_a_dag_may_have_delimiters_of_its_own(native: bool) -> None:
    own = {"variable_start_string": "[[", "variable_end_string": "]]"}
    with DAG("d", schedule=None, render_template_as_native_obj=native, jinja_environment_kwargs=own):
        operator = SparkJobOperator(task_id="t", group="g", job="j", entry_point="m:J", config={"x": "[[ month ]]"})
    operator.render_template_fields(CONTEXT)
    assert operator.config == {"x": "2024_01"}


def test_a_worker_keeps_its_name() -> None:
    worker = rendered(SparkWorkerOperator, group="1_0", worker="{{ month }}", allowed_entry_points=["m"])
    assert (worker.group, worker.worker) == ("1_0", "2024_01")


def test_maps_of_text_stay_as_they_are_written() -> None:
    texts = {"version": "1.10", "zip": "01234", "flag": "True", "none": "None", "list": "[1, 2]", "n": "{{ version }}"}
    job = rendered(
        SparkJobOperator, group="g", job="j", entry_point="m:J", config=texts, session_conf=texts, run_key="2024_01"
    )
    assert job.config == job.session_conf == {**texts, "n": "1.10"}
    assert job.run_key == "2024_01"


@pytest.mark.parametrize(
    ("template", "expected"),
    [("{{ number }}", 3), ("{{ day }}", 20240131), ("{{ map }}", {"a": 1}), ("{{ 1 + 1 }}", 2), ("{{ zip }}", "01234")],
)
def test_what_a_template_makes_is_still_native(template: str, expected: object) -> None:
    config = {"value": template}
    assert rendered(SparkJobOperator, group="g", job="j", entry_point="m:J", config=config).config == {
        "value": expected
    }


@pytest.mark.parametrize(
    ("template", "text"), [("{{ quoted }}", "'2024_01'"), ("{{ word }}", '"x"'), ("a{{ none }}", "aNone")]
)
def test_a_text_keeps_its_quotes(template: str, text: str) -> None:
    """It is refused as a name. Without its quotes, it would be another name, in silence."""
    job = rendered(SparkJobOperator, group="g", job=template, entry_point="m:J", session_conf={"a": template})
    assert (job.job, job.session_conf) == (text, {"a": text})


def test_a_text_that_says_none_is_not_missing() -> None:
    """A job without a run key would have the DAG run's."""
    texts = {"a": "{{ none }}", "b": "{{ nothing }}"}
    job = rendered(SparkJobOperator, group="g", job="j", entry_point="m:J", run_key="{{ none }}", session_conf=texts)
    assert (job.run_key, job.session_conf) == ("None", {"a": "None", "b": None})


@pytest.mark.parametrize("template", ["{{ nothing }}", "{% if nothing %}a{% endif %}"])
def test_what_a_template_leaves_out_is_missing(template: str) -> None:
    job = rendered(SparkJobOperator, group="g", job="j", entry_point="m:J", run_key=template)
    assert job.run_key is None


def test_numbers_and_json_may_be_said_to_be_missing() -> None:
    template = "{% if nothing %}3{% else %}None{% endif %}"
    job = rendered(SparkJobOperator, group="g", job="j", entry_point="m:J", max_tasks=template, config={"n": template})
    assert (job.max_tasks, job.config) == (None, {"n": None})


def test_what_another_task_has_told_a_mapped_one_is_no_template() -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        operator = SparkJobOperator(task_id="t", group="g", job="j", entry_point="m:J")
    told = "{{ month }}"
    seen = {id(told)}  # so Airflow marks what is from an XCom
    assert operator.render_template(told, CONTEXT, operator.get_template_env(), seen) is told
    assert operator.render_template(told, CONTEXT, operator.get_template_env(), set()) == "2024_01"


def test_names_of_mapped_tasks_are_read_in_the_same_way() -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=True) as dag:
        mapped = SparkJobOperator.partial(task_id="t", group="g", entry_point="m:J", run_key="{{ none }}").expand(
            job=["{{ quoted }}"]
        )
    run = {"ti": SimpleNamespace(map_index=0), "dag": dag, "dag_run": SimpleNamespace(conf={}), "expanded_ti_count": 1}
    seen: Any = {**CONTEXT, **run}
    mapped.render_template_fields(seen)
    assert (seen["task"].job, seen["task"].run_key) == ("'2024_01'", "None")


@pytest.mark.skipif("render_template_as_native_obj" not in vars(BaseOperator), reason="from Airflow 3.3 on")
@pytest.mark.parametrize("native", [True, False])
def test_an_operator_may_have_a_wish_of_its_own(native: bool) -> None:
    """Airflow renders it in the environment of its DAG, which has another one."""
    wish: Any = {"render_template_as_native_obj": native}
    with DAG("d", schedule=None, render_template_as_native_obj=not native) as dag:
        job = SparkJobOperator(
            task_id="t",
            group="{{ month }}",
            job="{{ number }}",
            entry_point="m:J",
            config={"n": "{{ number }}"},
            **wish,
        )
    job.render_template_fields(CONTEXT, dag.get_template_env())
    assert (job.group, str(job.job), job.config) == ("2024_01", "3", {"n": 3 if native else "3"})


def test_a_name_is_not_read_as_python() -> None:
    """That may fail, for example because it is nested too deeply."""
    name = "-" * 5_000 + "1"
    assert rendered(JobSensor, group="g", job="{{ 5_000 * '-' }}1").job == name
