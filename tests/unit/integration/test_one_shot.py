"""Topics for code without an event loop: each call has one of its own."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Iterator
from typing import Final

import pytest
from large_topics import END, LargeTopics

from airflow_provider.integration import one_shot
from airflow_provider.integration.one_shot import read_group, run
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicTimeoutError

SETTINGS: Final = KafkaSettings.from_extra({"bootstrap.servers": "nowhere:9"}, conn_id="tests")

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


@pytest.mark.parametrize("takes_it", ["main", "another"])
@pytest.mark.usefixtures("interruptible")
def test_who_is_interrupted_has_its_work_cancelled(takes_it: str) -> None:
    """Another thread takes the signal if it starts one itself at that moment."""
    ended: list[str] = []

    async def endless() -> None:
        taker = threading.main_thread() if takes_it == "main" else threading.current_thread()
        try:
            signal.pthread_kill(taker.ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    with pytest.raises(KeyboardInterrupt):
        run(endless)
    assert ended == ["cancelled"]


def test_a_large_group_is_read_as_long_as_there_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another try would read it from the beginning, and get no further."""
    topics = LargeTopics(0, 7_000, 14_000, END)
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group: topics)
    read_group(SETTINGS, "g")
    assert topics.waits == 3


@pytest.mark.parametrize(("read", "timeout_s", "waits"), [((0, 7_000, 7_000), None, 2), ((0, 7_000, END), 5.0, 1)])
def test_a_group_of_which_no_more_is_read_is_given_up(
    monkeypatch: pytest.MonkeyPatch, read: tuple[int, ...], timeout_s: float | None, waits: int
) -> None:
    topics = LargeTopics(*read)
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group: topics)
    with pytest.raises(TopicTimeoutError):
        read_group(SETTINGS, "g", timeout_s=timeout_s)
    assert topics.waits == waits
