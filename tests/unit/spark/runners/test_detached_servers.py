"""Detached queries when servers come and go, and when it changes meanwhile what is to run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from queries_bench import A0, ORDER, OTHER, STARTED, Bench
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect.query_watch.watch_events import QueryLost, ServerBack, ServerSilent
from airflow_provider.spark.runner import QueryAdopted, ServersSilent, SparkLost, TaskStopped
from airflow_provider.spark.runners.detached_queries import SILENT
from airflow_provider.values.model import TaskId

# ---- what is to run after all


@pytest.mark.turned_clock
async def test_an_orphan_that_is_taken_over_before_it_has_ended_keeps_running() -> None:
    bench = Bench()
    bench.away = True
    bench.queries.end(A0, STARTED.to_json(), lambda: pytest.fail("it has not ended"), still=lambda: True)
    await asyncio.sleep(60)
    bench.queries.take_over(ORDER, STARTED.to_json())
    bench.mine.away = False
    await asyncio.sleep(60)
    assert (bench.heard, bench.mine.stopped) == ([QueryAdopted(order=ORDER, handle=STARTED.to_json())], [])


@pytest.mark.turned_clock
async def test_an_orphan_that_is_to_run_again_is_not_ended() -> None:
    bench = Bench()
    bench.away = True
    wanted: list[bool] = []
    bench.queries.end(A0, STARTED.to_json(), lambda: pytest.fail("it has not ended"), still=lambda: not wanted)
    await asyncio.sleep(60)
    wanted.append(True)
    bench.mine.away = False
    await asyncio.sleep(60)
    assert bench.mine.stopped == []


@pytest.mark.turned_clock
async def test_that_a_server_ends_no_orphans_is_said_once_for_all(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.away = True
    ended: list[int] = []
    for number in range(100):
        orphan = replace(STARTED, session_id=f"session {number}")
        bench.queries.end(A0, orphan.to_json(), lambda: ended.append(1), still=lambda: True)
    await asyncio.sleep(600)
    (line,) = caplog.messages
    assert line.startswith("Could not end queries that have no owner, on ")
    bench.mine.away = False
    await eventually(lambda: len(ended) == 100)


async def test_a_query_without_a_known_run_id_is_searched_for() -> None:
    bench = Bench()
    bench.runs = STARTED
    bench.queries.take_over(ORDER, replace(STARTED, run_id=None).to_json())
    await bench.says(QueryAdopted(order=ORDER, handle=STARTED.to_json()))


# ---- servers that say nothing


async def test_a_silent_server_is_no_condition_if_nothing_is_watched_there() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(ServerSilent("it does not answer"))
    bench.queries.let_go({A0})
    assert bench.queries.condition == ""


async def test_the_answer_of_one_server_does_not_end_the_silence_of_another() -> None:
    bench = Bench()
    watch = await bench.watching()
    bench.queries.end(A0, replace(STARTED, server=OTHER).to_json(), lambda: None, still=lambda: True)
    await eventually(lambda: OTHER in bench.watches)
    watch.hear(ServerSilent("it does not answer"))
    bench.watches[OTHER].hear(ServerBack())
    assert bench.queries.condition == SILENT
    await bench.queries.close()


@pytest.mark.turned_clock
async def test_a_watch_that_is_refused_uses_the_new_token() -> None:
    bench = Bench()
    first = await bench.watching()
    bench.token = "new"
    first.hear(ServerSilent("[UNAUTHENTICATED]"))
    await asyncio.sleep(31)
    assert first.closed
    assert bench.mine.watched == {STARTED}
    assert bench.queries.condition == ""
    bench.mine.hear(QueryLost(STARTED, "it was restarted"))
    assert bench.heard == [
        ServersSilent(silent=True, detached=True),
        ServersSilent(silent=False, detached=True),
        SparkLost(order=ORDER, spark=-1, error="it was restarted"),
    ]
    await bench.queries.close()


@pytest.mark.turned_clock
async def test_the_old_settings_are_used_if_they_cannot_be_read_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    first = await bench.watching()
    bench.unreadable = "no connection sc://h?token=tok3n"
    first.hear(ServerSilent("it does not answer"))
    await asyncio.sleep(31)
    assert not first.closed
    assert "Could not read the settings of sc://mine:15002 again: no connection sc://h?token=***" in caplog.text
    await bench.queries.close()


@pytest.mark.turned_clock
async def test_a_server_known_to_be_silent_with_the_new_token_as_well_stays_a_condition() -> None:
    """Another worker of this triggerer already uses the new token, so its silence is reported immediately."""
    bench = Bench()
    first = await bench.watching()
    first.hear(ServerSilent("it does not answer"))
    bench.token, bench.silence = "new", "it does not answer"
    await asyncio.sleep(31)
    assert bench.mine is not first
    assert bench.queries.condition == SILENT
    await bench.queries.close()


@pytest.mark.turned_clock
async def test_a_query_that_is_let_go_of_during_a_token_change_leaves_the_others_watched() -> None:
    bench = Bench()
    first = await bench.watching()
    other, theirs = replace(ORDER, task=TaskId("a", 1)), replace(STARTED, session_id="s1")
    bench.queries.watch(other, theirs.to_json())
    await eventually(lambda: first.watched == {STARTED, theirs})
    closing = asyncio.Event()

    async def close_slowly() -> None:
        closing.set()
        await asyncio.Event().wait()

    first.close = close_slowly  # type: ignore[method-assign]
    bench.token, first.away = "new", True
    bench.queries.stop({A0}, "revoked")
    await asyncio.wait_for(closing.wait(), DEADLINE_S)
    bench.queries.let_go({A0})
    await asyncio.sleep(0)
    assert bench.mine is not first
    assert bench.mine.watched == {theirs}
    await bench.queries.close()


@pytest.mark.turned_clock
async def test_a_stop_uses_the_new_token() -> None:
    bench = Bench()
    watch = await bench.watching()
    bench.token, watch.away = "new", True
    bench.queries.stop({A0}, "revoked")
    await asyncio.sleep(120)
    assert bench.heard[-1] == TaskStopped(order=ORDER, reason="revoked")


@pytest.mark.turned_clock
async def test_a_silent_server_keeps_its_watch_if_the_token_has_not_changed() -> None:
    bench = Bench()
    watch = await bench.watching()
    watch.hear(ServerSilent("it does not answer"))
    await asyncio.sleep(600)
    assert bench.mine is watch
    assert bench.queries.condition == SILENT
    await bench.queries.close()
