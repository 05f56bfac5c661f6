"""Names and maps of text stay as their author wrote them, also where templates are rendered as native objects."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

CONTEXT: Any = {"month": "2024_01", "version": "1.10", "day": "20240131", "number": 3, "zip": "01234", "map": {"a": 1}}


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
