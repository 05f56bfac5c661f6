"""The main thread waits for work on a loop in another thread, and handles signals meanwhile."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest
from waiting import DEADLINE_S, eventually

from airflow_provider.operators.task_process.loop_thread import LoopThread

NUMBER = signal.SIGUSR1


@pytest.fixture
def signalled() -> Iterator[list[int]]:
    """The signals that have been handled."""
    handled: list[int] = []
    before = signal.signal(NUMBER, lambda number, _frame: handled.append(number))
    yield handled
    signal.signal(NUMBER, before)


def test_a_signal_that_another_thread_takes_is_handled(signalled: list[int]) -> None:
    """As happens to one that comes while a thread starts another one: the main thread is not woken."""

    async def work() -> list[int]:
        signal.pthread_kill(threading.get_ident(), NUMBER)
        await eventually(lambda: signalled, "handled")
        return [*signalled]

    thread = LoopThread(work)
    thread.start()
    thread.join()
    assert thread.result() == [NUMBER]


def test_waiting_ends_with_its_time() -> None:
    ended = threading.Event()
    thread = LoopThread(lambda: asyncio.to_thread(ended.wait))
    thread.start()
    assert not thread.join(0.01)
    ended.set()
    assert thread.join(DEADLINE_S)
    assert thread.result()
