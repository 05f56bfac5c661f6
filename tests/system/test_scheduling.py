"""Events of groups start DAGs of a real Airflow."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow_group import EXAMPLE_GROUP, Group
from fleet import Fleet
from metadata import stored
from sqlalchemy import select
from waiting import slow_ms

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskFailure, TaskKind, TaskState, TaskStatus, TopicNames
from airflow_provider.triggers.asset_watchers.bookmarks import Bookmark
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApi


def asset_events(airflow: LocalAirflow, asset: str) -> list[dict[str, Any]]:
    """The asset's events, the oldest first, from Airflow's database: its API does not answer while a run for one of
    them is queued.
    """
    of_asset = AssetEvent.asset_id == select(AssetModel.id).where(AssetModel.name == asset).scalar_subquery()
    extras = stored(airflow, select(AssetEvent.extra).where(of_asset).order_by(AssetEvent.id))
    return [event for extra in extras for event in extra["payload"]["events"]]


def told(api: AirflowApi, dag_id: str, task_id: str) -> list[Any]:
    """The return values of the DAG's successful runs."""
    runs = api.request("GET", f"/dags/{quote(dag_id)}/dagRuns", params={"limit": 100})["dag_runs"]
    done = [run["dag_run_id"] for run in runs if run["state"] == "success"]
    return [event for run in done for event in api.xcom(api.task_instance(dag_id, run, task_id)) or ()]


def bookmark(settings: KafkaSettings, group: str, watcher: str) -> int | None:
    """The offset from which the watcher reads on."""

    async def read() -> int | None:
        async with GroupTransport(settings) as transport:
            return await Bookmark(transport, f"{group}.watcher.{watcher}", TopicNames.of(group).events).read()

    return asyncio.run(read())


@pytest.mark.side_by_side
def test_a_job_that_ends_and_a_worker_that_is_lost_start_the_example_dags(
    airflow: LocalAirflow, group: Group, outside: Callable[..., Fleet]
) -> None:
    api, group.name = airflow.api, f"{EXAMPLE_GROUP}.on_events"
    for dag_id in ("example_on_trouble", "example_after_job"):
        api.wait_for_dag(dag_id)
        api.unpause(dag_id)
    api.look_at_file(dag_id)  # which has both
    workers = outside(group, "--max-delay-ms", "0")
    workers.start("stays")
    workers.start("goes", "--session-timeout-ms", slow_ms(6_000))
    group.wait_for_members("goes", "stays")
    for watcher in ("troubles", "counted"):
        api.wait_until(
            lambda: bookmark(workers.settings, group.name, watcher),  # noqa: B023
            what=lambda: f"the watcher {watcher} has not begun",  # noqa: B023
        )
    group.submit("count", tasks=3, entry_point="jobs:Nap", kind=TaskKind.BATCH, seconds=0.2)
    workers.kill("goes")
    api.wait_until(lambda: told(api, "example_after_job", "use_it") or None, what=lambda: "no run has ended")
    (lost,) = api.wait_until(lambda: told(api, "example_on_trouble", "tell") or None, what=lambda: "no run has ended")
    assert (lost["event"], lost["group"], lost["worker"]) == ("worker_lost", group.name, "goes")
    assert lost["members"] == ["stays"]
    (finished,) = asset_events(airflow, "counted")
    assert (finished["event"], finished["job"], finished["tasks"]) == ("job_finished", "count", 3)


def log_of(airflow: LocalAirflow, component: str) -> str:
    return (airflow.home / "logs" / f"{component}.log").read_text()


@contextmanager
def failing(broker: LocalBroker, group: str, told: list[str]) -> Iterator[None]:
    """Record failures of tasks one after the other, as a worker would; ``told`` collects them."""
    settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="test")
    ended = threading.Event()

    async def fail_again_and_again() -> None:
        async with shared_topics(settings, group, WORKER) as topics:
            while not ended.is_set():
                now_ms = int(time.time() * 1000)
                status = TaskStatus(
                    task=TaskId("job", len(told)),
                    state=TaskState.FAILED,
                    epoch=Epoch(1),
                    worker=WorkerId("w1"),
                    finished_at_ms=now_ms,
                    error=TaskFailure.of("it is full"),
                )
                await topics.publish_task(status)
                told.append(f"{group} {status.task}")
                await asyncio.sleep(0.5)

    thread = threading.Thread(target=lambda: asyncio.run(fail_again_and_again()))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.thorough
def test_no_event_is_lost_or_repeated_when_one_of_two_triggerers_dies(
    airflow: LocalAirflow, broker: LocalBroker
) -> None:
    """Tasks fail all the time, while the other triggerer takes over the watchers."""
    api = airflow.api
    airflow.start_triggerer()
    api.wait_for_dag("watched")
    api.unpause("watched")
    api.look_at_file("watched")
    groups = [f"{EXAMPLE_GROUP}.watched_{number}" for number in (1, 2)]
    triggerers = [name for name in airflow.processes if name.startswith("triggerer")]
    failed: dict[str, list[str]] = {group: [] for group in groups}

    def events() -> list[str]:
        return [
            f"{event['group']} {event['job']}:{event['task']}"
            for event in (*asset_events(airflow, "watched_1"), *asset_events(airflow, "watched_2"))
        ]

    with failing(broker, groups[0], failed[groups[0]]), failing(broker, groups[1], failed[groups[1]]):
        for group in groups:
            api.wait_until(
                lambda: [event for event in events() if event.startswith(group)] or None,  # noqa: B023
                what=lambda: f"no event of {group}",  # noqa: B023
            )
        (watching, *_) = (name for name in triggerers if f"group {groups[0]} begins" in log_of(airflow, name))
        airflow.kill_triggerer(watching)
        known = len(events())
        api.wait_until(lambda: len(events()) > known + 4 or None, what=lambda: "nobody took over")
    everything = Counter(event for group in groups for event in failed[group])
    first_told = {group: min(i for i, each in enumerate(failed[group]) if each in set(events())) for group in groups}
    expected = {event for group in groups for event in failed[group][first_told[group] :]}

    def runs() -> list[str]:
        return [f"{event['group']} {event['job']}:{event['task']}" for event in told(api, "watched", "told")]

    api.wait_until(
        lambda: set(runs()) >= expected or None,
        what=lambda: f"lost: {sorted(expected - set(runs()))}, told: {Counter(events())}",
    )
    assert set(everything.values()) == {1}
    assert Counter(runs()) == Counter(expected), "each once"
    again = {event: times for event, times in Counter(events()).items() if times > 1}
    assert set(again.values()) <= {2}, "at most the events of the second before it died"
