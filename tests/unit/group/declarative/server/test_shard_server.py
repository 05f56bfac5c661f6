"""What a coordinator process does with what its consumer says; the consumer is one that the test speaks for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, TopicPartition
from echo_machine import SESSION_MS, SHORT, SHORT_MS, EchoMachine
from shard_log import MemoryLog, raw
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.protocol.exchange import RawRequest
from airflow_provider.group.declarative.protocol.sharding import REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.server import server as server_module
from airflow_provider.group.declarative.server.errors import FencedError, ShardError
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.group.declarative.server.request_handling.inbox import Inbox
from airflow_provider.group.declarative.server.server import ShardServer
from airflow_provider.group.declarative.server.shard_topics import ShardTopics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import LastingError, RightsError, TopicError
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.kafka.trouble import Trouble

SETTINGS = {"bootstrap.servers": "broker:9092", "sasl.username": "etl", "session.timeout.ms": 7}


class Message:
    def __init__(self, partition: int, request: RawRequest, error: KafkaError | None = None) -> None:
        self._partition = partition
        self._request = request
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._request.offset

    def key(self) -> bytes | None:
        return self._request.key

    def value(self) -> bytes | None:
        return self._request.value


class Consuming:
    """A consumer: what is put in ``messages`` comes, unless its partition is paused."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.paused: set[int] = set()
        self.committed_to = 5
        self.sought: list[int] = []

    def poll(self, timeout: float) -> Message | None:
        coming = next((each for each in self.messages if each.partition() not in self.paused), None)
        if coming is None:
            time.sleep(0.001)
        else:
            self.messages.remove(coming)
        return coming

    def consume(self, most: int, timeout: float) -> list[Message]:
        coming = [each for each in self.messages if each.partition() not in self.paused]
        self.messages = [each for each in self.messages if each.partition() in self.paused]
        return coming

    def consumer_group_metadata(self) -> object:
        return self

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None: ...

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None: ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused -= {each.partition for each in partitions}

    def committed(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, self.committed_to) for each in partitions]

    def seek(self, partition: TopicPartition) -> None:
        self.sought.append(partition.offset)


class Heard:
    """What a server says of its shards."""

    def __init__(self) -> None:
        self.of_shards: list[Mapping[int, float]] = []
        self.failures = 0

    def unserved(self, unserved_s: Mapping[int, float]) -> None:
        self.of_shards.append(unserved_s)

    def failed(self) -> None:
        self.failures += 1


