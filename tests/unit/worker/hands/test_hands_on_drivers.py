"""Drivers on a cluster, as a triggerer watches them, and as people and the last worker end them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from executor_bench import A0, ME
from fake_resource_manager import FakeResourceManager, resource_manager
from stand_ins import MemoryTopics
from waiting import eventually

from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.spark.submit.driver_handle import tag_of
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.state.views.orphans import Orphan
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands.end_orphan_queries import end_all, end_detached_queries
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.servers import no_token
from airflow_provider.worker.hands.watching_hands import WatchesInTriggerer, what_it_lacks
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.settings import WorkerSettings

APP = "application_1700000000000_0000"
TAG: Final = tag_of(f"/g/{A0.job}/0", "etl")
HANDLE: Final[Mapping[str, Any]] = {
    "cluster": "yarn",
    "tag": TAG,
    "since_ms": 0,
    "result": {"applications": ["etl"]},
}


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeResourceManager]:
    """Of the YARN of this process, on which a driver runs."""
    with resource_manager(tmp_path / "submitted") as running:
        address = f"<name>yarn.resourcemanager.webapp.address</name><value>{running.address}</value>"
        (tmp_path / "yarn-site.xml").write_text(f"<configuration><property>{address}</property></configuration>")
        (running.folder / "0").write_text(f"spark.yarn.tags={TAG}")
        monkeypatch.delenv("YARN_CONF_DIR", raising=False)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        yield running


async def submitted(handle: Mapping[str, Any] = HANDLE) -> MemoryTopics:
    """What is written of it."""
    topics = MemoryTopics()
    job = JobDefinition(name=A0.job, entry_point="m:f", max_tasks=1)
    await topics.submit(job)
    plan = PlanRecord.of(job, [{}], planned_by=ME, at_ms=0)
    await topics.publish_plan(plan)
    work = topics.jobs.work_of(A0)
    assert work is not None
    await topics.publish_task(
        TaskStatus(
            task=A0,
            state=TaskState.RUNNING,
            epoch=Epoch(1),
            worker=ME,
            fingerprint=work.fingerprint,
            started_at_ms=1,
            handle=dict(handle),
        )
    )
    return topics


def hands_of_triggerer(topics: MemoryTopics, masters: tuple[str, ...] = ()) -> TaskExecutor:
    place = WatchesInTriggerer(
        lambda: 0.0, server="", token_of=no_token, tell_every_s=30.0, max_spark_deaths=3, masters=masters
    )
    settings = WorkerSettings(member=MemberSettings(group_id="g", worker=ME))
    hands = place.make_hands(settings, topics)(
        lambda _tasks: None, lambda _tasks: None, lambda: None, WorkerLease(lambda: None)
    )
    assert isinstance(hands, TaskExecutor)
    hands.take(frozenset({A0}), Epoch(2))
    return hands


async def no_server(_handle: QueryHandle) -> ConnectSettings:
    raise AssertionError("a driver has no server")


async def test_a_triggerer_watches_it_to_its_end(manager: FakeResourceManager) -> None:
    topics = await submitted()
    hands = hands_of_triggerer(topics)
    await eventually(lambda: topics.status.tasks[A0].epoch == 2, "it is adopted")
    assert hands.running == {A0}
    assert not hands.attached
    assert not hands.done
    manager.ends[APP] = ("FINISHED", "SUCCEEDED")
    await eventually(lambda: topics.status.tasks[A0].state is TaskState.FINISHED)
    assert topics.status.tasks[A0].result["applications"] == ["etl"]
    assert manager.kills == []
    await hands.close()


async def test_a_triggerer_kills_it_if_its_job_is_removed(manager: FakeResourceManager) -> None:
    topics = await submitted()
    hands = hands_of_triggerer(topics)
    await eventually(lambda: topics.status.tasks[A0].epoch == 2, "it is adopted")
    await topics.remove(A0.job, by="me")
    hands.refresh()
    await eventually(lambda: not hands.running)
    assert [app for app, _user in manager.kills] == [APP]
    await hands.close()


async def test_a_triggerer_without_a_configuration_of_the_cluster_leaves_it_to_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    topics = await submitted()
    hands = hands_of_triggerer(topics)
    await eventually(lambda: hands.done)
    assert "HADOOP_CONF_DIR: it is not set" in await what_it_lacks(topics.status, ME)
    assert topics.status.tasks[A0].state is TaskState.RUNNING, "nothing fails"
    await hands.close()


async def test_people_may_have_it_killed(manager: FakeResourceManager) -> None:
    topics = await submitted()
    assert await what_it_lacks(topics.status, ME) == ""
    orphan = Orphan(status=topics.status.tasks[A0], label="a:0", why="the group has no workers")
    assert await end_all([orphan], topics, no_server) == [(orphan, "")]
    assert [app for app, _user in manager.kills] == [APP]
    assert topics.status.tasks[A0].state is TaskState.STOPPED


async def test_people_have_nothing_killed_that_runs_for_another_task(manager: FakeResourceManager) -> None:
    topics = await submitted()
    forged = replaced(topics.status.tasks[A0], task=TaskId(A0.job, 1))
    orphan = Orphan(status=forged, label="a:1", why="the group has no workers")
    ((_orphan, why),) = await end_all([orphan], topics, no_server)
    assert why == "not a handle of this task's driver: its tag is that of other work"
    assert manager.kills == []


async def test_it_goes_on_when_the_last_worker_leaves(manager: FakeResourceManager) -> None:
    topics = await submitted()
    await end_detached_queries(topics, no_server, nothing_secret)
    await asyncio.sleep(0)
    assert (topics.status.tasks[A0].state, manager.kills) == (TaskState.RUNNING, [])
