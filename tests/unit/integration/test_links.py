"""The link from a task to its group: while it runs or is deferred it leads to the worker that leads the group now."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import URL, context, group_snapshot, job, jobs_snapshot
from operator_bench import FakeGroup, job_operator
from trigger_bench import FakeTopics, Triggerer, events_of, worker_trigger
from waiting import DEADLINE_S, eventually

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration import linking
from airflow_provider.integration.airflow_api.airflow_names import TaskDeferred
from airflow_provider.integration.linking import FollowedLink, following_leader
from airflow_provider.integration.links import SparkGroupLink, group_link
from airflow_provider.sensors.assignment_epoch import AssignmentEpochSensor
from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.conditions import EpochCondition
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.process_identity import this_process

KEY = SparkGroupLink().xcom_key
OTHER = URL.replace("/w?", "/w2?")


def led(epoch: int, url: str = URL, phase: WorkerPhase = WorkerPhase.STABLE) -> StatusSnapshot:
    """A group whose leader has that page, and is in that phase."""
    status = group_snapshot(epoch)
    leader = replace(status.workers[WorkerId("w1")], url=url, state=phase)
    return replace(status, workers={**status.workers, leader.worker: leader})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "_LOOK_S", 0.005)
    monkeypatch.setattr(linking, "_APART_S", 0.0)


def test_it_leads_to_the_leader_and_never_to_one_that_has_left() -> None:
    assert group_link(StatusSnapshot()) == ""
    assert group_link(led(3)) == URL
    assert group_link(led(3, phase=WorkerPhase.DEFERRED)) == URL
    assert group_link(led(3, phase=WorkerPhase.LEFT)) == "", "the run before, say"
    assert group_link(led(3, url="javascript:alert(1)")) == ""
    assert group_link(led(3, url=URL.replace("airflow.example", "evil.example"))) == "", "anybody may have written it"


def test_it_never_leads_to_a_leader_that_is_seen_to_have_ended() -> None:
    """Killed, it could not say so; until its session is over the group has no other leader."""
    status = led(3)
    for process, link in ((this_process(), URL), ("another host/b+n/1/2", URL), (f"{_place()}/1/0", "")):
        leader = replace(status.workers[WorkerId("w1")], process=process)
        assert group_link(replace(status, workers={leader.worker: leader})) == link


def _place() -> str:
    """Where this process runs, as its record has it."""
    return "/".join(this_process().split("/")[:2])


async def test_it_follows_the_leader_and_is_stored_only_when_it_leads_elsewhere() -> None:
    topics: Any = FakeTopics()
    topics.status = led(3, phase=WorkerPhase.LEFT)
    stored: list[str] = []

    async def push(link: str) -> None:
        stored.append(link)

    async def pushed(url: str) -> None:
        await eventually(lambda: stored[-1] == url)

    async with following_leader(topics, FollowedLink(URL, push)):
        await eventually(lambda: stored == [""])
        for epoch, url in ((4, OTHER), (5, OTHER), (6, URL)):
            topics.status = led(epoch, url)
            await pushed(url)
    assert stored == ["", OTHER, URL]


async def test_what_airflow_does_not_take_is_tried_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    topics: Any = FakeTopics()
    topics.status = led(3)
    tries: list[str] = []

    async def push(link: str) -> None:
        tries.append(link)
        if len(tries) < 3:
            raise RuntimeError("no answer")

    link = FollowedLink("", push)
    async with following_leader(topics, link):
        await eventually(lambda: link.shown == URL)
    assert tries == [URL] * 3
    assert caplog.text.count("The link to the group can't be stored: no answer") == 1


async def test_the_links_of_many_are_stored_one_by_one() -> None:
    topics: Any = FakeTopics()
    topics.status = led(3)
    storing: list[str] = []
    stored: list[str] = []

    async def push(link: str) -> None:
        storing.append(link)
        assert len(storing) == 1
        await asyncio.sleep(0)
        stored.append(storing.pop())

    async with AsyncExitStack() as many:
        for _ in range(100):
            await many.enter_async_context(following_leader(topics, FollowedLink("", push)))
        await eventually(lambda: len(stored) == 100)


@pytest.mark.parametrize("kind", ["sensor", "worker"])
async def test_a_deferred_task_has_the_link_to_the_present_leader(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    triggerer = Triggerer(monkeypatch)

    async def push_xcom(_ti: Any, key: str, value: Any) -> None:
        triggerer.xcoms[key] = value

    monkeypatch.setattr(linking, "push_xcom", push_xcom)
    epochs = EpochCondition(at_least=9).to_json()
    sensor = GroupTrigger(kafka_conn_id="c", group="g", condition=epochs, link=URL)
    trigger: Any = sensor if kind == "sensor" else worker_trigger(link=URL)
    triggerer.topics.now(status=led(3))
    running = triggerer.run(trigger)
    await eventually(lambda: triggerer.topics.listeners)
    triggerer.topics.now(status=led(4, OTHER))
    await eventually(lambda: triggerer.xcoms.get(KEY) == OTHER)
    if kind == "sensor":
        triggerer.topics.now(status=led(9, phase=WorkerPhase.LEFT))
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        assert event.payload["link"] == OTHER, "the last one, where all have left"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await trigger.cleanup()


def test_a_sensor_that_pokes_has_the_link_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [JobsSnapshot(), led(3)]
    monkeypatch.setattr(SparkGroupHook, "look_now", lambda _hook, _group, read: read(*now))
    sensor, airflow = AssignmentEpochSensor(task_id="t", group="g", at_least=9), context()
    for status, link in ((led(3), URL), (led(4, OTHER), OTHER), (led(4, OTHER, WorkerPhase.LEFT), "")):
        now[1] = status
        sensor.poke(airflow)
        assert airflow["ti"].pushed[KEY] == link


def test_an_operator_that_waits_has_it_and_gives_it_to_its_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    group, airflow = FakeGroup(monkeypatch), context()
    group.jobs, group.status = jobs_snapshot(job(), tasks=1), led(3)
    operator = job_operator(wait_for_completion=True, deferrable=True, run_key="r1")
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(airflow)
    assert airflow["ti"].pushed[KEY] == URL
    assert deferred.value.trigger.serialize()[1]["link"] == URL


async def test_events_of_a_trigger_without_a_task_instance_need_no_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    triggerer = Triggerer(monkeypatch)
    triggerer.topics.now(status=led(3))
    trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json())
    assert len(await asyncio.wait_for(events_of(trigger), DEADLINE_S)) == 1
