"""The sensors: deferred or poking, they say the same."""

from __future__ import annotations

import argparse
import re
import shlex
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, PokeReturnValue
from airflow_values import URL, context, group_record, group_snapshot, job, jobs_snapshot, status_snapshot

from airflow_provider.cli.job_commands import jobs as jobs_command
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    TaskDeferred,
)
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.topics.errors import BrokerAwayError, RefusedError, TopicRightsError
from airflow_provider.sensors.assignment_epoch import AssignmentEpochSensor
from airflow_provider.sensors.base import SparkGroupSensor
from airflow_provider.sensors.job import JobSensor
from airflow_provider.state.records import Removal, TaskState
from airflow_provider.state.reports import standing
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.conditions import EpochCondition
from airflow_provider.triggers.group import GroupTrigger, given_up


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What topics and coordinator say from now on; empty: there are no topics."""
    now: list[Any] = []
    monkeypatch.setattr(SparkGroupHook, "look_now", lambda _hook, _group, read: read(*now) if now else None)
    return now


def epochs(**parameters: Any) -> AssignmentEpochSensor:
    return AssignmentEpochSensor(task_id="t", group="g", **parameters)


def jobs(**parameters: Any) -> JobSensor:
    return JobSensor(task_id="t", group="g", **{"job": "job", "run_key": "r1", **parameters})


@pytest.mark.parametrize("sensor", [epochs(at_least=1), jobs()], ids=["epochs", "jobs"])
def test_where_there_is_no_group_yet_a_sensor_waits(sensor: SparkGroupSensor, topics: list[Any]) -> None:
    assert not sensor.poke(context()).is_done


def test_its_log_tells_what_a_sensor_waits_for(topics: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    jobs().poke(context())
    known = jobs_snapshot(job(run_key="other"), tasks=2)
    topics[:] = known, status_snapshot(known, "job", TaskState.FINISHED, TaskState.RUNNING)
    jobs().poke(context())
    jobs(run_key=None).poke(context())
    jobs(job="another").poke(context())
    epochs(at_least=2).poke(context())
    topics[:] = known, group_snapshot(2, applied=1)
    epochs(at_least=2, converged=True).poke(context())
    logged = capsys.readouterr().out
    for line in (
        "Group g has no topics yet: no job was submitted, and no worker has started",
        "Group g: waiting for job 'job' of run 'r1' to be finished: the group has that job of run 'other'",
        "Group g: waiting for job 'job' to be finished: 1 of 2 finished, 1 running (longest: job:1), 0 failed",
        "Group g: waiting for job 'another' of run 'r1' to be finished: the group has no such job",
        "Group g: waiting for epoch 2 or a later one: the group has had no rebalance yet",
        "Group g: waiting for epoch 2 or a later one, converged: the group is at epoch 2, not converged",
    ):
        assert line in logged


def test_poking_until_the_epoch_is_reached(topics: list[Any]) -> None:
    sensor = epochs(after="4")
    topics[:] = JobsSnapshot(), group_snapshot(4)
    assert not sensor.poke(context()).is_done
    topics[:] = JobsSnapshot(), group_snapshot(5)
    answer = sensor.poke(context())
    assert isinstance(answer, PokeReturnValue)
    assert answer.is_done
    assert answer.xcom_value is not None
    assert answer.xcom_value["epoch"] == 5
    assert sensor.group_link == URL, "to the group's leader"


def test_a_job_without_a_worker_does_not_count_as_running(topics: list[Any]) -> None:
    known = jobs_snapshot(job(run_key="r1"), tasks=1)
    group = status_snapshot(known, "job", TaskState.RUNNING, record=group_record(2), worker="w1")
    sensor = jobs(state="running")
    topics[:] = known, group.without_members()
    assert not sensor.poke(context()).is_done, "the coordinator says so"
    topics[:] = known, group
    assert sensor.poke(context()).is_done


def test_a_deferred_sensor_says_the_same_as_a_poking_one(topics: list[Any]) -> None:
    sensor = epochs(at_least=2, converged=True, deferrable=True, timeout=90, kafka_conn_id="broker")
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context())
    trigger = deferred.value.trigger
    assert isinstance(trigger, GroupTrigger)
    assert (trigger.kafka_conn_id, trigger.group) == ("broker", "g")
    assert trigger.condition == EpochCondition(at_least=2, converged=True)
    assert deferred.value.timeout == timedelta(seconds=90)

    topics[:] = JobsSnapshot(), group_snapshot(2)
    answer = trigger.condition.answer(*topics)
    assert answer is not None
    event = {**answer.to_json(), "link": URL, "carried": {}}
    resumed = getattr(sensor, deferred.value.method_name)(context(), event=event)
    assert resumed == sensor.poke(context()).xcom_value


def test_what_is_so_already_needs_no_triggerer(topics: list[Any]) -> None:
    sensor = epochs(at_least=2, deferrable=True)
    topics[:] = JobsSnapshot(), group_snapshot(2)
    assert sensor.execute(context())["epoch"] == 2
    assert sensor.group_link == URL


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_job_that_is_removed_since_the_run_began_fails_its_sensor(topics: list[Any], deferrable: bool) -> None:
    began = datetime(2026, 1, 1, tzinfo=timezone.utc)
    at_ms = int(began.timestamp() * 1000) + 60_000
    removal = Removal(by="ann@here", at_ms=at_ms, run_key="r1", bounded=True)
    values: Any = {**context(), "dag_run": SimpleNamespace(start_date=began)}
    topics[:] = JobsSnapshot(), StatusSnapshot()
    if deferrable:
        with pytest.raises(TaskDeferred) as deferred:
            jobs(deferrable=True).execute(values)
        answer = deferred.value.trigger.condition.answer(JobsSnapshot(removals={"job": removal}), StatusSnapshot())
        assert answer is not None
        assert answer.problem is not None
    topics[:] = JobsSnapshot(removals={"job": removal}), StatusSnapshot()
    with pytest.raises(AirflowFailException, match="'job' was removed by ann@here at 2026-01-01 00:01:00 UTC"):
        jobs(deferrable=deferrable).execute(values)


@pytest.mark.parametrize("deferrable", [True, False])
def test_soft_fail_skips(topics: list[Any], deferrable: bool) -> None:
    known = jobs_snapshot(job(), tasks=1)
    topics[:] = known, status_snapshot(known, "job", TaskState.FAILED)
    with pytest.raises(AirflowException) as skipped:
        jobs(deferrable=deferrable, soft_fail=True).execute(context())
    assert type(skipped.value).__name__ == "AirflowSkipException"


class Looks:
    """What the first looks at the group's topics meet, one after the other; later ones find that its job is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *met: Exception | None) -> None:
        self.met = list(met)
        known = jobs_snapshot(job(), tasks=1)
        self.done = known, status_snapshot(known, "job", TaskState.FINISHED)
        monkeypatch.setattr(SparkGroupHook, "look_now", lambda _hook, _group, read: self._look(read))

    def _look(self, read: Any) -> Any:
        met = self.met.pop(0) if self.met else self
        if isinstance(met, Exception):
            raise met
        return None if met is None else read(*self.done)


