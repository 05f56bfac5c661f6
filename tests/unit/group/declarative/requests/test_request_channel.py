"""How members of declarative groups ask: what is written, what is waited for, and what if nobody answers."""

from __future__ import annotations

import asyncio
import logging
import queue
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from messages import reply_to
from waiting import eventually

from airflow_provider.group.declarative.protocol.model import MemberEpoch
from airflow_provider.group.declarative.protocol.sharding import REPLIES_TOPIC, REQUESTS_TOPIC, partition_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    Request,
    decode_request,
    encode_reply,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
)
from airflow_provider.group.declarative.requests import worker_requests
from airflow_provider.group.declarative.requests.request_channel import KafkaChannel, NoReplyError
from airflow_provider.group.declarative.requests.worker_requests import NoCoordinatorsError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import BrokerAwayError, NoLeaderError, TopicRightsError
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId

SETTINGS = KafkaSettings(conn_id="k", values=(("bootstrap.servers", "b:9092"), ("client.id", "me")))
BODY = ConnectGroupHeartbeatRequest(group_id="g", member_id=MemberId("m"), member_epoch=MemberEpoch(5))


class Message:
    def __init__(self, key: bytes, value: bytes, error: KafkaError | None = None, offset: int = 40) -> None:
        self._key, self._value, self._error, self._offset = key, value, error, offset

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset


class Partitions:
    def __init__(self, count: int, error: KafkaError | None = None) -> None:
        self.partitions, self.error = dict.fromkeys(range(count)), error


