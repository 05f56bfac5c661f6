"""A driver that a cluster runs: it is submitted once, and goes on without the process that has submitted it.

A tag that is always the same for the same work goes with each submission. Whoever has the work looks for it first: a
driver that runs is adopted, and one that has succeeded is not submitted again, whoever has submitted them and however
that process has ended. So nothing has to be stored, and there is no moment in which a driver runs that nobody can find.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
_KILL_TRIES: Final = 10
KILL_PAUSE_S: Final = 0.5

T = TypeVar("T")


class DriverState(Enum):
    RUNS = "runs"
    """Or waits for its start."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver, as its cluster knows it.

    :param id: by which the cluster knows it
    :param submitted_ms: when it was submitted, by the cluster's clock
    :param page: where people see it; empty: unknown, as before its start
    :param why: what the cluster says about its end, or about what it waits for
    """

    id: str
    state: DriverState
    submitted_ms: int
    page: str = ""
    why: str = ""


class ClusterSilentError(Exception):
    """The cluster does not say what it runs."""


class ClusterRefusesError(Exception):
    """The cluster does not let this process know what it runs, and has never done so."""


class Cluster(Protocol):
    """What runs drivers. All methods raise :class:`ClusterSilentError` if it does not answer, and may raise
    :class:`ClusterRefusesError`.
    """

    @property
    def name(self) -> str:
        """By which other processes find it (:mod:`~airflow_provider.spark.submit.clusters`); empty: they can't."""

    def settings(self, tag: str) -> Mapping[str, str]:
        """The settings with which ``spark-submit`` submits a driver with this tag, and does not wait for its end."""

    def find(self, tag: str) -> list[Driver]:
        """All drivers with this tag that it knows."""

    def look(self, driver_id: str) -> Driver | None:
        """None: it does not know it any more."""

    def kill(self, driver_id: str) -> None:
        """End it, if it has not ended."""


class DriverError(Exception):
    """A driver has failed, or was not submitted."""


@dataclass(slots=True, eq=False)
class News:
    """Logs where a driver is to be seen, and what its cluster says about it: each once.

    :ivar page: what was logged last
    :ivar why: likewise
    """

    page: str = ""
    why: str = ""

    def tell(self, driver: Driver) -> None:
        """Log what is new."""
        if driver.page not in ("", self.page):
            self.page = driver.page
            log.info("Driver %s is to be seen at %s", driver.id, driver.page)
        if driver.why not in ("", self.why):
            self.why = driver.why
            log.info("The cluster says of driver %s: %s", driver.id, driver.why)


class TaggedDriver:
    """Submits, adopts, watches and ends the driver of one tag.

    :param submit: runs ``spark-submit``, and returns its exit code
    :param check: raises if this process may not go on with it
    :param wait: sleeps for so many seconds, or until :attr:`check` would raise
    """

    def __init__(
        self,
        cluster: Cluster,
        tag: str,
        submit: Callable[[], int],
        check: Callable[[], None],
        wait: Callable[[float], object],
    ) -> None:
        self._cluster = cluster
        self._tag = tag
        self._submit = submit
        self._check = check
        self._wait = wait

    def run(self) -> Driver:
        """Wait for the driver to succeed, after it was submitted if that was needed.

        :raises DriverError: if it fails, if somebody kills it, or if it can't be submitted
        :raises ClusterRefusesError: before anything is submitted
        """
        return self.follow(self.begin())

    def begin(self) -> Driver:
        """The driver, after it was submitted if that was needed.

        :raises DriverError: if it can't be submitted
        :raises ClusterRefusesError: before anything is submitted
        """
        driver = newest(self._ask(lambda: self._cluster.find(self._tag)))
        if driver is not None and driver.state is DriverState.RUNS:
            log.info("Driver %s runs already, and is watched from now on", driver.id)
        elif driver is None or driver.state is not DriverState.SUCCEEDED:
            driver = self._submitted(driver)
        return driver

    def follow(self, driver: Driver) -> Driver:
        """Wait for this driver to succeed.

        :raises DriverError: if it fails, or if somebody kills it
        """
        news = News()
        while driver.state is DriverState.RUNS:
            news.tell(driver)
            self._pause()
            driver = self._look(driver)
        if driver.state is not DriverState.SUCCEEDED:
            raise DriverError(how_it_ended(driver))
        return driver

    def end(self) -> None:
        """Kill all drivers with the tag that run, and wait until they have ended: who has the work next would adopt
        them. A warning names what is left.
        """
        killing, why = Killing(self._tag), ""
        for _ in range(_KILL_TRIES):
            try:
                if killing.is_over(self._cluster):
                    return
                why = ", ".join(killing.running)
            except (ClusterRefusesError, ClusterSilentError) as silent:
                why = str(silent)
            time.sleep(KILL_PAUSE_S)
        log.warning("What runs with the tag %s could not be killed, and goes on: %s", self._tag, why)

    def _submitted(self, before: Driver | None) -> Driver:
        self._check()
        code = self._submit()
        driver = newest(self._ask(lambda: self._cluster.find(self._tag)))
        if driver is None or (before is not None and driver.id == before.id):
            raise DriverError(f"spark-submit has ended with exit code {code}, and the cluster has no new driver")
        log.info("Driver %s was submitted", driver.id)
        return driver

    def _look(self, driver: Driver) -> Driver:
        now = self._ask(lambda: self._cluster.look(driver.id))
        if now is None:
            raise DriverError(f"the cluster does not know driver {driver.id} any more{said_last(driver.why)}")
        return now

    def _ask(self, question: Callable[[], T]) -> T:
        """However long it takes until the cluster answers: what it runs goes on meanwhile."""
        warned = False
        while True:
            self._check()
            try:
                return question()
            except ClusterSilentError as silent:
                log.log(logging.DEBUG if warned else logging.WARNING, "%s; it is asked again and again", silent)
                warned = True
            self._pause()

    def _pause(self) -> None:
        self._wait(LOOK_S)
        self._check()


class Killing:
    """Ends all drivers with a tag, until none runs any more. It looks twice, as a submission may be under way.

    :ivar running: the ids of those that ran when it looked last
    """

    def __init__(self, tag: str) -> None:
        self.running: list[str] = []
        self._tag = tag
        self._told: set[str] = set()
        self._none_ran = False

    def is_over(self, cluster: Cluster) -> bool:
        """Tell the cluster to end what runs; whether nothing has run twice in succession.

        :raises ClusterSilentError: if it does not answer
        """
        self.running = [driver.id for driver in cluster.find(self._tag) if driver.state is DriverState.RUNS]
        for driver_id in self.running:
            if driver_id not in self._told:
                log.info("Driver %s is killed", driver_id)
                self._told.add(driver_id)
            cluster.kill(driver_id)
        none_ran, self._none_ran = self._none_ran, not self.running
        return none_ran and not self.running


def how_it_ended(driver: Driver) -> str:
    """That it has not succeeded, in words."""
    page, why = driver.page and f" ({driver.page})", driver.why and f": {driver.why}"
    return f"driver {driver.id}{page} {driver.state.value}{why}"


def said_last(why: str) -> str:
    """How an error goes on that says that the cluster does not know a driver any more."""
    return why and f"; what it said last: {why}"


def newest(drivers: Iterable[Driver]) -> Driver | None:
    """The one that counts: what runs, or else what was submitted last; None: there is none."""
    return max(drivers, key=lambda each: (each.state is DriverState.RUNS, each.submitted_ms, each.id), default=None)