AWAY = BrokerAwayError("broker:9092", "reading", "refused")
NOT_DEFINED = SettingsError("kafka_default", "", "is not defined")
LASTING = [NOT_DEFINED, RefusedError("broker:9092", "no", "check"), TopicRightsError("g.status", "READ")]


class TestPatience:
    """What a sensor waits out, and what ends it: the same in all modes."""

    @pytest.mark.parametrize("deferrable", [True, False])
    def test_a_broker_that_is_away_is_waited_for(self, monkeypatch: pytest.MonkeyPatch, deferrable: bool) -> None:
        Looks(monkeypatch, AWAY, AWAY)
        sensor = jobs(deferrable=deferrable, poke_interval=0)
        if deferrable:
            with pytest.raises(TaskDeferred):
                sensor.execute(context())
        else:
            assert sensor.execute(context())["state"] == "finished"

    @pytest.mark.parametrize("soft_fail", [True, False])
    def test_a_wait_for_a_broker_ends_with_the_sensors_time(
        self, monkeypatch: pytest.MonkeyPatch, soft_fail: bool
    ) -> None:
        Looks(monkeypatch, *[AWAY] * 9)
        with pytest.raises(AirflowException) as late:
            jobs(poke_interval=0, timeout=0, soft_fail=soft_fail).execute(context())
        assert type(late.value).__name__ == ("AirflowSkipException" if soft_fail else "AirflowSensorTimeout")

    @pytest.mark.parametrize("lasting", LASTING, ids=["connection", "credentials", "rights"])
    @pytest.mark.parametrize("soft_fail", [True, False])
    @pytest.mark.parametrize("deferrable", [True, False])
    def test_what_lasts_fails_it_at_once_and_without_retries(
        self, monkeypatch: pytest.MonkeyPatch, lasting: Exception, soft_fail: bool, deferrable: bool
    ) -> None:
        Looks(monkeypatch, lasting)
        with pytest.raises(AirflowException) as failed:
            jobs(deferrable=deferrable, soft_fail=soft_fail).execute(context())
        assert type(failed.value).__name__ == ("AirflowSkipException" if soft_fail else "AirflowFailException")
        if not soft_fail:
            assert str(failed.value) == str(lasting)

    @pytest.mark.parametrize("lasting", LASTING[1:], ids=["credentials", "rights"])
    @pytest.mark.parametrize("deferred", [True, False])
    def test_what_lasts_fails_it_while_it_waits_too(
        self, monkeypatch: pytest.MonkeyPatch, lasting: Exception, deferred: bool
    ) -> None:
        Looks(monkeypatch, None, lasting)
        sensor = jobs(deferrable=deferred, poke_interval=0)
        if deferred:
            with pytest.raises(TaskDeferred):
                sensor.execute(context())
            arguments = {"event": {**given_up(lasting, ""), "carried": {}}}
            with pytest.raises(AirflowFailException, match=re.escape(str(lasting))):
                sensor.resume_execution("execute_complete", arguments, context())
        else:
            with pytest.raises(AirflowFailException, match=re.escape(str(lasting))):
                sensor.execute(context())

    def test_a_connection_that_is_deleted_while_it_waits_is_waited_for(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(standing, "SAY_EVERY_S", 0)
        Looks(monkeypatch, None, NOT_DEFINED)
        assert jobs(poke_interval=0).execute(context())["state"] == "finished"
        assert "Waiting until connection 'kafka_default' can be used" in capsys.readouterr().out

    def test_in_reschedule_mode_another_process_has_used_the_connection_before(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Looks(monkeypatch, NOT_DEFINED)
        airflow = context()
        airflow["ti"].get_first_reschedule_date = lambda _context: datetime.now(timezone.utc)
        with pytest.raises(AirflowException) as later:
            jobs(mode="reschedule").execute(airflow)
        assert type(later.value).__name__ == "AirflowRescheduleException"


def test_a_failed_job_fails_its_sensor_without_retries(topics: list[Any]) -> None:
    known = jobs_snapshot(job(), tasks=2)
    topics[:] = known, status_snapshot(known, "job", TaskState.FAILED, TaskState.FINISHED)
    with pytest.raises(AirflowFailException, match="job:0: no luck with 0") as failed:
        jobs().poke(context())
    assert str(failed.value).startswith("group 'g': job 'job' has failed:\n")
    *_, remedy = str(failed.value).split("\n")
    command = remedy.removeprefix("To try the failed tasks again: cospark ").partition(";")[0]
    parser = argparse.ArgumentParser()
    jobs_command.add_arguments(parser)
    asked = parser.parse_args(shlex.split(command.removeprefix("jobs ")))
    assert (asked.action, asked.group, asked.name) == ("retry", "g", "job"), "the command line has that command"
    assert jobs(state="failed").poke(context()).is_done


@pytest.mark.parametrize("deferrable", [False, True])
def test_before_a_failed_job_fails_its_sensor_the_report_is_left_for_whoever_comes_after(
    topics: list[Any], deferrable: bool
) -> None:
    """By a trigger rule: it can see which tasks have succeeded, and with what."""
    known = jobs_snapshot(job(), tasks=2)
    failed = status_snapshot(known, "job", TaskState.FAILED, TaskState.FINISHED)
    topics[:] = known, status_snapshot(known, "job", TaskState.RUNNING) if deferrable else failed
    sensor, airflow = jobs(deferrable=deferrable), context()
    if deferrable:
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute(airflow)
        answer = deferred.value.trigger.condition.answer(known, failed)
        event = {**answer.to_json(), "link": URL, "carried": {}}
        with pytest.raises(AirflowFailException):
            sensor.resume_execution("execute_complete", {"event": event}, airflow)
    else:
        with pytest.raises(AirflowFailException):
            sensor.execute(airflow)
    report = airflow["ti"].pushed["return_value"]
    assert (report["state"], report["results"]) == ("failed", {"1": {"rows": 1}})
    assert report["errors"]["job:0"]["message"] == "no luck with 0"


def test_a_sensor_that_is_to_push_nothing_leaves_no_report(topics: list[Any]) -> None:
    known = jobs_snapshot(job(), tasks=1)
    topics[:] = known, status_snapshot(known, "job", TaskState.FAILED)
    airflow = context()
    with pytest.raises(AirflowFailException):
        jobs(do_xcom_push=False).execute(airflow)
    assert "return_value" not in airflow["ti"].pushed


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_whose_time_is_over_leaves_the_report_too(topics: list[Any], deferrable: bool) -> None:
    known = jobs_snapshot(job(), tasks=2)
    topics[:] = known, status_snapshot(known, "job", TaskState.FINISHED, TaskState.RUNNING)
    sensor, airflow = jobs(deferrable=deferrable, timeout=0, poke_interval=0.001), context()
    resume, resumed = sensor.resume_execution, ("__fail__", {"error": "Trigger timeout"}, airflow)
    with pytest.raises(AirflowSensorTimeout):
        resume(*resumed) if deferrable else sensor.execute(airflow)
    assert airflow["ti"].pushed["return_value"]["results"] == {"0": {"rows": 0}}


def test_a_finished_job_passes_its_results_on(topics: list[Any]) -> None:
    known = jobs_snapshot(job(), tasks=2)
    topics[:] = known, status_snapshot(known, "job", TaskState.FINISHED, TaskState.FINISHED)
    report = jobs().poke(context()).xcom_value
    assert report is not None
    assert report["results"] == {"0": {"rows": 0}, "1": {"rows": 1}}


def test_a_job_that_was_removed_before_the_run_began_may_still_come(topics: list[Any]) -> None:
    began = datetime(2026, 1, 1, tzinfo=timezone.utc)
    removal = Removal(by="ann@here", at_ms=int(began.timestamp() * 1000) - 1, run_key="r1", bounded=True)
    topics[:] = JobsSnapshot(removals={"job": removal}), StatusSnapshot()
    values: Any = {**context(), "dag_run": SimpleNamespace(start_date=began)}
    assert not jobs(run_key=None).poke(values).is_done


def test_by_default_a_job_sensor_waits_for_the_run_of_its_own_dag_run(topics: list[Any]) -> None:
    with DAG("d"):
        sensor = JobSensor(task_id="t", group="g", job="job")
    sensor.render_template_fields({"run_id": "manual__1"})
    assert sensor.condition().run_key == "manual__1"


def test_names_of_digits_stay_names_where_templates_are_rendered_as_native_objects(topics: list[Any]) -> None:
    with DAG("d", render_template_as_native_obj=True):
        sensor = JobSensor(task_id="t", group="{{ run_id }}", job="{{ run_id }}", kafka_conn_id="c")
    sensor.render_template_fields({"run_id": "20260101"})
    condition = sensor.condition()
    assert (condition.job, condition.run_key) == ("20260101", "20260101")
    assert not sensor.poke(context()).is_done


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: epochs(), "at_least, after"),
        (lambda: epochs(at_least=1, after=1), "at_least, after"),
        (lambda: epochs(at_least=0), "at_least"),
        (lambda: epochs(after=-1), "after"),
        (lambda: epochs(after="soon"), "after"),
        (lambda: jobs(job="a/b"), "job"),
        (lambda: jobs(state="tired"), "state"),
        (lambda: AssignmentEpochSensor(task_id="t", group="a b", at_least=1), "group"),
        (lambda: epochs(at_least=1, kafka_conn_id=""), "kafka_conn_id"),
    ],
)
def test_what_is_wrong_is_refused_when_the_dag_is_parsed(make: Any, parameter: str) -> None:
    with pytest.raises(ValueError, match=f"^{parameter}: "):
        make()


def test_what_a_template_made_wrong_is_refused_when_the_task_runs(topics: list[Any]) -> None:
    sensor = epochs(after="{{ ti.xcom_pull(task_ids='x') }}", deferrable=True)
    sensor.after = "None"
    with pytest.raises(AirflowFailException, match=r"^after: 'None' must be a whole number"):
        sensor.execute(context())


def test_a_group_that_has_done_nothing_has_no_link(topics: list[Any]) -> None:
    sensor = jobs()
    topics[:] = JobsSnapshot(), StatusSnapshot()
    sensor.poke(context())
    assert sensor.group_link == ""


def test_a_sensor_comes_back_after_what_airflow_does_to_it_unless_its_dag_says_otherwise() -> None:
    with DAG("d", schedule=None):
        ours = jobs()
    with DAG("e", schedule=None, default_args={"retries": 0}):
        theirs, mapped = jobs(), JobSensor.partial(task_id="m", group="g").expand(job=["a"])
    assert (ours.retries, theirs.retries, mapped.retries) == (3, 0, 0)
