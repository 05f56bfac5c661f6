"""Sends for how long the shards of a coordinator have not been served."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider.common.stats_without_airflow import destination
from airflow_provider.metrics import declared
from airflow_provider.metrics.sample import Sample

if TYPE_CHECKING:
    from airflow_provider.common.airflow_stats import Destination


def shard_meter() -> ShardMeter | None:
    """What this process's coordinator tells of its shards; None: no metrics are configured."""
    where = destination()
    return None if where is None else ShardMeter(where)


class ShardMeter:
    """Sends what it is told, but not more often than other gauges. Only one thread may call it."""

    def __init__(self, where: Destination) -> None:
        self._destination = where
        self._next_s = 0.0

    def __call__(self, unserved_s: Mapping[int, float]) -> None:
        """Send this if it is time.

        :param unserved_s: for how many seconds each shard of this process has not been served
        """
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._destination.interval_s
        self._destination.outlet.send(
            Sample(metric=declared.SHARD_UNSERVED_S, value=value, tags=(str(shard),))
            for shard, value in unserved_s.items()
        )
