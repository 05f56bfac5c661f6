"""An event loop for threads that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from waiting import DEADLINE_S

from airflow_provider.kafka.event_loops.own_loop import OwnLoop


async def nothing() -> None: ...


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


@pytest.fixture
def loop() -> Iterator[OwnLoop]:
    loop = OwnLoop("own-loop")
    yield loop
    loop.close(nothing, DEADLINE_S)


def test_it_begins_once_with_the_first_call(loop: OwnLoop) -> None:
    assert not loop.has_begun
    assert threads_of("own-loop") == []
    called = [threading.Event() for _ in range(2)]
    for event in called:
        loop.call(event.set)
    assert all(event.wait(DEADLINE_S) for event in called)
    assert loop.has_begun
    assert len(threads_of("own-loop")) == 1


def test_what_is_finished_on_it_is_waited_for(loop: OwnLoop) -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(threading.current_thread().name)

    loop.call(lambda: None)
    loop.finish(work, DEADLINE_S)
    assert done == ["own-loop"]


def test_what_takes_too_long_goes_on(loop: OwnLoop) -> None:
    release, done = asyncio.Event(), threading.Event()

    async def work() -> None:
        await release.wait()
        done.set()

    loop.call(lambda: None)
    with pytest.raises(TimeoutError, match="within 0 s"):
        loop.finish(work, 0)
    loop.call(release.set)
    assert done.wait(DEADLINE_S)


def test_where_it_has_not_begun_there_is_nothing_to_finish(loop: OwnLoop) -> None:
    loop.finish(nothing, DEADLINE_S)
    assert not loop.has_begun


def test_closed_it_has_no_thread_and_does_nothing_more() -> None:
    loop, ended, called = OwnLoop("own-loop"), threading.Event(), threading.Event()

    async def end() -> None:
        ended.set()

    loop.call(lambda: None)
    loop.close(end, DEADLINE_S)
    assert ended.is_set()
    loop.call(called.set)
    loop.finish(nothing, DEADLINE_S)
    loop.close(end, DEADLINE_S)
    assert threads_of("own-loop") == []
    assert not loop.has_begun
    assert not called.is_set()
