"""What one loop shares is opened for its first user, closed after its last one, and never twice at a time."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from waiting import eventually

from airflow_provider.group.live import shared
from airflow_provider.group.live.shared import _Pool
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError
from airflow_provider.state.reports import standing


class Things:
    """Makes numbered things, when the test lets it."""

    def __init__(self) -> None:
        self.made = 0
        self.closed: list[int] = []
        self.ready = asyncio.Event()
        self.ready.set()
        self.failure: Exception | None = None
        self.pool: _Pool[int] = _Pool(self.close)

    async def make(self) -> int:
        await self.ready.wait()
        if self.failure is not None:
            raise self.failure
        self.made += 1
        return self.made

    async def close(self, thing: int) -> None:
        await asyncio.sleep(0)
        self.closed.append(thing)

    async def use(self, until: asyncio.Event) -> int:
        async with self.pool.use("key", self.make) as thing:
            await until.wait()
            return thing


async def test_all_who_use_it_at_a_time_use_the_same() -> None:
    things, until = Things(), asyncio.Event()
    users = [asyncio.ensure_future(things.use(until)) for _ in range(3)]
    await eventually(lambda: things.made)
    assert things.closed == []
    until.set()
    assert await asyncio.gather(*users) == [1, 1, 1]
    assert things.closed == [1]
    assert await things.use(until) == 2, "the next user gets another"
    assert things.closed == [1, 2]


async def test_a_user_who_gives_up_while_it_is_opened_does_not_end_it_for_the_others() -> None:
    things, until = Things(), asyncio.Event()
    things.ready.clear()
    impatient, patient = (asyncio.ensure_future(things.use(until)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await impatient
    things.ready.set()
    until.set()
    assert await patient == 1
    assert things.closed == [1]


async def test_what_nobody_waits_for_any_more_is_not_opened() -> None:
    things = Things()
    things.ready.clear()
    user = asyncio.ensure_future(things.use(asyncio.Event()))
    await asyncio.sleep(0)
    user.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await user
    assert len(asyncio.all_tasks()) == 1, "the opening has ended, too"
    assert (things.made, things.closed) == (0, [])


async def test_what_cannot_be_opened_fails_all_who_wait_and_is_tried_again_for_the_next() -> None:
    things, until = Things(), asyncio.Event()
    until.set()
    things.failure = OSError("no broker")
    failed = await asyncio.gather(things.use(until), things.use(until), return_exceptions=True)
    assert [str(error) for error in failed] == ["no broker", "no broker"]
    things.failure = None
    assert await things.use(until) == 1


async def test_an_error_of_its_user_closes_it() -> None:
    things = Things()
    with pytest.raises(ValueError, match="mine"):
        async with things.pool.use("key", things.make):
            raise ValueError("mine")
    assert things.closed == [1]


async def test_a_user_for_whom_it_can_not_be_made_ready_is_none() -> None:
    things, until = Things(), asyncio.Event()
    other = asyncio.ensure_future(things.use(until))

    async def refuse(thing: int) -> None:
        raise NoTopicError(str(thing))

    with pytest.raises(NoTopicError, match="1"):
        async with things.pool.use("key", things.make, refuse):
            raise AssertionError("it was not ready")
    assert things.closed == [], "the other one uses it still"
    until.set()
    await other
    assert things.closed == [1]


class NotMadeYet:
    """Topics of a group that somebody makes when they have been asked for often enough."""

    def __init__(self, after: int) -> None:
        self.asked, self.after = 0, after

    async def start_for(self, _needs: object) -> None:
        self.asked += 1
        if self.asked <= self.after:
            raise NoTopicError("typo.jobs")

    async def catch_up(self) -> None: ...

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(("every_s", "said"), [(600.0, 1), (0.0, 4)])
async def test_who_waits_for_a_group_that_nobody_has_made_says_so_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, every_s: float, said: int
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(shared, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(shared, "_LONGEST_PAUSE_S", 0.001)
    monkeypatch.setattr(standing, "SAY_AGAIN_S", every_s)
    monkeypatch.setattr(shared, "GroupTopics", lambda _settings, _group: NotMadeYet(after=4))
    settings = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092"}, conn_id="c")
    async with shared.watched_topics(settings, "typo"):
        assert caplog.text.count("Waiting for the group's topics: the topic 'typo.jobs' does not exist") == said
