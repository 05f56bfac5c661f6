"""Sends how a coordinator serves its shards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider.integration.stats.stats_without_airflow import destination
from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.sample import Sample

if TYPE_CHECKING:
    from airflow_provider.integration.stats.airflow_stats import Destination


def shard_meter() -> ShardMeter | None:
    """What this process's coordinator tells of its shards; None: no metrics are configured."""
    where = destination()
    return None if where is None else ShardMeter(where)


class ShardMeter:
    """Sends what it hears as a :class:`~airflow_provider.group.declarative.server.server.ShardObserver`."""

    def __init__(self, where: Destination) -> None:
        self._destination = where
        self._next_s = 0.0

    def failed(self) -> None:
        """Count that no shard can be served. The gauges of shards end then, and tell nothing."""
        self._destination.outlet.send([Sample(metric=declared.COORDINATOR_FAILURES, value=1, tags=())])

    def unserved(self, unserved_s: Mapping[int, float]) -> None:
        """Send this if it is time: not more often than other gauges."""
        if (now_s := time.monotonic()) >= self._next_s:
            self._next_s = now_s + self._destination.interval_s
            self._destination.outlet.send(
                Sample(metric=declared.SHARD_UNSERVED_S, value=value, tags=(str(shard),))
                for shard, value in unserved_s.items()
            )