class Broker:
    """Both clients, and what lies between them.

    :ivar answers: whether requests are answered; ``answers_with`` says how
    :ivar missing: how often the topics are looked for in vain
    :ivar unled: how often their leader is
    :ivar end: of each partition of the replies
    :ivar faults: what goes wrong with the consumer
    :ivar made: which clients were made
    """

    def __init__(self) -> None:
        self.answers = True
        self.answers_with = KafkaErrorCode.NONE
        self.missing = 0
        self.unled = 0
        self.refuses: KafkaError | None = None
        self.requests: list[tuple[int, Request]] = []
        self.replies: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.delivered: list[tuple[Callable[[Any, Any], None], KafkaError | None]] = []
        self.assigned: list[TopicPartition] = []
        self.partitions = 3
        self.end = 40
        self.faults: list[Exception | KafkaError] = []
        self.made: list[object] = []
        self.closed = 0

    # ---- a producer

    def produce(
        self, topic: str, *, key: bytes, value: bytes, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        assert topic == REQUESTS_TOPIC
        request = decode_request(value)
        self.requests.append((partition, request))
        self.delivered.append((on_delivery, self.refuses))
        if self.answers and self.refuses is None:
            assert isinstance(request.body, ConnectGroupHeartbeatRequest)
            reply = ConnectGroupHeartbeatResponse(
                member_epoch=request.body.member_epoch, heartbeat_interval_ms=1, error_code=self.answers_with
            )
            self.replies.put(Message(key, encode_reply(reply_to(request, reply)), offset=self.end))
            self.end += 1

    def purge(self) -> None: ...

    def flush(self, _timeout: float) -> None: ...

    # ---- a consumer, which is polled as the producer is, with another meaning

    def poll(self, timeout: float) -> Message | None:
        if not timeout:
            delivered, self.delivered = self.delivered, []
            for on_delivery, error in delivered:
                on_delivery(error, None)
            return None
        if self.faults:
            fault = self.faults.pop()
            if isinstance(fault, KafkaError):
                return Message(b"", b"", fault)
            raise fault
        try:
            return self.replies.get(timeout=timeout)
        except queue.Empty:
            return None

    def consume(self, _most: int, _timeout: float) -> list[Message]:
        return []

    def list_topics(self, topic: str, timeout: float) -> Any:  # as librdkafka calls it
        if self.missing:
            self.missing -= 1
            return type("Found", (), {"topics": {topic: Partitions(0, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))}})
        return type("Found", (), {"topics": {topic: Partitions(self.partitions)}})

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.unled:
            self.unled -= 1
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        return 0, self.end

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    def make(kind: object, _config: object) -> Broker:
        made.made.append(kind)
        return made

    monkeypatch.setattr(worker_requests, "make_client", make)
    monkeypatch.setattr(worker_requests, "_POLL_S", 0.01)
    monkeypatch.setattr(worker_requests, "_LOOK_S", 0.001)
    monkeypatch.setattr(worker_requests, "_LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(worker_requests, "_REST_S", 0.0)
    return made


@pytest.fixture
async def channel(broker: Broker) -> AsyncIterator[KafkaChannel]:
    opened = KafkaChannel(SETTINGS)
    await opened.open()
    yield opened
    assert worker_requests._open.own
    await opened.aclose()
    assert broker.closed >= 1
    assert not worker_requests._open.own


async def test_a_request_lies_in_its_shard_and_its_reply_comes_to_who_asked(
    broker: Broker, channel: KafkaChannel
) -> None:
    replies = await asyncio.gather(*(channel.ask(BODY, timeout_s=60) for _ in range(3)))
    assert [reply.member_epoch for reply in replies if isinstance(reply, ConnectGroupHeartbeatResponse)] == [5, 5, 5]
    assert {partition for partition, _ in broker.requests} == {partition_of("g", 3)}
    headers = [request.header for _, request in broker.requests]
    assert len({header.correlation_id for header in headers}) == 3
    assert all(header.client_id == "me" and header.client_host for header in headers)
    (mine,) = broker.assigned
    assert (mine.topic, mine.partition, mine.offset) == (REPLIES_TOPIC, headers[0].reply_partition, 40)


async def test_replies_to_others_and_to_nobody_are_passed_over(broker: Broker, channel: KafkaChannel) -> None:
    broker.answers = False
    asking = asyncio.ensure_future(channel.ask(BODY, timeout_s=60))
    await eventually(lambda: broker.requests)
    request = broker.requests[0][1]
    reply = encode_reply(
        reply_to(request, ConnectGroupHeartbeatResponse(member_epoch=MemberEpoch(9), heartbeat_interval_ms=1))
    )
    broker.replies.put(Message(b"somebody else", reply))
    broker.replies.put(Message(channel._requests._reader.encode(), b"\xff"))
    broker.answers = True
    await channel.ask(BODY, timeout_s=60)
    assert not asking.done()
    broker.replies.put(Message(channel._requests._reader.encode(), reply))
    answered = await asking
    assert isinstance(answered, ConnectGroupHeartbeatResponse)
    broker.replies.put(Message(channel._requests._reader.encode(), reply))
    await channel.ask(BODY, timeout_s=60)


async def test_what_nobody_answers_has_no_reply(broker: Broker, channel: KafkaChannel) -> None:
    broker.answers = False
    with pytest.raises(NoReplyError, match=r"within 0.01 s"):
        await channel.ask(BODY, timeout_s=0.01)
    assert not channel._waiting


async def goes_unanswered(broker: Broker, channel: KafkaChannel) -> None:
    broker.answers = False
    with pytest.raises(NoReplyError):
        await channel.ask(BODY, timeout_s=0.001)
    await eventually(lambda: not channel._requests._doubtful.is_set())


async def test_replies_are_read_on_where_they_were_if_nobody_answers(broker: Broker, channel: KafkaChannel) -> None:
    before = broker.assigned
    await goes_unanswered(broker, channel)
    assert broker.assigned is before


async def test_replies_are_read_from_the_beginning_of_a_topic_that_was_made_anew(
    broker: Broker, channel: KafkaChannel
) -> None:
    broker.end = 2
    await goes_unanswered(broker, channel)
    await eventually(lambda: [each.offset for each in broker.assigned] == [0])


async def test_topics_that_were_made_anew_with_other_partitions_are_found_again(
    broker: Broker, channel: KafkaChannel
) -> None:
    broker.partitions = 97
    await goes_unanswered(broker, channel)
    reader = channel._requests._reader
    await eventually(lambda: [each.partition for each in broker.assigned] == [partition_of(reader, 97)])
    broker.answers = True
    await channel.ask(BODY, timeout_s=60)
    partition, request = broker.requests[-1]
    assert partition == partition_of("g", 97)
    assert request.header.reply_partition == partition_of(reader, 97)


async def is_found_after_one_try(broker: Broker, channel: KafkaChannel) -> None:
    """The next request lies in the partition that its group has now."""
    await eventually(lambda: channel._requests._shards == 97)
    broker.answers, broker.refuses, broker.answers_with = True, None, KafkaErrorCode.NONE
    await channel.ask(BODY, timeout_s=60)
    assert broker.requests[-1][0] == partition_of("g", 97)


async def test_who_asked_the_wrong_coordinator_looks_for_the_right_one(broker: Broker, channel: KafkaChannel) -> None:
    broker.partitions, broker.answers_with = 97, KafkaErrorCode.NOT_COORDINATOR
    await channel.ask(BODY, timeout_s=60)
    await is_found_after_one_try(broker, channel)


async def test_who_can_t_write_to_a_partition_looks_which_there_are(broker: Broker, channel: KafkaChannel) -> None:
    broker.partitions, broker.refuses = 97, KafkaError(KafkaError._UNKNOWN_PARTITION)
    with pytest.raises(NoReplyError, match="could not be written"):
        await channel.ask(BODY, timeout_s=60)
    await is_found_after_one_try(broker, channel)


async def test_that_replies_can_t_be_read_is_said_until_they_can(
    broker: Broker, channel: KafkaChannel, caplog: pytest.LogCaptureFixture
) -> None:
    broker.replies.put(Message(b"", b"", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    await eventually(lambda: channel._requests.problem)
    broker.answers = False
    with pytest.raises(NoReplyError, match=r"can't be read: .* no right to READ on the topic '__worker_replies'"):
        await channel.ask(BODY, timeout_s=0.001)
    assert [record.message[:37] for record in caplog.records] == ["no replies of coordinators can be rea"]
    broker.answers = True
    await channel.ask(BODY, timeout_s=60)
    broker.answers = False
    with pytest.raises(NoReplyError, match="cospark coordinator"):
        await channel.ask(BODY, timeout_s=0.001)


async def test_a_consumer_that_has_failed_is_replaced_and_what_was_not_read_is_read_by_the_next_one(
    broker: Broker, channel: KafkaChannel, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        await channel.ask(BODY, timeout_s=60)
    fatal = KafkaError(KafkaError._FATAL, "fenced")
    broker.faults = [KafkaException(fatal), fatal]
    await eventually(lambda: broker.closed == 2)
    assert broker.made == [Consumer, Producer, Consumer, Consumer]
    await channel.ask(BODY, timeout_s=60)
    assert [(each.topic, each.offset) for each in broker.assigned] == [(REPLIES_TOPIC, 42)]
    assert [record.message for record in caplog.records] == [
        "the reader of __worker_replies has failed; another consumer takes its place"
    ], "it is said once"


async def test_that_a_topic_is_missing_is_said_once_and_that_it_is_back(
    broker: Broker, channel: KafkaChannel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker.missing = 2
    await goes_unanswered(broker, channel)
    await eventually(lambda: broker.missing == 1)
    await goes_unanswered(broker, channel)
    await eventually(lambda: broker.missing == 0)
    await goes_unanswered(broker, channel)
    await eventually(lambda: len(caplog.records) == 2)
    missing, back = (record.message for record in caplog.records)
    assert "the topic '__worker_requests' does not exist" in missing
    assert back == "requests can be sent to coordinators again: the topic '__worker_requests' was created again"


async def test_who_gives_up_leaves_nothing_behind(broker: Broker, channel: KafkaChannel) -> None:
    broker.answers = False
    asking = asyncio.ensure_future(channel.ask(BODY, timeout_s=60))
    await eventually(lambda: broker.requests)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not channel._waiting


async def test_what_can_not_be_written_has_no_reply(broker: Broker, channel: KafkaChannel) -> None:
    broker.refuses = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(NoReplyError, match="no right to WRITE on the topic '__worker_requests'"):
        await channel.ask(BODY, timeout_s=60)


async def test_who_stops_asking_can_wait_until_what_was_asked_is_written(
    broker: Broker, channel: KafkaChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.answers = False
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(broker, "poll", lambda _timeout: None)
        asking = asyncio.ensure_future(channel.ask(BODY, timeout_s=60))
        await eventually(lambda: broker.requests)
        settling = asyncio.ensure_future(channel.settle())
        asking.cancel()
        await asyncio.wait([settling], timeout=0.1)
        assert not settling.done()
    await settling
    assert not channel._unwritten


async def test_topics_that_a_coordinator_is_about_to_make_are_waited_for(broker: Broker) -> None:
    broker.missing, broker.unled = 3, 2
    channel = KafkaChannel(SETTINGS)
    await channel.open()
    assert (broker.missing, broker.unled) == (0, 0)
    await channel.aclose()


def test_no_reply_waits_for_a_pause_of_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def make(_kind: object, config: dict[str, Any]) -> Any:
        made.append(config)
        return Broker()

    monkeypatch.setattr(worker_requests, "make_client", make)
    worker_requests.WorkerRequests(SETTINGS, heard=lambda _: None, failed=lambda *_: None)
    assert made[0]["fetch.queue.backoff.ms"] <= 10 < made[0].get("queued.min.messages", 100_000)


def test_a_cluster_without_coordinators_is_told_with_what_to_do(broker: Broker) -> None:
    broker.missing = 1
    requests = worker_requests.WorkerRequests(SETTINGS, heard=lambda _: None, failed=lambda *_: None)
    with pytest.raises(NoCoordinatorsError, match="Start one, or give all workers"):
        requests.open(appear_s=0)
    requests.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, BrokerAwayError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, TopicRightsError),
        (KafkaError.NOT_LEADER_FOR_PARTITION, NoLeaderError),
        (KafkaError.LEADER_NOT_AVAILABLE, NoLeaderError),
        (KafkaError._NOENT, NoLeaderError),
        (KafkaError._UNKNOWN_PARTITION, NoLeaderError),
    ],
)
def test_what_else_keeps_it_from_its_topics_is_told(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def fails(topic: str, timeout: float) -> None:
        raise KafkaException(KafkaError(code))

    monkeypatch.setattr(broker, "list_topics", fails)
    requests = worker_requests.WorkerRequests(SETTINGS, heard=lambda _: None, failed=lambda *_: None)
    with pytest.raises(kind):
        requests.open(appear_s=0)
    requests.close()
