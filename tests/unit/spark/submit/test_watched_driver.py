"""A driver on a cluster is submitted once, adopted, watched and killed; with a stand-in for the cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from fake_cluster import TAG, FakeCluster

from airflow_provider.spark.submit.detached import (
    ClusterRefusesError,
    Driver,
    DriverError,
    DriverState,
    TaggedDriver,
    newest,
)


class ToldToStop(Exception):  # noqa: N818 - as a fence has it, it is no error
    pass


class SubmittedTo(FakeCluster):
    """Its drivers change while somebody waits."""

    def __init__(self, *drivers: Driver) -> None:
        super().__init__(*drivers)
        self.submitted = 0
        self.then: list[Callable[[], None]] = []
        self.takes = True
        self.stops = False

    def watch(self) -> TaggedDriver:
        return TaggedDriver(self, TAG, self.submit, self.check, self.wait)

    def submit(self) -> int:
        self.submitted += 1
        if self.takes:
            self.has(f"app_{len(self.drivers) + 1}", DriverState.RUNS)
        return 0 if self.takes else 1

    def check(self) -> None:
        if self.stops:
            raise ToldToStop

    def wait(self, _seconds: float) -> None:
        assert self.then, "it waits, and nothing changes any more"
        self.then.pop(0)()

    def stop(self) -> None:
        self.stops = True


def driver(number: int, state: DriverState) -> Driver:
    return Driver(id=f"app_{number}", state=state, submitted_ms=number)


def test_it_is_submitted_once_and_watched_to_its_end() -> None:
    cluster = SubmittedTo()
    cluster.then = [lambda: None, lambda: cluster.becomes("app_1", DriverState.SUCCEEDED)]
    assert cluster.watch().run().id == "app_1"
    assert cluster.submitted == 1


def test_one_that_runs_already_is_adopted() -> None:
    cluster = SubmittedTo(driver(1, DriverState.RUNS))
    cluster.then = [lambda: cluster.becomes("app_1", DriverState.SUCCEEDED)]
    cluster.watch().run()
    assert cluster.submitted == 0


def test_one_that_has_succeeded_while_nobody_watched_is_not_submitted_again() -> None:
    cluster = SubmittedTo(driver(1, DriverState.SUCCEEDED))
    cluster.watch().run()
    assert cluster.submitted == 0


@pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.KILLED])
def test_one_that_has_failed_is_submitted_again_by_the_next_attempt(state: DriverState) -> None:
    cluster = SubmittedTo(driver(1, state))
    cluster.then = [lambda: cluster.becomes("app_2", DriverState.SUCCEEDED)]
    assert cluster.watch().run().id == "app_2"


@pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.KILLED])
def test_its_failure_is_that_of_the_attempt_with_what_the_cluster_says(state: DriverState) -> None:
    cluster = SubmittedTo()
    cluster.then = [lambda: cluster.becomes("app_1", state, "no such day")]
    with pytest.raises(DriverError, match=f"driver app_1 {state.value}: no such day"):
        cluster.watch().run()


def test_where_it_is_to_be_seen_is_in_the_log_as_soon_as_the_cluster_knows_it_and_in_its_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SubmittedTo()

    def starts() -> None:
        cluster.drivers["app_1"] = replace(cluster.drivers["app_1"], page="http://rm/app_1")

    cluster.then = [starts, lambda: None, lambda: cluster.becomes("app_1", DriverState.FAILED)]
    with caplog.at_level(logging.INFO), pytest.raises(DriverError, match=r"driver app_1 \(http://rm/app_1\) failed"):
        cluster.watch().run()
    assert caplog.messages == ["Driver app_1 was submitted", "Driver app_1 is to be seen at http://rm/app_1"]


def test_why_it_does_not_start_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SubmittedTo()
    waits = [partial(cluster.becomes, "app_1", DriverState.RUNS, why) for why in ("no room", "no room", "no image", "")]
    cluster.then = [*waits, lambda: cluster.becomes("app_1", DriverState.SUCCEEDED)]
    with caplog.at_level(logging.INFO):
        cluster.watch().run()
    said = "The cluster says of driver app_1: "
    assert caplog.messages == ["Driver app_1 was submitted", f"{said}no room", f"{said}no image"]


def test_if_the_cluster_refuses_to_say_what_it_runs_nothing_is_submitted() -> None:
    cluster = SubmittedTo()
    cluster.refuses = 1
    with pytest.raises(ClusterRefusesError):
        cluster.watch().run()
    assert cluster.submitted == 0


def test_its_end_asks_again_if_the_cluster_refuses_to_answer() -> None:
    cluster = SubmittedTo(driver(1, DriverState.RUNS))
    cluster.refuses = 1
    cluster.watch().end()
    assert cluster.killed == ["app_1"]


def test_spark_submit_may_end_before_it_says_that_it_has_submitted() -> None:
    """The cluster decides, and not the exit code."""
    cluster = SubmittedTo()
    submit = cluster.submit
    cluster.then = [lambda: cluster.becomes("app_1", DriverState.SUCCEEDED)]
    TaggedDriver(cluster, TAG, lambda: submit() or 143, cluster.check, cluster.wait).run()
    assert cluster.submitted == 1


def test_if_the_cluster_has_no_new_driver_that_is_a_failure() -> None:
    cluster = SubmittedTo(driver(1, DriverState.FAILED))
    cluster.takes = False
    with pytest.raises(DriverError, match="exit code 1, and the cluster has no new driver"):
        cluster.watch().run()


def test_while_the_cluster_is_silent_nothing_is_submitted_and_nothing_fails() -> None:
    cluster = SubmittedTo(driver(1, DriverState.RUNS))
    cluster.silent = 2
    cluster.then = [lambda: None, lambda: None, lambda: cluster.becomes("app_1", DriverState.SUCCEEDED)]
    cluster.watch().run()
    assert cluster.submitted == 0


def test_one_that_the_cluster_has_forgotten_has_failed() -> None:
    cluster = SubmittedTo(driver(1, DriverState.RUNS))
    cluster.then = [cluster.drivers.clear]
    with pytest.raises(DriverError, match="does not know driver app_1 any more"):
        cluster.watch().run()


def test_what_it_said_last_of_one_that_it_has_forgotten_is_in_the_failure() -> None:
    cluster = SubmittedTo()
    cluster.then = [lambda: cluster.becomes("app_1", DriverState.RUNS, "it is evicted"), cluster.drivers.clear]
    with pytest.raises(DriverError, match="not know driver app_1 any more; what it said last: it is evicted"):
        cluster.watch().run()


def test_whoever_may_not_go_on_leaves_it_running() -> None:
    cluster = SubmittedTo(driver(1, DriverState.RUNS))
    cluster.then = [cluster.stop]
    with pytest.raises(ToldToStop):
        cluster.watch().run()
    assert cluster.killed == []


def test_nothing_is_submitted_by_whoever_may_not_go_on() -> None:
    cluster = SubmittedTo()
    cluster.silent = 1
    cluster.then = [cluster.stop]
    with pytest.raises(ToldToStop):
        cluster.watch().run()
    assert cluster.submitted == 0


def test_its_end_kills_all_that_runs_also_if_the_cluster_does_not_answer_at_once() -> None:
    cluster = SubmittedTo(driver(1, DriverState.FAILED), driver(2, DriverState.RUNS))
    cluster.silent = 1
    cluster.watch().end()
    assert cluster.killed == ["app_2"]


def test_its_end_lasts_until_what_it_has_killed_has_ended() -> None:
    """Who has the work next would adopt it."""

    class Slow(SubmittedTo):
        looks = 0

        def kill(self, driver_id: str) -> None:
            self.killed.append(driver_id)

        def find(self, tag: str) -> list[Driver]:
            self.looks += 1
            if self.looks == 4:
                self.becomes("app_1", DriverState.KILLED)
            return super().find(tag)

    cluster = Slow(driver(1, DriverState.RUNS))
    cluster.watch().end()
    assert cluster.drivers["app_1"].state is DriverState.KILLED


def test_its_end_finds_what_was_being_submitted() -> None:
    class Late(SubmittedTo):
        looks = 0

        def find(self, tag: str) -> list[Driver]:
            self.looks += 1
            if self.looks == 2:
                self.has("app_1", DriverState.RUNS)
            return super().find(tag)

    cluster = Late()
    cluster.watch().end()
    assert cluster.killed == ["app_1"]


def test_what_could_not_be_killed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SubmittedTo(driver(1, DriverState.RUNS))
    cluster.silent = 100
    cluster.watch().end()
    assert f"What runs with the tag {TAG} could not be killed" in caplog.text


def test_what_runs_counts_before_what_was_submitted_last() -> None:
    drivers = [driver(1, DriverState.RUNS), driver(2, DriverState.FAILED)]
    assert newest(drivers) == drivers[0]
    assert newest([]) is None
