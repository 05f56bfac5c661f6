"""How a coordinator serves its shards, on its way to Airflow's stats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from waiting import wait_until

from airflow_provider.integration.lineage_events.outlet import Outlet
from airflow_provider.integration.stats import shard_metering
from airflow_provider.integration.stats.airflow_stats import METRICS, Destination
from airflow_provider.integration.stats.shard_metering import ShardMeter, shard_meter
from airflow_provider.state.metrics.declared import COORDINATOR_FAILURES, SHARD_UNSERVED_S
from airflow_provider.state.metrics.sample import Sample


def sample(shard: int, unserved_s: float) -> Sample:
    return Sample(metric=SHARD_UNSERVED_S, value=unserved_s, tags=(str(shard),))


def meter(heard: Callable[[Sample], None], interval_s: float) -> ShardMeter:
    return ShardMeter(Destination(outlet=Outlet(heard, METRICS), interval_s=interval_s))


def test_each_shard_has_its_value() -> None:
    heard: list[Sample] = []
    told = meter(heard.append, 0)
    told.unserved({0: 0.0, 3: 62.0})
    told.unserved({0: 0.0})
    wait_until(lambda: len(heard) == 3)
    assert heard == [sample(0, 0), sample(3, 62), sample(0, 0)]


def test_it_is_sent_as_often_as_gauges_are() -> None:
    heard: list[Sample] = []
    told = meter(heard.append, 3_600)
    for _ in range(100):
        told.unserved({0: 0.0})
    sent: list[bool] = []
    told._destination.outlet.call(lambda: sent.append(True))
    wait_until(lambda: sent)
    assert heard == [sample(0, 0)]


def test_each_time_that_nothing_can_be_served_counts() -> None:
    heard: list[Sample] = []
    told = meter(heard.append, 3_600)
    told.failed()
    told.failed()
    wait_until(lambda: len(heard) == 2)
    assert heard == [Sample(metric=COORDINATOR_FAILURES, value=1, tags=())] * 2
    assert heard[0].flat_name == "cospark.coordinator_failures"


def test_without_metrics_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_metering, "destination", lambda: None)
    assert shard_meter() is None
