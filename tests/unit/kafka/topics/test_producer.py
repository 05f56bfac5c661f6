"""What it costs an event loop that its records are stored, and what it hears of those that are not."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from waiting import DEADLINE_S, eventually

from airflow_provider.kafka import lasting_producer
from airflow_provider.kafka.topics import producer
from airflow_provider.kafka.topics.errors import TopicError, UnsureError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.producer import NewRecord, TopicWriter

Delivered = Callable[[Any, Any], None]


class Stored:
    """What librdkafka hands to a callback."""

    def offset(self) -> int:
        return 7


class HeldProducer:
    """A producer whose records are stored, all together, when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, Delivered]] = []
        self.refuse: set[str] = set()
        self.go = threading.Event()
        self.stores_at_once = False

    def produce(self, _topic: str, *, key: bytes, value: bytes | None, partition: int, on_delivery: Delivered) -> None:
        if key.decode() in self.refuse:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.waiting.append((key.decode(), on_delivery))
        if self.stores_at_once:
            self.go.set()

    def poll(self, timeout: float) -> int:
        if not self.go.wait(timeout):
            return 0
        self.go.clear()
        stored, self.waiting = self.waiting, []
        for _key, on_delivery in stored:
            on_delivery(None, Stored())
        return len(stored)

    def list_topics(self, timeout: float) -> None: ...

    def flush(self, timeout: float) -> None: ...

    def purge(self) -> None:
        purged, self.waiting = self.waiting, []
        for _key, on_delivery in purged:
            on_delivery(KafkaError(KafkaError._PURGE_QUEUE), None)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldProducer:
    made = HeldProducer()
    monkeypatch.setattr(producer, "make_client", lambda _kind, _config: made)
    return made


@pytest.fixture
def writer(held: HeldProducer) -> Iterator[TopicWriter]:
    made = TopicWriter({}, Outage("nowhere:9"))
    yield made
    made.close()


