"""The way of metric values to Airflow's stats: no event loop waits for it, and each is sent once."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow_values import group_record, job, worker_status
from stand_ins import MemoryTopics
from waiting import eventually
from worker_life import GONE, ME, Life

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.integration.lineage_events.outlet import Outlet
from airflow_provider.integration.stats import airflow_stats
from airflow_provider.integration.stats.airflow_stats import (
    METRICS,
    Destination,
    Names,
    Sender,
    names_wanted,
    of_process,
    of_task,
)
from airflow_provider.integration.stats.metering import Meter, observer_of
from airflow_provider.integration.stats.stats_without_airflow import may_be_on
from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.declared import Metric
from airflow_provider.state.metrics.event_counts import Course
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.records import TaskKind, WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.reporting.observer import UNOBSERVED

W1, W2 = WorkerId("w1"), WorkerId("w2")
MOVED = Sample(metric=declared.MOVED, value=2, tags=("g", "etl", "balance"))
TIME = Sample(metric=declared.REBALANCE_TIME, value=1_500, tags=("g",))
MEMBERS = Sample(metric=declared.MEMBERS, value=3, tags=("g",))
TAGS = {"group": "g", "job": "etl", "reason": "balance"}


class FakeStats:
    """What Airflow's stats hear; their signatures are those of Airflow's own."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, float, dict[str, Any] | None]] = []

    def incr(
        self, stat: str, count: int | None = None, rate: float | None = None, *, tags: dict[str, Any] | None = None
    ) -> None:
        assert isinstance(count, int)
        self.heard.append(("incr", stat, count, tags))

    def gauge(
        self,
        stat: str,
        value: float,
        rate: float | None = None,
        delta: bool | None = None,
        *,
        tags: dict[str, Any] | None = None,
    ) -> None:
        self.heard.append(("gauge", stat, value, tags))

    def timing(self, stat: str, dt: float, *, tags: dict[str, Any] | None = None) -> None:
        self.heard.append(("timing", stat, dt, tags))


@pytest.mark.parametrize(
    ("names", "heard"),
    [
        (Names.TAGGED, [("incr", "cospark.tasks_moved", 2, TAGS)]),
        (Names.FLAT, [("incr", "cospark.tasks_moved.g.etl.balance", 2, None)]),
        (
            Names.BOTH,
            [("incr", "cospark.tasks_moved", 2, TAGS), ("incr", "cospark.tasks_moved.g.etl.balance", 2, None)],
        ),
    ],
)
def test_a_value_is_sent_under_the_names_that_are_wanted(names: Names, heard: list[Any]) -> None:
    stats = FakeStats()
    Sender(lambda: stats, names)(MOVED)
    assert stats.heard == heard


def test_each_kind_has_its_call_and_the_stats_are_set_up_once() -> None:
    stats, set_up = FakeStats(), []

    def look() -> FakeStats:
        set_up.append(1)
        return stats

    sender = Sender(look, Names.TAGGED)
    assert not set_up, "nothing is set up before there is something to say"
    for sample in (MEMBERS, TIME):
        sender(sample)
    assert [call[:3] for call in stats.heard] == [
        ("gauge", "cospark.group.members", 3),
        ("timing", "cospark.rebalance_time", 1_500),
    ]
    assert set_up == [1]


@pytest.fixture
def own_destination() -> Iterator[None]:
    """What this process has set up is of this test."""
    airflow_stats._OPEN.own.destination = None
    yield
    airflow_stats._OPEN.own.destination = None


def configure(monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name.upper()}", value)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, None),
        ({"statsd_on": "True"}, Names.FLAT),
        ({"statsd_on": "True", "statsd_influxdb_enabled": "True"}, Names.BOTH),
        ({"statsd_on": "True", "statsd_influxdb_enabled": "True", "legacy_names_on": "False"}, Names.TAGGED),
        ({"otel_on": "True"}, Names.BOTH),
        ({"otel_on": "True", "statsd_on": "True"}, Names.FLAT),
        ({"statsd_datadog_enabled": "True", "legacy_names_on": "False"}, Names.TAGGED),
        ({"statsd_datadog_enabled": "True", "statsd_datadog_metrics_tags": "False"}, Names.FLAT),
    ],
)
def test_airflows_config_says_which_names_are_wanted(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], names: Names | None
) -> None:
    configure(monkeypatch, **options)
    assert names_wanted() is names


