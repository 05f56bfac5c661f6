"""The operators that pause, stop, resume, restart and alter a job: what they ask, and how they fail."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from airflow_values import context
from operator_bench import SETTINGS
from stand_ins import MemoryTopics

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration import one_shot
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.kafka.topics.errors import BrokerAwayError, UnsureError
from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.steer_spark_job import (
    AlterSparkJobOperator,
    PauseSparkJobOperator,
    RestartSparkJobOperator,
    ResumeSparkJobOperator,
    StopSparkJobOperator,
)
from airflow_provider.operators.steering import SteerSparkJob
from airflow_provider.spark.job import SparkJob
from airflow_provider.state.records import ActionEvent, JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, WorkerId

JOB = JobDefinition(name="job", entry_point="m:f", max_tasks=9, config={"table": "a"})
BY = "dag.task (r1)"


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> MemoryTopics:
    """Those of a group whose job has a task that runs and one that has failed."""
    made = MemoryTopics("g")

    async def write() -> None:
        await made.submit(JOB)
        plan = PlanRecord.of(JOB, [{"i": 0}, {"i": 1}], planned_by=WorkerId("w1"), at_ms=0)
        await made.publish_plan(plan)
        for index, state in enumerate((TaskState.RUNNING, TaskState.FAILED)):
            await made.publish_task(
                TaskStatus(
                    task=TaskId("job", index),
                    state=state,
                    epoch=Epoch(1),
                    worker=WorkerId("w1"),
                    fingerprint=plan.fingerprints[index],
                )
            )

    asyncio.run(write())
    monkeypatch.setattr(SparkGroupHook, "get_settings", lambda _hook: SETTINGS)
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group, _needs: made)
    return made


def run(operator: type[SteerSparkJob], **parameters: Any) -> dict[str, Any]:
    return operator(**{"task_id": "t", "group": "g", "job": "job", **parameters}).execute(context())


def test_a_dag_pauses_stops_and_resumes_a_job_and_it_is_written_down(topics: MemoryTopics) -> None:
    assert run(PauseSparkJobOperator)["changed"]
    assert topics.jobs.is_paused("job")
    assert not run(PauseSparkJobOperator)["changed"], "as in a retry"
    assert run(StopSparkJobOperator)["changed"]
    assert topics.jobs.is_stopped("job")
    assert run(ResumeSparkJobOperator) == {
        "subject": "job",
        "changed": True,
        "restarted": [],
        "retried": [],
        "resumed": [],
        "stopped": [],
        "finished": [],
        "notes": [],
    }
    done = [event for event in topics.events if isinstance(event, ActionEvent)][1:]
    assert [(event.action, event.by) for event in done] == [("pause", BY), ("stop", BY), ("resume", BY)]


def test_a_dag_restarts_a_job_some_tasks_or_what_has_failed(topics: MemoryTopics) -> None:
    assert run(RestartSparkJobOperator, tasks=["0"])["restarted"] == ["job:0"]
    told = run(RestartSparkJobOperator, only_failed=True)
    assert (told["restarted"], told["retried"]) == ([], ["job:1"])
    assert run(RestartSparkJobOperator)["restarted"] == ["job:0"], "nobody has the other one yet"


def test_a_dag_stops_single_tasks(topics: MemoryTopics) -> None:
    assert run(StopSparkJobOperator, tasks=["0"])["stopped"] == ["job:0"]
    assert not topics.jobs.is_stopped("job")
    assert run(RestartSparkJobOperator, tasks=[0])["resumed"] == ["job:0"]


def test_a_dag_alters_a_job(topics: MemoryTopics) -> None:
    told = run(
        AlterSparkJobOperator,
        config={"table": "b"},
        max_tasks="20",
        task_retries=2,
        task_retry_delay=5,
        task_timeout=timedelta(minutes=1),
    )
    assert told["changed"]
    job = topics.jobs.jobs["job"]
    assert (job.config, job.max_tasks, job.retries, job.retry_delay_ms, job.timeout_ms, job.replan_interval_ms) == (
        {"table": "b"},
        20,
        2,
        5_000,
        60_000,
        None,
    )


def test_a_dag_alters_the_settings_of_spark(topics: MemoryTopics) -> None:
    run(AlterSparkJobOperator, session_conf={"spark.sql.shuffle.partitions": 8, "spark.sql.ansi.enabled": True})
    assert topics.jobs.jobs["job"].session_conf == {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.ansi.enabled": "true",
    }
    run(AlterSparkJobOperator, session_conf={"spark.sql.ansi.enabled": None})
    assert topics.jobs.jobs["job"].session_conf == {"spark.sql.shuffle.partitions": "8"}


def test_a_dag_alters_only_the_version_that_it_has_looked_at(topics: MemoryTopics) -> None:
    version = topics.jobs.defined_at["job"]
    assert run(AlterSparkJobOperator, if_version=str(version), config={"table": "b"})["changed"]
    with pytest.raises(AirflowFailException, match="group 'g': job 'job' has changed"):
        run(AlterSparkJobOperator, if_version=version, config={"table": "c"})
    assert topics.jobs.jobs["job"].config == {"table": "b"}
    assert AlterSparkJobOperator(task_id="t", group="g", job="job", if_version="{{ params.version }}")


@pytest.mark.parametrize(
    ("operator", "parameters", "refusal"),
    [
        (PauseSparkJobOperator, {"job": "other"}, "group 'g': the group has no job 'other'"),
        (
            RestartSparkJobOperator,
            {"tasks": [7]},
            "group 'g': job 'job' has no task 7: it has 2 tasks, from 0 on",
        ),
        (AlterSparkJobOperator, {"task_retries": -1}, "group 'g': job 'job', retries: -1 must be a whole number"),
    ],
)
def test_what_is_refused_fails_for_good(
    topics: MemoryTopics, operator: type[SteerSparkJob], parameters: dict[str, Any], refusal: str
) -> None:
    before = topics.jobs
    with pytest.raises(AirflowFailException, match=refusal):
        run(operator, **parameters)
    assert topics.jobs is before


def test_a_broker_that_is_away_is_waited_for(topics: MemoryTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.failing = BrokerAwayError("broker:9092", "reading", "refused")
    monkeypatch.setattr(time, "sleep", lambda _seconds: setattr(topics, "failing", None))
    assert run(PauseSparkJobOperator)["changed"]


def test_what_may_be_done_already_is_a_case_for_retries(topics: MemoryTopics) -> None:
    with topics.out_of_order(UnsureError("broker:9092", "writing", "no answer")), pytest.raises(UnsureError):
        run(PauseSparkJobOperator)


@pytest.mark.parametrize(
    ("operator", "parameters", "refusal"),
    [
        (PauseSparkJobOperator, {"group": "a/b"}, "^group: "),
        (StopSparkJobOperator, {"job": "a/b"}, "^job: "),
        (RestartSparkJobOperator, {"tasks": "1"}, "^tasks: "),
        (AlterSparkJobOperator, {"max_tasks": 0}, "^max_tasks: "),
        (AlterSparkJobOperator, {"task_timeout": 0}, "^task_timeout: "),
        (AlterSparkJobOperator, {"if_version": "latest"}, "^if_version: "),
        (AlterSparkJobOperator, {"session_conf": {"spark.sql.a": []}}, "^session_conf: "),
        (AlterSparkJobOperator, {"session_conf": {"spark.cores.max": 2}}, "^session_conf: 'spark.cores.max' applies"),
    ],
)
def test_what_is_wrong_in_any_case_is_refused_where_the_dag_is_parsed(
    operator: type[SteerSparkJob], parameters: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ValueError, match=refusal):
        operator(**{"task_id": "t", "group": "g", "job": "job", **parameters})


# ---- a bad config


SCHEMA = {"properties": {"table": {"type": "string"}}, "required": ["table"]}


class Declared(SparkJob):
    config_schema = SCHEMA


def submit(**parameters: Any) -> Any:
    given = {"task_id": "t", "group": "g", "job": "new", "entry_point": f"{__name__}:Declared", **parameters}
    return SparkJobOperator(**given)


def test_a_config_that_the_job_does_not_accept_is_not_submitted(topics: MemoryTopics) -> None:
    with pytest.raises(AirflowFailException, match="of job 'new' is not as the job declares it: table: must have type"):
        submit(config={"table": 7}).execute(context())
    assert "new" not in topics.jobs.jobs


def test_a_job_that_a_template_names_is_not_imported_where_it_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[JobDefinition] = []

    def stop_here(_hook: SparkGroupHook, _group: str, definition: JobDefinition) -> None:
        submitted.append(definition)
        raise InterruptedError

    monkeypatch.setattr(SparkGroupHook, "submit_job", stop_here)
    operator = submit(entry_point="{{ dag_run.conf['job'] }}", config={"table": 7})
    operator.entry_point = f"{__name__}:Declared"  # as Airflow renders it
    with pytest.raises(InterruptedError):
        operator.execute(context())
    assert submitted
