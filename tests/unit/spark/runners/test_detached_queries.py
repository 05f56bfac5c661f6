"""A worker watches, adopts and ends the detached queries of its tasks, whatever their servers answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from queries_bench import A0, MINE, ORDER, OTHER, STARTED, UNKNOWN, Bench
from waiting import eventually

from airflow_provider.spark.connect.query_watch.watch_events import (
    QueryEnded,
    QueryLost,
    QueryProgressed,
    QueryStopped,
    ServerBack,
    ServerSilent,
)
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import (
    QueryAdopted,
    QueryCleared,
    QueryUnreachable,
    RunnerEvent,
    ServersSilent,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStopped,
)
from airflow_provider.spark.runners.detached_queries import SILENT
from airflow_provider.values.model import Epoch, TaskId


async def test_a_query_that_was_started_here_is_watched_without_an_event() -> None:
    bench = Bench()
    watch = await bench.watching()
    assert watch.watched == {STARTED}
    assert bench.heard == []
    assert bench.queries.running == {A0}
    progress = QueryProgress(batch=7, rows_per_second=1.0)
    watch.hear(QueryProgressed(STARTED, progress))
    assert bench.heard == [TaskProgressed(order=ORDER, progress=progress)]


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (
            QueryEnded(STARTED, None, 3),
            TaskFinished(order=ORDER, result={"query_id": "q", "last_batch": 3}),
        ),
        (QueryEnded(STARTED, "boom", 3), TaskFailed(order=ORDER, error="boom", traceback="", retryable=True)),
        (
            QueryEnded(
                STARTED, "E: x\n\tat a\nCaused by: java.lang.IllegalStateException: Race while writing batch 7", 3
            ),
            TaskConflicted(
                order=ORDER,
                error="java.lang.IllegalStateException: Race while writing batch 7\nby way of E: x",
            ),
        ),
        (
            QueryEnded(STARTED, "failed: Traceback (most recent call last):\n  File\nValueError: boom\n\tat x", 3),
            TaskFailed(
                order=ORDER,
                error="ValueError: boom\nby way of failed:",
                traceback="failed: Traceback (most recent call last):\n  File\nValueError: boom",
                retryable=True,
            ),
        ),
    ],
)
async def test_the_session_of_an_ended_query_is_closed(ended: QueryEnded, said: RunnerEvent) -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(ended)
    await bench.says(said)
    await eventually(lambda: watch.stopped == [STARTED], "what slept where it began can do nothing there any more")
    assert bench.queries.running == frozenset()


@pytest.mark.turned_clock
async def test_an_end_is_reported_without_waiting_for_the_server() -> None:
    """Otherwise the next worker would find a closed session, and take the query for lost."""
    bench = Bench()
    watch = await bench.watching()
    watch.away = True
    watch.hear(QueryEnded(STARTED, None, 3))
    assert bench.heard == [TaskFinished(order=ORDER, result={"query_id": "q", "last_batch": 3})]
    watch.away = False
    bench.queries.let_go({A0})
    await bench.queries.close()


async def test_close_waits_until_the_session_of_an_ended_query_is_closed() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(QueryEnded(STARTED, None, 3))
    bench.queries.let_go({A0})
    await bench.queries.close()
    assert (watch.stopped, watch.closed) == ([STARTED], True)


async def test_an_event_belongs_to_the_task_of_its_session() -> None:
    bench = Bench()
    watch = await bench.watching()
    progress = QueryProgress(batch=7, rows_per_second=1.0)
    other = TaskOrder(task=TaskId("a", 1), entry_point="m:f", epoch=Epoch(1))
    bench.queries.watch(other, replace(STARTED, session_id="t").to_json())
    again = replace(STARTED, session_id="s2")
    bench.queries.watch(ORDER, again.to_json())
    await eventually(lambda: len(watch.watched) == 2)
    for session in ("s", "t", "s2"):
        watch.hear(QueryProgressed(replace(STARTED, session_id=session), progress))
    assert bench.heard == [
        TaskProgressed(order=other, progress=progress),
        TaskProgressed(order=ORDER, progress=progress),
    ], "events of a former session are ignored"


async def test_a_lost_query_is_reported_as_lost_with_its_spark() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(QueryLost(STARTED, "it was restarted"))
    assert bench.heard == [SparkLost(order=ORDER, spark=-1, error="it was restarted")]


async def test_what_is_lost_together_has_one_spark_and_what_has_begun_since_has_another() -> None:
    """Whatever the time between: who ends the server as soon as it is there again would not be counted."""
    bench = Bench()
    watch = await bench.watching()
    beside = TaskOrder(task=TaskId("a", 1), entry_point="m:f", epoch=Epoch(1))
    bench.queries.watch(beside, replace(STARTED, session_id="t").to_json())
    watch.hear(QueryLost(STARTED, "it was restarted"))
    bench.queries.watch(ORDER, replace(STARTED, session_id="s2").to_json())
    watch.hear(QueryLost(replace(STARTED, session_id="s2"), "it was restarted"))
    watch.hear(QueryLost(replace(STARTED, session_id="t"), "it was restarted"))
    lost = [(event.order.task, event.spark) for event in bench.heard if isinstance(event, SparkLost)]
    assert lost == [(A0, -1), (A0, -2), (beside.task, -1)]
    await bench.queries.close()


async def test_a_query_that_another_worker_has_stopped_is_not_finished() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(QueryStopped(STARTED))
    await bench.says(QueryCleared(order=ORDER))
    assert watch.stopped == [STARTED]
    assert bench.queries.running == set()


async def test_a_running_query_is_adopted() -> None:
    bench = Bench()
    bench.queries.take_over(ORDER, STARTED.to_json())
    await bench.says(QueryAdopted(order=ORDER, handle=STARTED.to_json()))
    assert bench.mine.watched == {STARTED}


async def test_a_query_is_found_if_the_answer_to_its_start_was_lost() -> None:
    bench = Bench()
    bench.runs = STARTED
    bench.queries.take_over(ORDER, UNKNOWN.to_json())
    await bench.says(QueryAdopted(order=ORDER, handle=STARTED.to_json()))
    assert bench.mine.watched == {STARTED}


async def test_the_session_is_ended_if_the_query_was_not_started() -> None:
    bench = Bench()
    bench.queries.take_over(ORDER, UNKNOWN.to_json())
    await bench.says(QueryCleared(order=ORDER))
    assert bench.mine.stopped == [UNKNOWN]


async def test_a_query_on_another_server_is_ended_there() -> None:
    bench = Bench()
    there = replace(STARTED, server=OTHER)
    bench.queries.take_over(ORDER, there.to_json())
    await bench.says(QueryCleared(order=ORDER))
    assert bench.watches[OTHER].stopped == [there]
    assert MINE not in bench.watches


@pytest.mark.turned_clock
async def test_a_server_that_does_not_answer_is_asked_again_and_no_query_counts_as_ended() -> None:
    bench = Bench(own=None)
    bench.away = True
    bench.queries.take_over(ORDER, STARTED.to_json())
    await bench.says(QueryUnreachable(order=ORDER, why="sc://mine:15002: nobody answers"))
    await asyncio.sleep(600)
    assert len(bench.heard) == 1, "it is reported once"
    bench.mine.away = False
    await asyncio.sleep(31)
    assert bench.heard[1:] == [QueryCleared(order=ORDER)]


@pytest.mark.turned_clock
async def test_a_query_counts_as_stopped_only_when_its_server_confirms_it() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.away = True
    assert bench.queries.stop({A0, TaskId("a", 1)}, "revoked") == {TaskId("a", 1)}, "that one is not here"
    await asyncio.sleep(60)
    assert not any(isinstance(event, TaskStopped) for event in bench.heard)
    watch.away = False
    await asyncio.sleep(31)
    assert bench.heard[-1] == TaskStopped(order=ORDER, reason="revoked")


async def test_a_query_that_was_let_go_of_has_no_more_events() -> None:
    bench = Bench()
    watch = await bench.watching()
    bench.queries.let_go({A0})
    assert watch.watched == set()
    watch.hear(QueryLost(STARTED, "it was restarted"))
    assert (bench.heard, watch.stopped) == ([], [])


async def test_a_silent_server_is_a_condition_and_not_an_end() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(ServerSilent("it does not answer"))
    assert bench.queries.condition == SILENT
    watch.hear(ServerBack())
    assert bench.queries.condition == ""
    assert bench.heard == [ServersSilent(silent=True, detached=True), ServersSilent(silent=False, detached=True)]


async def test_a_handle_that_cannot_be_read_counts_as_unreachable() -> None:
    bench = Bench()
    bench.queries.take_over(ORDER, {"of": "a later release"})
    (said,) = bench.heard
    assert isinstance(said, QueryUnreachable)


@pytest.mark.parametrize("field", ["session_id", "conn_id", "query_id", "run_id"])
async def test_no_server_is_asked_about_an_id_that_is_far_too_long(field: str) -> None:
    """The server would log all of it each second."""
    bench = Bench()
    bench.queries.take_over(ORDER, {**STARTED.to_json(), field: "s" * 200_000})
    why = "not a handle of a query: its ids must have at most 1000 characters"
    await bench.says(QueryUnreachable(order=ORDER, why=why))
    assert not bench.watches


async def test_close_waits_for_queries_that_were_told_to_stop() -> None:
    bench = Bench()
    await bench.watching()
    bench.queries.stop([A0], "its job is paused")
    await bench.queries.close()
    assert (bench.mine.stopped, bench.mine.closed) == ([STARTED], True)
    assert bench.heard == [TaskStopped(order=ORDER, reason="its job is paused")]


async def test_close_waits_for_orphans_that_are_being_ended() -> None:
    bench = Bench()
    told: list[Any] = []
    bench.queries.end(A0, STARTED.to_json(), lambda: told.append("ended"), still=lambda: True)
    await bench.queries.close()
    assert (told, bench.mine.stopped, bench.mine.closed) == (["ended"], [STARTED], True)