@pytest.mark.usefixtures("own_destination")
def test_without_metrics_there_is_no_witness_and_with_them_one_way_out_for_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert of_task() is None
    assert observer_of(Life().member_settings, of_process()) is UNOBSERVED
    configure(monkeypatch, statsd_on="True")
    monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__METRICS_INTERVAL", "2.5")
    destination = of_process()
    assert destination is not None
    assert destination.interval_s == 2.5
    assert of_process() is of_task() is destination
    assert isinstance(observer_of(Life().member_settings, destination), Meter)


@pytest.mark.parametrize(
    ("config", "environ", "asked"),
    [
        (None, {}, False),
        ("[metrics]\nstatsd_on = False\notel_on =false\nstatsd_port = 8125\n", {}, False),
        ("[core]\nstatsd_on = True\n", {}, False),
        ("[metrics]\nstatsd_on = True\n", {}, True),
        ("[metrics]\notel_on_cmd = cat /run/otel\n", {}, True),
        ("no config at all", {}, True),
        (None, {"AIRFLOW__METRICS__OTEL_ON": "True"}, True),
    ],
)
def test_a_worker_without_airflow_imports_it_only_where_something_is_configured(
    tmp_path: Path, config: str | None, environ: dict[str, str], asked: bool
) -> None:
    if config is not None:
        (tmp_path / "airflow.cfg").write_text(config)
    assert may_be_on({"AIRFLOW_HOME": str(tmp_path), **environ}) is asked
    assert may_be_on({"AIRFLOW_CONFIG": str(tmp_path / "airflow.cfg"), **environ}) is asked


