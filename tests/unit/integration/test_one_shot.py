"""Topics for code without an event loop: each call has one of its own."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Iterator

import pytest

from airflow_provider.integration.one_shot import _Collector, run

_WHOSE = contextvars.ContextVar("_WHOSE", default="nobody's")


async def whose() -> tuple[str, bool]:
    await asyncio.sleep(0)
    return _WHOSE.get(), threading.current_thread() is threading.main_thread()


def test_the_main_thread_is_left_to_signals_and_the_log_is_the_callers() -> None:
    _WHOSE.set("mine")
    assert run(whose) == ("mine", False)


async def test_it_does_under_a_running_loop_too() -> None:
    _WHOSE.set("a trigger's")
    assert run(whose) == ("a trigger's", False)


def test_what_is_raised_comes_out_and_nothing_is_left_behind() -> None:
    async def fails() -> None:
        raise KeyError("x")

    threads = threading.active_count()
    with pytest.raises(KeyError, match="x"):
        run(fails)
    assert threading.active_count() == threads


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell has started in the background ignores Ctrl-C, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_who_is_interrupted_has_its_work_cancelled() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    with pytest.raises(KeyboardInterrupt):
        run(endless)
    assert ended == ["cancelled"]


def test_a_topic_without_records_has_been_read_to_its_end() -> None:
    assert _Collector("cospark.g.events", end=0).done.done()
    assert not _Collector("cospark.g.events", end=1).done.done()
