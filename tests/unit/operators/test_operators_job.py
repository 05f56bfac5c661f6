"""The operators that submit and remove jobs, up to the seam where a group is asked."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
import structlog
from airflow.sdk import DAG, BaseOperator
from airflow_values import URL, context, group_snapshot, job, jobs_snapshot, status_snapshot
from operator_bench import FakeGroup, job_operator, worker_operator

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException, AirflowFailException, TaskDeferred
from airflow_provider.kafka.topics.errors import BrokerAwayError, TopicTimeoutError
from airflow_provider.operators.retry_spark_job import RetrySparkJobOperator
from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.values.model import TaskId


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> FakeGroup:
    return FakeGroup(monkeypatch)


class TestJobOperator:
    def test_it_submits_what_it_was_told(self, group: FakeGroup) -> None:
        operator = job_operator(
            config={"a": [1]},
            task_retries=2,
            task_retry_delay=timedelta(seconds=1.5),
            task_timeout=60,
            session_conf={"spark.sql.shuffle.partitions": 8},
            run_key="k",
            retries=7,
        )
        summary = operator.execute(context(dag_id="d", task_id="t"))
        (definition,) = group.submitted
        assert (definition.name, definition.config, definition.run_key) == ("job", {"a": [1]}, "k")
        assert (definition.retries, definition.retry_delay_ms) == (2, 1500), "not Airflow's own"
        assert definition.timeout_ms == 60_000
        assert definition.session_conf == {"spark.sql.shuffle.partitions": "8"}
        assert definition.submitted_by == "d.t"
        assert (summary["state"], summary["changed"], summary["counts"]) == ("planning", True, {})

    def test_a_plan_has_as_many_tasks_as_it_needs_unless_somebody_sets_how_many(self, group: FakeGroup) -> None:
        SparkJobOperator(task_id="t", group="g", job="job", entry_point="module:Job").execute(context())
        job_operator(max_tasks=3).execute(context())
        assert [definition.max_tasks for definition in group.submitted] == [None, 3]

    def test_settings_that_no_session_can_have_are_refused_at_once_unless_a_template_says_them(self) -> None:
        with pytest.raises(ValueError, match=r"^session_conf: 'spark\.executor\.memory' applies when Spark starts"):
            job_operator(session_conf={"spark.executor.memory": "4g"})
        job_operator(session_conf={"spark.{{ params.name }}": "4g"})

    def test_what_a_dag_sets_for_all_its_workers_is_nothing_to_its_jobs(self, group: FakeGroup) -> None:
        of_workers = {"spark_conf": {"spark.executor.memory": "4g"}, "spark_master": "spark://m:7077", "slots": 2}
        job_operator(default_args=of_workers).execute(context())
        assert group.submitted[0].session_conf == {}

    def test_a_job_that_ends_runs_once_a_dag_run_and_one_that_does_not_only_once(self, group: FakeGroup) -> None:
        job_operator().execute(context(run_id="manual__1"))
        job_operator(kind="streaming").execute(context(run_id="manual__1"))
        job_operator(replan_interval=60).execute(context(run_id="manual__1"))
        job_operator(kind="streaming", run_key="mine").execute(context(run_id="manual__1"))
        assert [definition.run_key for definition in group.submitted] == ["manual__1", "", "", "mine"]

    def test_waiting_ends_with_the_results(self, group: FakeGroup) -> None:
        group.jobs = jobs_snapshot(job(), tasks=2)
        group.status = status_snapshot(group.jobs, "job", TaskState.FINISHED, TaskState.FINISHED)
        summary = job_operator(wait_for_completion=True, run_key="r1").execute(context())
        assert summary["state"] == "finished"
        assert summary["results"] == {"0": {"rows": 0}, "1": {"rows": 1}}

    def test_waiting_for_a_job_that_fails_fails_with_the_errors_of_its_tasks(self, group: FakeGroup) -> None:
        group.jobs = jobs_snapshot(job(), tasks=2)
        group.status = status_snapshot(group.jobs, "job", TaskState.FINISHED, TaskState.FAILED)
        airflow = context()
        with pytest.raises(AirflowException, match=r"job:1: no luck with 1\n.*cospark jobs retry g job;") as failed:
            job_operator(wait_for_completion=True, run_key="r1").execute(airflow)
        assert str(failed.value).startswith("group 'g': job 'job' has failed:")
        report = airflow["ti"].pushed["return_value"]
        assert report["results"] == {"0": {"rows": 0}}, "for what comes after it by a trigger rule"
        assert report["changed"] is True

    @pytest.mark.parametrize(("kind", "goal"), [("batch", JobGoal.FINISHED), ("streaming", JobGoal.RUNNING)])
    def test_deferred_it_waits_for_its_own_submission(self, group: FakeGroup, kind: str, goal: JobGoal) -> None:
        operator = job_operator(wait_for_completion=True, deferrable=True, kind=kind, timeout=5, kafka_conn_id="b")
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context())
        trigger = deferred.value.trigger
        assert isinstance(trigger, GroupTrigger)
        condition = trigger.condition
        assert isinstance(condition, JobCondition)
        assert (condition.goal, condition.fingerprint) == (goal, group.submitted[0].fingerprint)
        assert deferred.value.timeout == timedelta(seconds=5)
        event = {"report": {"state": "finished"}, "problem": None, "link": URL, "carried": trigger.carried}
        assert operator.execute_complete(context(), event) == {"state": "finished", "changed": True}
        airflow = context()
        with pytest.raises(AirflowException, match="no luck"):
            operator.execute_complete(airflow, {**event, "problem": "no luck"})
        assert airflow["ti"].pushed["return_value"] == {"state": "finished", "changed": True}

    def test_a_job_that_is_over_already_needs_no_triggerer(self, group: FakeGroup) -> None:
        group.jobs = jobs_snapshot(job(), tasks=1)
        group.status = status_snapshot(group.jobs, "job", TaskState.FINISHED)
        operator = job_operator(wait_for_completion=True, deferrable=True, run_key="r1")
        assert operator.execute(context())["state"] == "finished"

    def test_a_job_that_takes_too_long_is_named(self, group: FakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
        def late(_hook: SparkGroupHook, _group: str, _read: object, *, timeout_s: float | None) -> None:
            raise TopicTimeoutError("waiting for a change")

        monkeypatch.setattr(SparkGroupHook, "wait_for", late)
        group.jobs = jobs_snapshot(job(), tasks=2)
        group.status = status_snapshot(group.jobs, "job", TaskState.FINISHED, TaskState.RUNNING)
        airflow = context()
        with pytest.raises(AirflowException, match="timeout: job 'job' of group 'g' is not finished within 0:00:05"):
            job_operator(wait_for_completion=True, timeout=5).execute(airflow)
        assert airflow["ti"].pushed["return_value"]["results"] == {"0": {"rows": 0}}

    def test_so_is_one_that_takes_too_long_while_it_is_deferred(self, group: FakeGroup) -> None:
        group.jobs = jobs_snapshot(job(), tasks=2)
        group.status = status_snapshot(group.jobs, "job", TaskState.FINISHED, TaskState.RUNNING)
        airflow = context()
        with pytest.raises(Exception, match="Trigger timeout"):
            job_operator().resume_execution("__fail__", {"error": "Trigger timeout"}, airflow)
        assert airflow["ti"].pushed["return_value"]["results"] == {"0": {"rows": 0}}

    def test_it_says_which_failed_tasks_are_tried_again(self, group: FakeGroup) -> None:
        """In a first try, too: a streaming job that has failed is submitted again by the next DAG run."""
        group.known, group.failed = True, (TaskId("job", 0), TaskId("job", 2))
        with structlog.testing.capture_logs() as lines:
            job_operator(kind="streaming").execute(context(try_number=1))
        assert "2 failed tasks of job job are tried again: job:0, job:2" in [line["event"] for line in lines]

    @pytest.mark.parametrize(
        ("parameters", "parameter"),
        [
            ({"group": "a/b"}, "group"),
            ({"job": "a/b"}, "job"),
            ({"job": ""}, "job"),
            ({"entry_point": "module.Job"}, "entry_point"),
            ({"config": {"a": object()}}, "config"),
            ({"config": {"a": float("nan")}}, "config"),
            ({"config": ["a"]}, "config"),
            ({"max_tasks": 0}, "max_tasks"),
            ({"kind": "endless"}, "kind"),
            ({"task_retries": -1}, "task_retries"),
            ({"task_retry_delay": -1}, "task_retry_delay"),
            ({"replan_interval": 0}, "replan_interval"),
            ({"timeout": 0}, "timeout"),
            ({"run_key": 7}, "run_key"),
        ],
    )
    def test_what_is_wrong_is_refused_when_the_dag_is_parsed(self, parameters: Any, parameter: str) -> None:
        with pytest.raises(ValueError, match=f"^{parameter}: "):
            job_operator(**parameters)

    def test_a_broker_that_goes_away_after_the_submission_is_waited_for_in_the_triggerer(
        self, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(_hook: SparkGroupHook, _group: str, _read: object) -> None:
            raise BrokerAwayError("broker:9092", "reading", "refused")

        monkeypatch.setattr(SparkGroupHook, "look_now", away)
        with pytest.raises(TaskDeferred):
            job_operator(wait_for_completion=True, deferrable=True).execute(context())

    def test_a_wait_in_a_group_without_workers_says_so(
        self, group: FakeGroup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(TaskDeferred):
            job_operator(wait_for_completion=True, deferrable=True).execute(context())
        assert "Group g has no workers, so job job waits: no worker has joined yet. If its workers come after" in (
            capsys.readouterr().out
        )
        group.status, group.has_members = group_snapshot(3), False
        with pytest.raises(TaskDeferred):
            job_operator(wait_for_completion=True, deferrable=True).execute(context())
        assert "w1, w2 got lost" in capsys.readouterr().out, "killed workers can't write it"
        group.has_members = True
        for status in (group.status, StatusSnapshot()):
            group.status = status
            with pytest.raises(TaskDeferred):
                job_operator(wait_for_completion=True, deferrable=True).execute(context())
        assert "no workers" not in capsys.readouterr().out

    def test_streams_whose_last_worker_was_killed_do_not_run(self, group: FakeGroup) -> None:
        group.jobs = jobs_snapshot(job(), tasks=1)
        group.status, group.has_members = status_snapshot(group.jobs, "job", TaskState.RUNNING, worker="w1"), False
        assert job_operator().execute(context())["counts"] == {"unwatched": 1}

    def test_a_wait_that_nobody_limits_ends_as_that_of_a_sensor(self, group: FakeGroup) -> None:
        with pytest.raises(TaskDeferred) as deferred:
            job_operator(wait_for_completion=True, deferrable=True).execute(context())
        assert deferred.value.timeout == timedelta(days=7)

    @pytest.mark.parametrize("mapped", [True, False])
    def test_a_wait_for_workers_that_come_after_it_fails_at_once(self, group: FakeGroup, mapped: bool) -> None:
        with DAG("d"):
            submit = job_operator(task_id="submit", group="{{ g }}", wait_for_completion=True, deferrable=True)
            of_worker: Any = {"task_id": "worker", "group": "{{ g }}", "allowed_entry_points": ["jobs"]}
            worker: Any = (
                SparkWorkerOperator.partial(**of_worker).expand(slots=[1, 2])
                if mapped
                else SparkWorkerOperator(**of_worker)
            )
            submit >> BaseOperator(task_id="between") >> worker
        running = copy.copy(submit)
        running.group = "g"
        with pytest.raises(
            AirflowFailException, match=r"^wait_for_completion: group g has no workers .*: worker\. Let"
        ):
            running.execute(context())
        group.has_members = True
        with pytest.raises(TaskDeferred):
            running.execute(context())
        group.has_members, group.status = None, group_snapshot(3)
        with pytest.raises(TaskDeferred):
            running.execute(context())
        group.has_members = False
        with pytest.raises(AirflowFailException, match="w1, w2 got lost"):
            running.execute(context())

    def test_it_waits_for_workers_that_start_beside_it_or_are_of_another_group(self, group: FakeGroup) -> None:
        with DAG("d"):
            submit = job_operator(task_id="submit", wait_for_completion=True, deferrable=True)
            submit >> worker_operator(task_id="more")
            worker_operator(task_id="beside")
        with pytest.raises(TaskDeferred):
            submit.execute(context())
        with DAG("e"):
            alone = job_operator(task_id="submit", wait_for_completion=True, deferrable=True)
            alone >> worker_operator(group="another")
            at_once = job_operator(task_id="at_once", wait_for_completion=True, deferrable=True)
            at_once >> worker_operator(task_id="always", trigger_rule="always")
        for each in (alone, at_once):
            with pytest.raises(TaskDeferred):
                each.execute(context())

    def test_a_timeout_without_a_wait_is_told(self, group: FakeGroup, capsys: pytest.CaptureFixture[str]) -> None:
        job_operator(timeout=5).execute(context())
        assert "timeout: only limits a wait" in capsys.readouterr().out

    def test_what_a_template_made_wrong_is_refused_when_the_task_runs(self, group: FakeGroup) -> None:
        with DAG("d"):
            operator = job_operator(job="{{ name }}", max_tasks="{{ number }}", config={"x": "{{ number }}"})
        rendered: Any = {"name": "a b", "number": 3}
        operator.render_template_fields(rendered)
        with pytest.raises(AirflowFailException, match=r"^job: "):
            operator.execute(context())
        operator.job = "good"
        operator.execute(context())
        assert (group.submitted[0].max_tasks, group.submitted[0].config) == (3, {"x": "3"})

    def test_names_of_digits_stay_names_where_templates_are_rendered_as_native_objects(self, group: FakeGroup) -> None:
        with DAG("d", render_template_as_native_obj=True):
            operator = job_operator(group="{{ day }}", job="{{ day }}", run_key="{{ day }}", config="{{ {'a': [1]} }}")
        rendered: Any = {"day": "20260101"}
        operator.render_template_fields(rendered)
        operator.execute(context())
        (definition,) = group.submitted
        assert (definition.name, definition.run_key, definition.config) == ("20260101", "20260101", {"a": [1]})

    def test_removing(self, group: FakeGroup) -> None:
        assert RemoveSparkJobOperator(task_id="t", group="g", job="job").execute(context()) == {
            "job": "job",
            "removed": True,
        }
        assert group.removed == [("job", "dag.task")]
        with pytest.raises(ValueError, match=r"^job: "):
            RemoveSparkJobOperator(task_id="t", group="g", job="a/b")

    def test_having_failed_tasks_tried_again(self, group: FakeGroup) -> None:
        def retry(**parameters: Any) -> RetrySparkJobOperator:
            return RetrySparkJobOperator(**{"task_id": "t", "group": "g", "job": "job", **parameters})

        with structlog.testing.capture_logs() as lines:
            assert retry().execute(context()) == {"job": "job", "retried": ["job:1"]}
        assert "Group g: 1 failed task of job job is tried again: job:1" in [line["event"] for line in lines]
        retry(tasks=[1, "2", -1]).execute(context())
        assert group.retried == [("job", None), ("job", {1, 2, -1})]
        for wrong in ("1", [-2], ["one"], 3):
            with pytest.raises(ValueError, match=r"^tasks: "):
                retry(tasks=wrong)


def test_kinds_are_those_of_the_records() -> None:
    assert {kind.value for kind in TaskKind} == {"batch", "streaming"}