async def test_a_loop_is_woken_once_for_all_that_is_stored_together(
    held: HeldProducer, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    woken: list[Callable[..., object]] = []
    wake = loop.call_soon_threadsafe

    def count(callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        woken.append(callback)
        return wake(callback, *args, context=context)

    monkeypatch.setattr(loop, "call_soon_threadsafe", count)
    writes = [
        asyncio.ensure_future(
            writer.write(NewRecord("g.status", f"task:a:{i}", b""), NewRecord("g.events", f"task:a:{i}", b""))
        )
        for i in range(100)
    ]
    await asyncio.sleep(0)
    assert len(held.waiting) == 200, "both records of each are on their way before either is waited for"
    held.go.set()
    await asyncio.gather(*writes)
    assert len(woken) == 1


async def test_what_is_refused_is_told_when_the_rest_is_stored(held: HeldProducer, writer: TopicWriter) -> None:
    held.refuse = {"task:a:0"}
    write = asyncio.ensure_future(
        writer.write(NewRecord("g.status", "task:a:0", b""), NewRecord("g.events", "task:a:1", b""))
    )
    await asyncio.sleep(0)
    assert not write.done()
    held.go.set()
    with pytest.raises(TopicError, match=r"task:a:0.*size"):
        await write
    with pytest.raises(TopicError, match=r"task:a:0.*size"):
        await writer.write(NewRecord("g.status", "task:a:0", b""))


async def test_whoever_waits_no_more_keeps_no_one_else_waiting(held: HeldProducer, writer: TopicWriter) -> None:
    gone, other = (asyncio.ensure_future(writer.write(NewRecord("g.status", f"task:a:{i}", b""))) for i in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    held.go.set()
    await other
    assert gone.cancelled()


async def test_what_librdkafka_neither_stores_nor_fails_is_failed_in_time_and_the_next_record_is_written(
    held: HeldProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has lost its connection in the moment in which it was given a record. A real one does that now and then."""
    monkeypatch.setattr(lasting_producer, "_OVERDUE_S", 0.2)
    writer = TopicWriter({}, Outage("nowhere:9"), delivery_timeout_ms=0)
    try:
        with pytest.raises(UnsureError, match=r"task:a:0.*may be stored all the same"):
            await writer.write(NewRecord("g.status", "task:a:0", b""))
        assert not held.waiting, "it is not stored after later ones"
        held.stores_at_once = True
        await writer.write(NewRecord("g.status", "task:a:0", b""))
    finally:
        writer.close()


class Keeps(HeldProducer):
    """It says nothing of a record that was purged, or given to it after that."""

    def purge(self) -> None:
        self.waiting.clear()

    def flush(self, timeout: float) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the loop would wait"


class Ended(HeldProducer):
    """An earlier record has ended it, which nobody has heard of yet."""

    def produce(self, _topic: str, *, key: bytes, value: bytes | None, partition: int, on_delivery: Delivered) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "Local: Fatal error"))


async def test_what_a_producer_does_not_take_after_a_fatal_error_is_written_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[HeldProducer] = []

    def make(_kind: object, _config: object) -> HeldProducer:
        made.append(HeldProducer() if made else Ended())
        return made[-1]

    monkeypatch.setattr(producer, "make_client", make)
    writer = TopicWriter({}, Outage("nowhere:9"))
    try:
        write = asyncio.ensure_future(writer.write(NewRecord("g.status", "task:a:0", b"")))
        await asyncio.sleep(0)
        made[-1].go.set()
        await write
        assert len(made) == 2
    finally:
        writer.close()


async def test_a_producer_is_destroyed_when_no_call_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the thread that comes back would destroy it, and nobody would hear of the next one's results."""
    polled, back, destroyed_by = threading.Event(), threading.Event(), []

    class Polled(Ended):
        def poll(self, timeout: float) -> int:
            polled.set()
            assert back.wait(DEADLINE_S)
            return 0

    def make(_kind: object, _config: object) -> HeldProducer:
        if polled.is_set():
            return HeldProducer()
        made = Polled()
        weakref.finalize(made, lambda: destroyed_by.append(threading.current_thread().name))
        return made

    monkeypatch.setattr(producer, "make_client", make)
    writer = TopicWriter({}, Outage("nowhere:9"))
    try:
        await eventually(polled.is_set)
        writer.write(NewRecord("g.status", "task:a:0", b""))
        assert not destroyed_by
        back.set()
        await eventually(lambda: destroyed_by)
    finally:
        back.set()
        writer.close()
    assert destroyed_by == ["cospark-discarded-client"]


async def test_a_record_that_is_never_told_of_is_given_up_once_and_blocks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[HeldProducer] = []

    def make(_kind: object, _config: object) -> HeldProducer:
        made.append(HeldProducer() if made else Keeps())
        made[-1].stores_at_once = len(made) > 1
        return made[-1]

    monkeypatch.setattr(producer, "make_client", make)
    monkeypatch.setattr(lasting_producer, "_OVERDUE_S", 0.2)
    writer = TopicWriter({}, Outage("nowhere:9"), delivery_timeout_ms=0)
    try:
        with pytest.raises(UnsureError):
            await writer.write(NewRecord("g.status", "task:a:0", b""))
        await writer.write(NewRecord("g.status", "task:a:0", b""))
        assert len(made) == 2, "what was given up is not given up again"
    finally:
        writer.close()


async def test_what_is_given_up_is_told_of_once(held: HeldProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is stored after all counts no more: its caller has been told, and may have written it again."""
    monkeypatch.setattr(lasting_producer, "_OVERDUE_S", 0.2)
    monkeypatch.setattr(held, "purge", lambda: None)
    writer = TopicWriter({}, Outage("nowhere:9"), delivery_timeout_ms=0)
    try:
        with pytest.raises(UnsureError):
            await writer.write(NewRecord("g.status", "task:a:0", b""))
        held.stores_at_once = True
        await writer.write(NewRecord("g.status", "task:a:0", b""))
    finally:
        writer.close()


async def test_a_new_producer_that_can_t_be_made_fails_a_record_and_not_the_writer(
    held: HeldProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of an authority is away for a moment, say."""
    monkeypatch.setattr(lasting_producer, "_OVERDUE_S", 0.2)
    writer = TopicWriter({}, Outage("nowhere:9"), delivery_timeout_ms=0)

    def refuse(_kind: object, _config: object) -> HeldProducer:
        raise TopicError("librdkafka refuses the connection's settings: no such file")

    try:
        monkeypatch.setattr(producer, "make_client", refuse)
        with pytest.raises(UnsureError):
            await writer.write(NewRecord("g.status", "task:a:0", b""))
        with pytest.raises(TopicError, match="no such file"):
            await writer.write(NewRecord("g.status", "task:a:0", b""))
        monkeypatch.setattr(producer, "make_client", lambda _kind, _config: held)
        held.stores_at_once = True
        await writer.write(NewRecord("g.status", "task:a:0", b""))
    finally:
        writer.close()
