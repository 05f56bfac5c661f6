"""What is asked about topics of a broker that lets nobody in: it is answered soon, not when the time is over."""

from __future__ import annotations

import asyncio
import json
import socketserver
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicCollection, TopicPartition
from turned_clock import CLOCK, a_thread_works
from waiting import DEADLINE_S

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.topics.administration import lasting_admin, partition_ends
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.errors import BrokerAwayError, LastingError, RefusedError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.state.records import TopicNames

PATIENT_S = 10_000.0
"""Longer than any test may take, and than librdkafka lets a request wait."""

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
SASL_AUTHENTICATION_FAILED = 58


class _Refusing(socketserver.StreamRequestHandler):
    """Speaks just as much of Kafka as it needs to say that the password is wrong."""

    def handle(self) -> None:
        while header := self.rfile.read(12):
            size, api, _, correlation = struct.unpack(">ihhi", header)
            self.rfile.read(size - 8)
            answer = struct.pack(">i", correlation) + _ANSWERS[api]
            self.wfile.write(struct.pack(">i", len(answer)) + answer)
            if api == SASL_AUTHENTICATE:
                return


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _api_versions() -> bytes:
    """In version 3: what is spoken here, each from version 0 on."""
    spoken = ((SASL_HANDSHAKE, 1), (API_VERSIONS, 3), (SASL_AUTHENTICATE, 0))
    apis = b"".join(struct.pack(">hhhB", api, 0, newest, 0) for api, newest in spoken)
    return struct.pack(">hB", 0, len(spoken) + 1) + apis + struct.pack(">iB", 0, 0)


_ANSWERS = {
    API_VERSIONS: _api_versions(),
    SASL_HANDSHAKE: struct.pack(">hi", 0, 1) + _string("PLAIN"),
    SASL_AUTHENTICATE: struct.pack(">h", SASL_AUTHENTICATION_FAILED) + _string("no such user") + struct.pack(">i", 0),
}


@pytest.fixture
def refused() -> Iterator[dict[str, str]]:
    """The configuration of a connection to a broker that refuses it."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        yield {
            "bootstrap.servers": f"127.0.0.1:{server.server_address[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "etl",
            "sasl.password": "hunter2",
        }
        server.shutdown()


QUESTIONS: dict[str, Callable[[TopicAdmin], Awaitable[object]]] = {
    "the groups": lambda admin: admin.groups(timeout_s=PATIENT_S),
    "where topics end": lambda admin: admin.end_offsets(["etl.events"], timeout_s=PATIENT_S),
}


@pytest.mark.slow
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS.keys())
async def test_a_wrong_password_is_told_at_once(
    ask: Callable[[TopicAdmin], Awaitable[object]], refused: dict[str, str]
) -> None:
    """Though nobody else reads here who would notice."""
    with pytest.raises(RefusedError, match=r"no such user.*check .*sasl\.password") as caught:
        await ask(TopicAdmin(refused, Outage(refused["bootstrap.servers"])))
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
def test_the_button_in_airflow_tells_of_a_wrong_password(
    refused: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REFUSED", json.dumps({"conn_type": "kafka", "extra": refused}))
    worked, message = SparkGroupHook("refused").test_connection()
    assert not worked
    assert "check sasl.username, sasl.password" in message


class _Client:
    """An admin client that had trouble once, and whose broker answers now, slowly."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._tell = config["error_cb"]
        self._errors = [KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: no such user")]

    def poll(self, _timeout: float) -> None:
        while self._errors:
            self._tell(self._errors.pop())

    def describe_cluster(self, *, request_timeout: float) -> Future[object]:
        answer: Future[object] = Future()
        asyncio.get_running_loop().call_later(0.3, answer.set_result, object())
        return answer

    def list_topics(self, *, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics={"etl.jobs": None, "etl.status": None, "other": None})


async def test_what_was_wrong_before_the_question_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_admin, "AdminClient", _Client)
    monkeypatch.setattr(lasting_admin, "_REFUSAL_S", 0.05)
    assert await TopicAdmin({}, Outage("broker:9093")).groups(timeout_s=DEADLINE_S) == ["etl"]


class _Admin:
    """An admin client that knows all topics.

    :param partitions: how many each has
    """

    def __init__(self, partitions: int = 1) -> None:
        self._partitions = range(partitions)

    def poll(self, _timeout: float) -> None: ...

    def describe_topics(
        self, topics: TopicCollection, *, request_timeout: float, include_authorized_operations: bool
    ) -> dict[str, Future[object]]:
        described: Future[object] = Future()
        described.set_result(SimpleNamespace(partitions=self._partitions, authorized_operations=None))
        return dict.fromkeys(topics.topic_names, described)


async def test_a_topic_with_several_partitions_stays_so_until_somebody_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_admin, "AdminClient", lambda _: _Admin(partitions=3))
    admin = TopicAdmin({}, Outage("broker:9093"))
    with pytest.raises(LastingError, match=r"'etl.jobs' has 3 partitions, but must have exactly one"):
        await admin.prepare(TopicNames.of("etl"), WORKER, timeout_s=DEADLINE_S)


class _Consumer:
    """A consumer of a broker that gives these answers, one each.

    :param takes_s: how long each takes, on the clock of a test that turns it
    """

    def __init__(self, answers: Iterable[int | KafkaException], takes_s: float = 0) -> None:
        self._answers = iter(answers)
        self._takes_s = takes_s

    def offsets_for_times(self, asked: Sequence[TopicPartition], _timeout: float) -> list[TopicPartition]:
        CLOCK.turn(self._takes_s)
        answer = next(self._answers)
        if isinstance(answer, KafkaException):
            raise answer
        return [TopicPartition(each.topic, each.partition, answer) for each in asked]

    def close(self) -> None: ...


def answering(
    answers: Iterable[int | KafkaException], monkeypatch: pytest.MonkeyPatch, *, takes_s: float = 0
) -> TopicAdmin:
    consumer = _Consumer(answers, takes_s)
    monkeypatch.setattr(lasting_admin, "AdminClient", lambda _: _Admin())
    monkeypatch.setattr(partition_ends, "Consumer", lambda _: consumer)
    return TopicAdmin({}, Outage("broker:9093"))


async def test_an_answer_that_does_not_come_in_time_is_not_taken_for_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be before what has been read: as if the topic had been made anew, and its workers would leave."""
    admin = answering([OFFSET_INVALID, OFFSET_INVALID, 7], monkeypatch)
    assert await admin.end_offsets(["etl.jobs"], timeout_s=DEADLINE_S) == {"etl.jobs": 7}

    with pytest.raises(BrokerAwayError):
        await answering(repeat(OFFSET_INVALID), monkeypatch).end_offsets(["etl.jobs"], timeout_s=0.2)


@pytest.mark.turned_clock
async def test_the_last_words_of_a_broker_outlast_the_time_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    no_leader = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    admin = answering(repeat(no_leader), monkeypatch, takes_s=10)
    with a_thread_works(), pytest.raises(BrokerAwayError, match="Leader not available"):
        await admin.end_offsets(["etl.jobs"], timeout_s=30)


def test_a_refusal_is_over_when_a_broker_has_answered() -> None:
    outage = Outage("broker:9093")
    outage.refused("no such user", "the password")
    assert outage.refusal is not None
    outage.is_back()
    assert outage.refusal is None
    with outage.watch() as refused:
        assert not refused.done()
