"""Who looks at a large group sees how far it has been read."""

from __future__ import annotations

import asyncio
import gc

import pytest
from stand_ins import MemoryTopics
from waiting import DEADLINE_S, eventually

from airflow_provider.cli.shared import reading
from airflow_provider.cli.shared.reading import read_on, reading_in_words, without_collector
from airflow_provider.kafka.topics.errors import NoTopicError


class SlowTopics(MemoryTopics):
    """Is read to its end when the test says so."""

    def __init__(self) -> None:
        super().__init__("g")
        self.whole = asyncio.Event()

    @property
    def unread(self) -> dict[str, tuple[int, int]]:
        return {} if self.whole.is_set() else {"g.status": (3_000, 22_503)}

    async def catch_up(self, *, timeout_s: float | None = None) -> None:
        await self.whole.wait()
        await super().catch_up(timeout_s=timeout_s)


async def test_what_is_still_being_read_is_told_until_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_S", 0.01)
    topics, told = SlowTopics(), []

    def tell() -> None:
        told.append(reading_in_words(topics))
        if len(told) == 2:
            topics.whole.set()  # the last word before the end

    await asyncio.wait_for(read_on(topics, tell), DEADLINE_S)
    assert told == ["still reading g.status (3,000 of 22,503 records)"] * 2


async def test_by_default_standard_error_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_S", 0.01)
    topics = SlowTopics()
    going_on = asyncio.ensure_future(read_on(topics))
    await eventually(lambda: capsys.readouterr().err.startswith("group g: still reading g.status (3,000 of 22,503"))
    topics.whole.set()
    await asyncio.wait_for(going_on, DEADLINE_S)


async def test_what_is_read_soon_is_not_spoken_of_and_what_is_wrong_is_raised() -> None:
    topics = SlowTopics()
    topics.whole.set()
    await read_on(topics, lambda: pytest.fail("it was read immediately"))

    topics.failing = NoTopicError("g.jobs")
    with pytest.raises(NoTopicError):
        await read_on(topics, lambda: pytest.fail("there is nothing to read"))


def test_the_collector_rests_only_as_long() -> None:
    assert gc.isenabled()
    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
