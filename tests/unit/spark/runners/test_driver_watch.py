"""A worker watches, adopts and kills the drivers of its tasks, without a process for them; with a stand-in for the
cluster.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import GROUP, TAG, FakeCluster
from queries_bench import A0, ORDER, masked
from turned_clock import CLOCK
from waiting import eventually

from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.silence import SILENT_S
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.spark.runner import (
    QueryAdopted,
    QueryUnreachable,
    RunnerEvent,
    ServersSilent,
    TaskFailed,
    TaskFinished,
    TaskStopped,
)
from airflow_provider.spark.runners.detached_queries import SILENT, DetachedQueries
from airflow_provider.spark.runners.watches import handle_of
from airflow_provider.spark.submit.detached import Cluster, ClusterSilentError, Driver, DriverState
from airflow_provider.spark.submit.driver_handle import DriverHandle, tag_of
from airflow_provider.spark.submit.yarn import NoYarnError

pytestmark = pytest.mark.turned_clock

HANDLE = DriverHandle(cluster="yarn", tag=TAG, since_ms=0, result={"applications": ["etl"]}).to_json()


class Bench:
    """A worker that knows a cluster.

    :ivar unknown: why it does not know it; empty: it does
    """

    def __init__(self, *drivers: Driver) -> None:
        self.cluster = FakeCluster(*drivers or [Driver(id="app_1", state=DriverState.RUNS, submitted_ms=0)])
        self.unknown = ""
        self.heard: list[RunnerEvent] = []

        async def no_server(_handle: QueryHandle) -> ConnectSettings:
            raise AssertionError("drivers have no server")

        def no_watch(_settings: ConnectSettings, _hear: Any) -> Any:
            raise AssertionError("drivers have no server")

        self.queries = DetachedQueries(
            self.heard.append,
            group_id=GROUP,
            own=None,
            settings_of=no_server,
            make_watch=no_watch,
            mask=masked,
            cluster_of=self._here,
        )

    def _here(self, kind: str) -> Cluster:
        assert kind == "yarn"
        if self.unknown:
            raise NoYarnError(self.unknown)
        return self.cluster

    async def hears(self, *events: RunnerEvent) -> None:
        await eventually(lambda: len(self.heard) >= len(events), lambda: self.heard)
        assert self.heard == [*events]

    async def watching(self) -> None:
        self.queries.watch(ORDER, HANDLE)
        await asyncio.sleep(30)
        assert self.queries.running == {A0}
        assert self.heard == [], "it has submitted it, and knows that it runs"


async def test_when_the_driver_has_succeeded_the_task_has_the_result_that_its_job_has_said() -> None:
    bench = Bench()
    await bench.watching()
    bench.cluster.becomes("app_1", DriverState.SUCCEEDED)
    await eventually(lambda: bench.heard)
    (last,) = bench.heard
    assert isinstance(last, TaskFinished)
    assert last.result["applications"] == ["etl"]
    assert last.result["seconds"] > 30, "since the work began, in whatever process"
    assert bench.queries.running == frozenset()
    await bench.queries.close()


@pytest.mark.parametrize(
    ("state", "why", "said"),
    [
        (DriverState.FAILED, ": exited with 1", "DriverError: driver app_1 (http://rm/app_1) failed: exited with 1"),
        (DriverState.KILLED, "", "DriverError: driver app_1 (http://rm/app_1) killed"),
    ],
)
async def test_its_failure_is_that_of_the_task_and_another_try_may_help(
    state: DriverState, why: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    with caplog.at_level(logging.INFO):
        bench.cluster.drivers["app_1"] = replace(bench.cluster.drivers["app_1"], page="http://rm/app_1")
        await bench.watching()
        bench.cluster.becomes("app_1", state, why.removeprefix(": "))
        await bench.hears(TaskFailed(order=ORDER, error=said, traceback=said, retryable=True))
    assert [line for line in caplog.messages if "to be seen" in line] == [
        "Driver app_1 is to be seen at http://rm/app_1"
    ], "once, as soon as the cluster knows it"
    await bench.queries.close()


async def test_one_that_the_cluster_has_forgotten_has_failed() -> None:
    bench = Bench()
    await bench.watching()
    bench.cluster.drivers["app_1"] = replace(bench.cluster.drivers["app_1"], why="its node has no room")
    await asyncio.sleep(30)
    bench.cluster.drivers.clear()
    await eventually(lambda: bench.heard)
    assert isinstance(bench.heard[0], TaskFailed)
    assert (
        f"does not know a driver with the tag {TAG} any more; what it said last: its node has no room"
        in bench.heard[0].error
    )
    await bench.queries.close()


async def test_the_next_worker_adopts_it_and_the_one_before_leaves_it_alone() -> None:
    bench = Bench()
    bench.queries.take_over(ORDER, HANDLE)
    await bench.hears(QueryAdopted(order=ORDER, handle=HANDLE))
    bench.queries.let_go({A0})
    bench.cluster.becomes("app_1", DriverState.SUCCEEDED)
    await asyncio.sleep(60)
    assert (len(bench.heard), bench.cluster.killed) == (1, [])
    await bench.queries.close()


async def test_while_the_cluster_is_silent_nothing_fails_and_the_worker_says_so() -> None:
    bench = Bench()
    await bench.watching()
    bench.cluster.silent = 1_000_000
    await bench.hears(ServersSilent(silent=True, detached=True))
    assert (bench.queries.condition, bench.queries.lacks) == (SILENT, "")
    bench.cluster.silent = 0
    bench.cluster.becomes("app_1", DriverState.SUCCEEDED)
    await eventually(lambda: len(bench.heard) == 3)
    assert bench.heard[1] == ServersSilent(silent=False, detached=True)
    assert isinstance(bench.heard[2], TaskFinished)
    await bench.queries.close()


async def test_it_is_killed_if_its_task_is_stopped_which_has_stopped_when_it_has_ended() -> None:
    class Slow(FakeCluster):
        def kill(self, driver_id: str) -> None:
            self.killed.append(driver_id)

    bench = Bench()
    bench.cluster = Slow(*bench.cluster.drivers.values())
    await bench.watching()
    assert bench.queries.stop({A0}, "its job is paused") == frozenset()
    await eventually(lambda: bench.cluster.killed)
    await asyncio.sleep(5)
    assert bench.queries.running == {A0}
    assert bench.heard == []
    bench.cluster.becomes("app_1", DriverState.KILLED)
    await bench.hears(TaskStopped(order=ORDER, reason="its job is paused"))
    await bench.queries.close()


async def test_a_stop_finds_what_was_being_submitted() -> None:
    class Late(FakeCluster):
        def find(self, tag: str) -> list[Driver]:
            found = super().find(tag)
            if self.killed == ["app_1"] and "app_2" not in self.drivers and not found_running(found):
                self.has("app_2", DriverState.RUNS)
            return found

    def found_running(found: list[Driver]) -> bool:
        return any(each.state is DriverState.RUNS for each in found)

    bench = Bench()
    bench.cluster = Late(*bench.cluster.drivers.values())
    await bench.watching()
    bench.queries.stop({A0}, "its job is stopped")
    await bench.hears(TaskStopped(order=ORDER, reason="its job is stopped"))
    assert bench.cluster.killed == ["app_1", "app_2"]
    await bench.queries.close()


async def test_a_task_that_comes_back_while_the_cluster_is_silent_waits_for_it_again() -> None:
    bench = Bench()
    await bench.watching()
    bench.cluster.silent = 1_000
    await eventually(lambda: bench.queries.condition == SILENT)
    bench.queries.let_go({A0})
    assert bench.queries.condition == "", "nothing is watched there"
    bench.queries.take_over(ORDER, HANDLE)
    await eventually(lambda: bench.queries.condition == SILENT)
    await bench.queries.close()


async def test_a_stop_lasts_until_the_cluster_answers() -> None:
    bench = Bench()
    await bench.watching()
    bench.cluster.silent = 3
    bench.queries.stop({A0}, "its job is stopped")
    await eventually(lambda: len(bench.heard) == 2)
    assert bench.heard[0] == QueryUnreachable(order=ORDER, why="yarn: nobody answers")
    assert bench.heard[1] == TaskStopped(order=ORDER, reason="its job is stopped")
    assert bench.cluster.killed == ["app_1"]
    await bench.queries.close()


async def test_a_late_answer_about_the_driver_before_says_nothing_of_the_next_one() -> None:
    """A cluster may take long to answer about many."""
    bench = Bench()
    answers = threading.Event()

    class Slow(FakeCluster):
        def find(self, tag: str) -> list[Driver]:
            found = super().find(tag)
            answers.wait(60)
            return found

    bench.cluster.becomes("app_1", DriverState.KILLED)
    bench.cluster = Slow(*bench.cluster.drivers.values())
    bench.queries.watch(ORDER, HANDLE)
    await asyncio.sleep(0.1)
    bench.queries.let_go({A0})
    bench.queries.watch(ORDER, HANDLE)
    bench.cluster.has("app_2", DriverState.RUNS)
    answers.set()
    await asyncio.sleep(30)
    assert bench.heard == []
    await bench.queries.close()


async def test_a_cluster_is_not_called_silent_when_nothing_is_watched_there_any_more() -> None:
    bench = Bench()
    asked, fails = threading.Event(), threading.Event()

    class Hanging(FakeCluster):
        def find(self, tag: str) -> list[Driver]:
            asked.set()
            fails.wait(60)
            raise ClusterSilentError("nobody answers")

    bench.cluster = Hanging(*bench.cluster.drivers.values())
    bench.queries.watch(ORDER, HANDLE)
    await eventually(asked.is_set)
    bench.queries.let_go({A0})
    CLOCK.turn(2 * SILENT_S)
    fails.set()
    await asyncio.sleep(30)
    assert (bench.heard, bench.queries.condition) == ([], "")
    await bench.queries.close()


async def test_a_driver_whose_job_is_gone_is_killed() -> None:
    bench = Bench()
    ended: list[int] = []
    bench.queries.end(A0, HANDLE, lambda: ended.append(1), still=lambda: True)
    await eventually(lambda: ended)
    assert bench.cluster.killed == ["app_1"]


async def test_a_process_that_does_not_know_the_cluster_says_so_and_waits() -> None:
    bench = Bench()
    bench.unknown = "HADOOP_CONF_DIR: it is not set"
    assert bench.queries.lacks == ""
    bench.queries.take_over(ORDER, HANDLE)
    await bench.hears(QueryAdopted(order=ORDER, handle=HANDLE), ServersSilent(silent=True, detached=True))
    assert bench.queries.lacks == "HADOOP_CONF_DIR: it is not set"
    bench.unknown = ""
    await eventually(lambda: bench.queries.condition == "", "it is configured meanwhile")
    await bench.queries.close()


async def test_one_that_is_to_kill_it_at_once_says_so_too() -> None:
    bench = Bench()
    bench.unknown = "HADOOP_CONF_DIR: it is not set"
    bench.queries.take_over(ORDER, HANDLE)
    bench.queries.stop({A0}, "its job is stopped")
    await bench.hears(QueryUnreachable(order=ORDER, why="yarn: HADOOP_CONF_DIR: it is not set"))
    assert bench.queries.lacks == bench.unknown
    bench.unknown = ""
    await eventually(lambda: bench.cluster.killed, "it is configured meanwhile")
    await bench.queries.close()


async def test_so_does_one_that_the_cluster_refuses_to_answer() -> None:
    bench = Bench()
    bench.cluster.refuses = 1_000_000
    bench.queries.take_over(ORDER, HANDLE)
    await bench.hears(QueryAdopted(order=ORDER, handle=HANDLE), ServersSilent(silent=True, detached=True))
    assert bench.queries.lacks == "you may not know"
    await bench.queries.close()


@pytest.mark.parametrize(
    "wrong",
    [{"tag": "somebody-elses"}, {"tag": 7}, {"result": []}, {"cluster": None}],
)
async def test_nobody_is_asked_about_what_a_record_can_not_have(wrong: dict[str, Any]) -> None:
    bench = Bench()
    bench.queries.take_over(ORDER, {**HANDLE, **wrong})
    assert bench.heard == [QueryUnreachable(order=ORDER, why="not a handle of a driver")]


@pytest.mark.parametrize("since_ms", [None, -1, pytest.param(10**400, id="400 digits")])
async def test_a_record_with_an_impossible_time_does_not_end_the_watch_of_others(since_ms: Any) -> None:
    bench = Bench()
    bench.queries.take_over(ORDER, {**HANDLE, "since_ms": since_ms})
    assert bench.heard == [QueryUnreachable(order=ORDER, why="not a handle of a driver")]
    await bench.queries.close()


@pytest.mark.parametrize("owner", ["/g/a/1", "/g/b/0", "/other/a/0"])
async def test_a_record_with_the_tag_of_other_work_has_no_driver_killed(
    owner: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    forged = {**HANDLE, "tag": tag_of(owner, "etl")}
    bench.queries.end(A0, forged, lambda: pytest.fail("it is somebody else's"), still=lambda: True)
    bench.queries.take_over(ORDER, forged)
    why = "not a handle of this task's driver: its tag is that of other work"
    assert bench.heard == [QueryUnreachable(order=ORDER, why=why)]
    assert bench.queries.stop({A0}, "its job is stopped") == {A0}, "nothing of it is here"
    assert caplog.messages == [f"Can't end a query that has no owner: {why}"]
    await bench.queries.close()
    assert bench.cluster.killed == []


def test_a_handle_reads_as_it_was_written() -> None:
    assert {*HANDLE} == {"cluster", "tag", "since_ms", "result"}
    handle = handle_of(HANDLE)
    assert isinstance(handle, DriverHandle)
    assert handle.to_json() == HANDLE
