"""A stand-in for a cluster, whose drivers a test changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider.spark.submit.detached import ClusterRefusesError, ClusterSilentError, Driver, DriverState
from airflow_provider.spark.submit.driver_handle import tag_of

GROUP = "g"
TAG = tag_of("/g/a/0", "etl")
"""Of a driver of the task a:0 of the group."""


class FakeCluster:
    """A :class:`~airflow_provider.spark.submit.detached.Cluster` of one tag.

    :ivar silent: how many questions it does not answer
    :ivar refuses: how many it refuses to answer
    """

    name = "yarn"

    def __init__(self, *drivers: Driver) -> None:
        self.drivers = {driver.id: driver for driver in drivers}
        self.killed: list[str] = []
        self.silent = 0
        self.refuses = 0

    def settings(self, tag: str) -> Mapping[str, str]:
        return {"tag": tag}

    def find(self, tag: str) -> list[Driver]:
        assert tag == TAG
        self._answers()
        return [*self.drivers.values()]

    def look(self, driver_id: str) -> Driver | None:
        self._answers()
        return self.drivers.get(driver_id)

    def kill(self, driver_id: str) -> None:
        self._answers()
        self.killed.append(driver_id)
        self.becomes(driver_id, DriverState.KILLED)

    def _answers(self) -> None:
        if self.refuses:
            self.refuses -= 1
            raise ClusterRefusesError("you may not know")
        if self.silent:
            self.silent -= 1
            raise ClusterSilentError("nobody answers")

    # ---- what happens there

    def has(self, driver_id: str, state: DriverState, why: str = "") -> None:
        self.drivers[driver_id] = Driver(id=driver_id, state=state, submitted_ms=len(self.drivers), why=why)

    def becomes(self, driver_id: str, state: DriverState, why: str = "") -> None:
        self.drivers[driver_id] = replace(self.drivers[driver_id], state=state, why=why)