class Process:
    """A coordinator process without its thread: the test has it take its turns."""

    def __init__(self, log: MemoryLog) -> None:
        settings = KafkaSettings.from_extra(SETTINGS, conn_id="kafka")
        self.heard = Heard()
        layout = Layout(shards=1, replies=2)
        self.server = ShardServer(settings, EchoMachine, make=layout, observer=self.heard)
        self.consumer = Consuming()
        self.log = log

    def turns(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            self.server._turn(self.consumer)  # type: ignore[arg-type]

    def assigned(self) -> None:
        self.server._assigned(self.consumer, [TopicPartition(REQUESTS_TOPIC, 0)])  # type: ignore[arg-type]

    def revoked(self) -> None:
        self.server._revoked(self.consumer, [TopicPartition(REQUESTS_TOPIC, 0)])  # type: ignore[arg-type]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    one = Process(MemoryLog())

    def open_log(
        config: Mapping[str, Any],
        shard: int,
        shards: int,
        *,
        group: Callable[[], object],
        renewed: bool,
    ) -> MemoryLog:
        return one.log

    monkeypatch.setattr(server_module, "KafkaShardLog", open_log)
    monkeypatch.setattr(server_module, "_FENCED_REST_S", 0.001)
    one.server._jobs.follow = lambda *_: None  # type: ignore[method-assign]
    one.server._jobs.look = lambda group, put: put(Seen(group))  # type: ignore[method-assign]
    yield one
    one.revoked()


def test_requests_wait_until_their_shard_is_loaded(process: Process) -> None:
    process.consumer.messages = [Message(0, raw(0)), Message(0, raw(1))]
    process.assigned()
    assert process.consumer.paused == {0}
    process.turns(lambda: len(process.log.answers) == 2)
    assert process.server.served == {0}
    assert process.consumer.paused == set()


def test_what_is_too_much_waits_in_its_topic(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FULL", 2)
    process.assigned()
    process.turns(lambda: process.server.served)
    inbox = process.server._shards[0].inbox
    with inbox._changed:  # the shard's thread takes nothing meanwhile
        process.consumer.messages = [Message(0, raw(offset)) for offset in range(5)]
        process.turns(lambda: process.consumer.paused == {0})
    process.turns(lambda: len(process.log.answers) == 5 and not process.consumer.paused)


def test_it_is_told_of_each_shard_whether_it_is_served(process: Process) -> None:
    process.turns(lambda: process.heard.of_shards == [{}])
    process.log.loads.clear()
    process.assigned()
    process.turns(lambda: process.heard.of_shards[-1].get(0, 0) > 0)
    process.log.loads.set()
    process.turns(lambda: process.heard.of_shards[-1] == {0: 0})


def test_a_shard_that_is_revoked_is_served_no_more(process: Process) -> None:
    process.assigned()
    process.turns(lambda: process.server.served)
    process.revoked()
    assert process.server.served == frozenset()
    process.consumer.messages = [Message(0, raw(0))]
    process.turns(lambda: not process.consumer.messages)
    assert process.log.answers == {}


def test_that_a_shard_is_served_no_more_is_said_if_it_was_said_that_it_is(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    process.assigned()
    process.turns(lambda: process.server.served)
    process.revoked()
    assert [record.message[:15] for record in caplog.records] == ["serving shard 0", "shard 0 is no l"]
    caplog.clear()
    process.log.fails_to_load = [FencedError("by who has it now")]
    process.assigned()
    process.turns(lambda: not process.log.fails_to_load)
    process.revoked()
    assert caplog.records == []


def test_a_consumer_that_reads_no_more_is_replaced(process: Process) -> None:
    """Whoever serves with it ends, and begins anew."""
    process.assigned()
    process.turns(lambda: process.server.served)
    process.server._shards[0]._when_starved(ShardError("the requests of shard 0 are not read"))
    with pytest.raises(ShardError, match="are not read"):
        process.turns(lambda: False)


class Failing(ShardServer):
    """Its topics can't be used so many times.

    :ivar faults: what is wrong with them
    """

    faults: Sequence[Exception] = ()

    def _prepare(self) -> None:
        if self.faults:
            wrong, *self.faults = self.faults
            raise wrong

    def _serve(self) -> None:
        self._log_recovery()
        self._closing.wait()


def test_why_no_shards_are_served_is_said_once_and_once_that_they_can_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(server_module, "_FIRST_REST_S", 0.001)
    server = Failing(KafkaSettings.from_extra(SETTINGS, conn_id="kafka"), EchoMachine)
    server.faults = [TopicError("one is gone"), TopicError("one is gone"), TopicError("two are gone")]
    server.start()
    wait_until(lambda: len(caplog.records) >= 3)
    server.close()
    trying = "trying again until some can be"
    one, two, again = (record.message for record in caplog.records)
    assert (one, two) == (
        f"no shards are served: one is gone; {trying}",
        f"no shards are served: two are gone; {trying}",
    )
    assert again.startswith("shards can be served again, after ")


def test_it_is_tried_again_before_a_tenth_of_the_shortest_session_is_over_and_said_for_how_long(
    process: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Members must hear of the end of an outage while their sessions last, however often it has failed."""

    class Lasting(Trouble):
        @property
        def lasts_s(self) -> float:
            return 46.0

    process.assigned()
    process.turns(lambda: process.server.served)
    process.consumer.messages = [Message(0, raw(0, group=SHORT))]
    process.turns(lambda: 0 in process.log.answers)
    process.revoked()
    rests: list[float] = []

    def wait(rest_s: float) -> None:
        rests.append(rest_s)
        if len(rests) == 9:
            process.server._closing.set()

    def fail() -> None:
        raise TopicError("no broker answers")

    monkeypatch.setattr(process.server._closing, "wait", wait)
    monkeypatch.setattr(process.server, "_prepare", fail)
    monkeypatch.setattr(process.server, "_trouble", Lasting())
    process.server._run()
    assert max(rests) == rests[-1] == SHORT_MS / 10_000
    assert process.heard.failures == len(rests), "no shard is assigned to it, so nothing else tells of it"
    assert caplog.records[-1].message == (
        "no shards are served: no broker answers; trying again until some can be; none has been for 46 s"
    )


def test_nothing_is_served_before_the_number_of_shards_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare_shards(_topics: ShardTopics, *, timeout_s: float, make: Layout) -> Layout:
        return Layout(shards=8, replies=16)

    def check_shards(_config: object, shards: int) -> None:
        raise TopicError(f"not in {shards} shards")

    monkeypatch.setattr(ShardTopics, "prepare_shards", prepare_shards)
    monkeypatch.setattr(server_module, "check_shards", check_shards)
    with pytest.raises(TopicError, match="not in 8 shards"):
        ShardServer(KafkaSettings.from_extra(SETTINGS, conn_id="kafka"), EchoMachine)._prepare()


@pytest.mark.parametrize(
    ("wrong", "ends"),
    [
        (LastingError("delete both topics"), True),
        (RightsError([Right("__worker_requests", Operation.READ)]), True),
        (ShardError("no broker can tell"), False),
        (TopicError("who knows"), False),
    ],
)
def test_what_lasts_until_people_act_is_told_to_who_runs_it(
    process: Process, monkeypatch: pytest.MonkeyPatch, wrong: TopicError, ends: bool
) -> None:
    """Nobody reads the log of a coordinator that only waits."""

    def fail() -> None:
        process.server._closing.set()
        raise wrong

    monkeypatch.setattr(process.server, "_prepare", fail)
    process.server._run()
    assert process.server.refusal is (wrong if ends else None)


@pytest.mark.parametrize(("committed_to", "begins_at"), [(5, 5), (OFFSET_INVALID, OFFSET_BEGINNING)])
def test_one_that_was_fenced_by_a_zombie_begins_again_where_the_group_is(
    process: Process, committed_to: int, begins_at: int
) -> None:
    process.consumer.committed_to = committed_to
    process.assigned()
    process.turns(lambda: process.server.served)
    process.log.errors = [FencedError("by a zombie")]
    process.consumer.messages = [Message(0, raw(0))]
    process.turns(lambda: process.log.opened == 2)
    process.turns(lambda: process.server.served)
    assert process.consumer.sought == [begins_at]


def test_it_begins_again_before_a_tenth_of_the_shortest_session_is_over(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    class Timer(threading.Timer):
        def __init__(self, interval: float, function: Any, args: Any = None, kwargs: Any = None) -> None:
            rests.append(interval)
            super().__init__(0, function, args, kwargs)

    monkeypatch.setattr(server_module, "_FENCED_REST_S", 3.0)
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(Inbox, "rest", lambda _inbox, rest_s: rests.append(rest_s))
    process.assigned()
    process.turns(lambda: process.server.served)
    fenced = [raw(0), raw(1, group=SHORT), raw(2)]
    for request, session_ms in zip(fenced, (SESSION_MS, SHORT_MS, SHORT_MS), strict=True):
        process.consumer.messages = [Message(0, request)]
        process.turns(lambda: request.offset in process.log.answers)  # noqa: B023  called in here
        process.log.errors = [FencedError("by a zombie")]
        process.log.fails_to_load = [ShardError("no broker answers") for _ in range(5)]
        process.consumer.messages = [Message(0, raw(9))]
        opened = process.log.opened
        process.turns(lambda: process.log.opened > opened + 5 and process.server.served)  # noqa: B023  called in here
        assert max(rests) == rests[-1] == session_ms / 10_000, rests
        rests.clear()


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "READ on the group '__worker_coordinators'", RightsError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "READ on the topic '__worker_requests'", RightsError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "can't be read", ShardError),
    ],
)
def test_what_people_must_do_something_about(process: Process, code: int, said: str, kind: type[Exception]) -> None:
    process.consumer.messages = [Message(0, raw(0), KafkaError(code))]
    with pytest.raises(kind, match=said):
        process.turns(lambda: False)


def test_what_passes_by_itself_ends_nothing(process: Process) -> None:
    process.assigned()
    broken = Message(0, raw(0), KafkaError(KafkaError._TRANSPORT))
    process.consumer.messages = [broken, Message(0, raw(1))]
    process.turns(lambda: 1 in process.log.answers)


def test_the_consumer_group_is_not_the_connections_matter() -> None:
    config = ShardServer(KafkaSettings.from_extra(SETTINGS, conn_id="kafka"), EchoMachine)._consumer_config()
    assert config["group.protocol"] == "consumer"
    assert "session.timeout.ms" not in config
    assert config["isolation.level"] == "read_committed"
