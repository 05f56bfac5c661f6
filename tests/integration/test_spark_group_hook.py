"""The hook on a real broker: what a DAG can do with a group, and what it gets back."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from waiting import DEADLINE_S

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.one_shot import read_group
from airflow_provider.kafka.topics.errors import BrokerAwayError, TopicTimeoutError
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import ControlAction, JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.state.reports.report import JobReport
from airflow_provider.values.model import Epoch, TaskId, WorkerId


@pytest.fixture
def hook(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> SparkGroupHook:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))
    return SparkGroupHook("broker")


def definition(run_key: str = "r1") -> JobDefinition:
    return JobDefinition(name="job", entry_point="module:Job", max_tasks=2, run_key=run_key)


def test_from_nothing_to_a_job_and_back(hook: SparkGroupHook, group_id: str) -> None:
    assert hook.job_progress(group_id, "job") is None
    assert hook.group_state(group_id) is None
    assert group_id not in hook.groups()

    before_s = time.time()
    first = hook.submit_job(group_id, definition())
    assert first.changed
    assert before_s - 0.001 <= first.definition.submitted_at_ms / 1000 <= time.time()
    assert not hook.submit_job(group_id, definition()).changed, "the same again changes nothing"
    assert hook.submit_job(group_id, definition("r2")).changed
    assert group_id in hook.groups()
    report = hook.job_progress(group_id, "job")
    assert report is not None
    assert report.progress.run_key == "r2"
    assert hook.group_state(group_id) is None, "nobody has joined"

    assert hook.remove_job(group_id, "job")
    assert not hook.remove_job(group_id, "job")
    assert hook.job_progress(group_id, "job") is None
    removal = read_group(hook.get_settings(), group_id).jobs.removals["job"]
    assert (removal.by, removal.run_key) == (user_at_host(), "r2")


def test_failed_tasks_are_tried_again_and_finished_ones_are_not(hook: SparkGroupHook, group_id: str) -> None:
    submitted = hook.submit_job(group_id, definition()).definition
    plan = PlanRecord.of(submitted, [{}, {}], planned_by=WorkerId("w"), at_ms=1)

    async def run() -> None:
        async with GroupTopics(hook.get_settings(), group_id, WORKER) as topics:
            await topics.publish_plan(plan)
            for index, state in enumerate((TaskState.FINISHED, TaskState.FAILED)):
                await topics.publish_task(
                    TaskStatus(
                        task=TaskId("job", index),
                        state=state,
                        epoch=Epoch(3),
                        worker=WorkerId("w"),
                        run_key="r1",
                        fingerprint=plan.fingerprints[index],
                        attempt=2,
                        failures=2,
                    )
                )

    asyncio.run(run())
    before = hook.job_progress(group_id, "job")
    assert before is not None
    assert before.failed
    assert before.progress.complete
    assert hook.retry_failed(group_id, "job") == ["job:1"]
    after = hook.job_progress(group_id, "job")
    assert after is not None
    assert after.progress.counts == {TaskState.FINISHED: 1, TaskState.UNASSIGNED: 1}
    assert not after.progress.complete, "it is configured again"
    assert hook.retry_failed(group_id, "job") == []
    assert hook.retry_failed(group_id, "no such job") == []


def test_waiting_ends_with_the_change(hook: SparkGroupHook, group_id: str) -> None:
    threading.Timer(0.5, hook.submit_job, (group_id, definition())).start()
    report = hook.wait_for(group_id, lambda jobs, status: JobReport.of("job", jobs, status), timeout_s=DEADLINE_S)
    assert report.progress.job == "job"
    with pytest.raises(TopicTimeoutError):
        hook.wait_for(group_id, lambda jobs, status: JobReport.of("other", jobs, status), timeout_s=0.1)


def test_workers_are_asked_to_go(hook: SparkGroupHook, group_id: str) -> None:
    hook.submit_job(group_id, definition())
    assert hook.stop_workers(group_id) == [], "there are none"
    assert hook.stop_workers(group_id, ["w2", "w1"]) == ["w1", "w2"]
    controls = read_group(hook.get_settings(), group_id).jobs.controls
    assert {worker: control.action for worker, control in controls.items()} == {
        "w1": ControlAction.STOP,
        "w2": ControlAction.STOP,
    }


def test_a_mistyped_group_is_left_without_topics(hook: SparkGroupHook, group_id: str) -> None:
    assert not hook.remove_job(group_id, "job")
    assert hook.retry_failed(group_id, "job") == []
    assert hook.stop_workers(group_id, ["w1"]) == []
    with pytest.raises(TopicTimeoutError, match=f"'{group_id}.jobs' does not exist"):
        hook.wait_for(group_id, lambda _jobs, _status: True, timeout_s=1)
    assert group_id not in hook.groups()


def test_a_broker_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "127.0.0.1:1"}
    monkeypatch.setenv("AIRFLOW_CONN_NOBODY", json.dumps({"conn_type": "kafka", "extra": extra}))
    with pytest.raises(BrokerAwayError, match=r"127\.0\.0\.1:1"):
        SparkGroupHook("nobody").groups(timeout_s=1)