def test_where_airflow_has_not_set_its_stats_up_that_is_done_by_its_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here nobody has: it would be the process of a task that does."""
    pytest.importorskip("airflow.sdk.observability.stats", reason="it does so by itself before Airflow 3.2")
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.sdk.observability.metrics import stats_utils

    stats, heard = airflow_stats._stats(), FakeStats()

    @functools.wraps(stats_utils.get_stats_factory)
    def named(*args: object) -> Callable[[], FakeStats]:
        inspect.signature(named).bind(*args)
        return lambda: heard

    monkeypatch.setattr(stats_utils, "get_stats_factory", named)
    nowhere: dict[str, Any] = {"factory": NoStatsLogger}
    if "export_legacy_names" in inspect.signature(stats.initialize).parameters:
        nowhere["export_legacy_names"] = False
    stats.initialize(**nowhere)
    try:
        Sender(airflow_stats._stats, Names.FLAT)(MEMBERS)
        assert not heard.heard
        Sender(airflow_stats._stats_set_up, Names.FLAT)(MEMBERS)
        assert [call[1] for call in heard.heard] == ["cospark.group.members.g"]
    finally:
        stats.initialize(**nowhere)


async def test_a_fault_in_what_is_counted_does_not_end_the_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(self: Course, status: StatusSnapshot, group: str, held: Collection[WorkerId], now_ms: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Course, "until", fails)
    async with Heard(interval_s=60).meter(W1).watching(await grouped()):
        pass
    assert "The metrics of group 'g' can't be worked out" in caplog.text


async def test_nobody_waits_for_a_server_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    hangs, heard = threading.Event(), list[Sample]()

    def hand_on(sample: Sample) -> None:
        hangs.wait()
        heard.append(sample)

    outlet = Outlet(hand_on, METRICS, most_waiting=3)
    try:
        outlet.send([MEMBERS] * 20)
        assert caplog.text.count("Metrics are dropped") == 1
    finally:
        hangs.set()
    await eventually(lambda: len(heard) >= 3, "what had a place was handed on")
    heard.clear()
    outlet.send([TIME])
    await outlet.settle()
    assert heard[-1:] == [TIME], "the next ones come again"


async def test_what_cannot_be_sent_is_said_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard = list[Sample]()

    def hand_on(sample: Sample) -> None:
        heard.append(sample)
        raise OSError("no route to host")

    outlet = Outlet(hand_on, METRICS)
    outlet.send([MEMBERS, TIME])
    await outlet.settle()
    assert heard == [MEMBERS, TIME]
    assert caplog.text.count("A metric can't be sent: no route to host") == 1


class Heard:
    """What a process sends, without a thread between."""

    def __init__(self, interval_s: float = 0.01) -> None:
        self.samples = list[Sample]()
        self.destination = Destination(outlet=Outlet(self.samples.append, METRICS), interval_s=interval_s)

    def meter(self, worker: WorkerId) -> Meter:
        return Meter("g", worker, self.destination)

    def of(self, metric: Metric) -> list[float]:
        return [sample.value for sample in self.samples if sample.metric is metric]


async def grouped() -> MemoryTopics:
    """A group of w1, which leads, and w2."""
    topics = MemoryTopics()
    await topics.publish_group(group_record(5))
    for worker in (W1, W2):
        await topics.publish_worker(worker_status(worker, 5))
    return topics


async def test_the_process_of_the_leader_says_how_the_group_is_and_no_other() -> None:
    topics, one, other = await grouped(), Heard(), Heard()
    async with one.meter(W1).watching(topics):
        await eventually(lambda: one.of(declared.MEMBERS))
    async with other.meter(W2).watching(topics):
        await topics.publish_worker(replace(worker_status(W1, 6)))
        assert not other.samples
        await topics.publish_worker(replace(worker_status(W1, 7), state=WorkerPhase.LEFT))
        await eventually(lambda: other.of(declared.MEMBERS)[-1:] == [1], "it says it when the leader has left")


async def test_many_workers_of_a_group_in_one_process_look_at_it_once() -> None:
    topics, heard = await grouped(), Heard(interval_s=60)
    async with heard.meter(W1).watching(topics), heard.meter(W2).watching(topics), heard.meter(W1).watching(topics):
        await eventually(lambda: heard.of(declared.MEMBERS))
        await topics.publish_group(group_record(6))
        await eventually(lambda: heard.of(declared.REBALANCES))
    assert heard.of(declared.REBALANCES) == [1]
    assert heard.of(declared.MEMBERS) == [2]


async def test_a_job_that_is_removed_is_set_to_zero() -> None:
    topics, heard = await grouped(), Heard()
    await topics.submit(job())
    async with heard.meter(W1).watching(topics):
        await eventually(lambda: any(sample.tags[1:] == ("job",) for sample in heard.samples))
        await topics.remove("job")
        await eventually(lambda: heard.of(declared.JOBS)[-1:] == [0])
    waits = [sample.value for sample in heard.samples if sample.metric is declared.PENDING_AGE_S]
    assert waits[-1] == 0 < waits[0]


async def test_what_happened_last_is_sent_before_the_worker_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    topics, heard = await grouped(), Heard(interval_s=60)

    def not_yet(listener: Callable[[], None], about: About = About.EVERYTHING) -> Callable[[], None]:
        return lambda: None

    monkeypatch.setattr(topics, "subscribe", not_yet)  # it has been read, and nobody was told so far
    async with heard.meter(W1).watching(topics):
        await topics.publish_group(group_record(6))
    assert heard.of(declared.REBALANCES) == [1]


async def test_who_is_the_last_says_how_the_group_was_at_the_end() -> None:
    topics, heard = await grouped(), Heard(interval_s=60)
    async with heard.meter(W2).watching(topics):
        await topics.publish_worker(worker_status(W1, 5, WorkerPhase.LEFT))
        await topics.submit(job())
    assert heard.of(declared.JOBS)[-1:] == [1]
    other = Heard(interval_s=60)
    await topics.publish_worker(worker_status(W1, 5))
    async with other.meter(W2).watching(topics):
        pass
    assert not other.samples, "w1 is there and goes on saying it"


async def test_leases_that_end_are_counted_and_a_leave_in_order_is_not() -> None:
    heard = Heard()
    meter = heard.meter(W1)
    for reason in (StopReason.LEASE_OVER, StopReason.LEAVING, StopReason.EXPELLED):
        meter.lease_ended(reason)
    await heard.destination.outlet.settle()
    assert [sample.tags for sample in heard.samples] == [("g", "lease over"), ("g", "expelled")]


@pytest.mark.turned_clock
async def test_a_worker_that_loses_its_broker_tells_its_witness_that_its_lease_is_over() -> None:
    heard, life = Heard(), Life()
    life.observer = heard.meter(ME)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    try:
        await eventually(lambda: life.runner is not None and life.runner.running, "it runs something")
        life.coordinator.away = GONE
        await eventually(lambda: not life.runner.running, "its tasks are stopped")
    finally:
        await life.cancel()
    await eventually(lambda: heard.of(declared.LEASES_ENDED) == [1], "its lease is over")


def test_an_airflow_that_wants_no_metrics_leaves_no_word(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert of_process() is None
    assert not caplog.text
