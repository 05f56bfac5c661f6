"""What the tests of shards share: a process that serves the echo machine, and a client."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from echo_machine import EchoMachine, heartbeat_of
from forked import COSPARK, Forked
from proxied import Network, proxied_broker
from waiting import DEADLINE_S, SLOWNESS, wait_until

from airflow_provider.group.declarative.protocol.sharding import (
    COORDINATORS,
    RECORDS_TOPIC,
    REPLIES_TOPIC,
    REQUESTS_TOPIC,
    Layout,
    partition_of,
)
from airflow_provider.group.declarative.protocol.wire.messages.apis import Reply as WireReply
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    RequestBody,
    decode_reply,
    encode_request,
    request_of,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatResponse
from airflow_provider.group.declarative.server.server import ShardServer
from airflow_provider.group.declarative.server.shard_topics import ShardTopics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.kafka.topics.outage import Outage

LAYOUT = Layout(shards=2, replies=2)
SESSION_S = 3.0 * SLOWNESS
QUICK = {
    "group.consumer.session.timeout.ms": round(SESSION_S * 1000),
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
"""Settings of a broker that soon notices a lost coordinator: by default it takes 45 s."""
_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


@contextmanager
def quick_broker() -> Iterator[Network]:
    """A broker with the shards' topics that soon notices a lost coordinator, and a way there through a proxy."""
    with proxied_broker(1, QUICK) as running:
        make_topics(running.near)
        yield running


def make_topics(bootstrap_servers: str) -> None:
    topics = ShardTopics({"bootstrap.servers": bootstrap_servers}, Outage(bootstrap_servers))
    assert asyncio.run(topics.prepare_shards(timeout_s=DEADLINE_S, make=LAYOUT)) == LAYOUT


def remove_topics(bootstrap_servers: str) -> None:
    """With the coordinators' group: who comes next finds a broker that has never had any."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **COMMON})

    def there() -> set[str]:
        return {RECORDS_TOPIC, REQUESTS_TOPIC, REPLIES_TOPIC} & admin.list_topics(timeout=DEADLINE_S).topics.keys()

    if topics := there():
        for deleted in admin.delete_topics([*topics]).values():
            deleted.result(DEADLINE_S)
    wait_until(lambda: not there(), "the topics are deleted")
    wait_until(lambda: _forgets_coordinators(admin), "the coordinators' group is deleted")


def _forgets_coordinators(admin: AdminClient) -> bool:
    """False as long as it has members, such as killed ones."""
    try:
        admin.delete_consumer_groups([COORDINATORS])[COORDINATORS].result(DEADLINE_S)
    except KafkaException as refused:
        return bool(refused.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
    return True


class Asker:
    """Sends requests as a member does. Its replies are in one partition."""

    def __init__(self, connection: Mapping[str, Any], layout: Layout = LAYOUT) -> None:
        self._layout = layout
        self._id = secrets.token_bytes(8)
        self._correlation = itertools.count(1)
        self._producer = Producer(
            {**connection, "linger.ms": 0, "allow.auto.create.topics": False, "enable.idempotence": True}
        )
        self.partition = 0
        self._consumer = Consumer(
            {
                **connection,
                "group.id": "asker",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
            }
        )
        self._consumer.assign([TopicPartition(REPLIES_TOPIC, self.partition, 0)])
        self.replies: dict[int, WireReply] = {}
        self._answered: set[int] = set()

    def send(self, body: RequestBody, *, partition: int | None = None) -> int:
        """:returns: the correlation id"""
        number = next(self._correlation)
        request = request_of(body, correlation_id=number, reply_partition=self.partition, client_id="asker")
        self.send_bytes(
            encode_request(request),
            partition_of(body.group_id, self._layout.shards) if partition is None else partition,
        )
        return number

    def send_bytes(self, data: bytes, partition: int) -> None:
        self._producer.produce(REQUESTS_TOPIC, data, self._id, partition)
        assert not self._producer.flush(DEADLINE_S)

    def reply(self, number: int) -> WireReply:
        deadline = time.monotonic() + DEADLINE_S
        while number not in self.replies:
            assert time.monotonic() < deadline, f"no reply to {number} within {DEADLINE_S:g} s"
            self._read(0.05)
        return self.replies.pop(number)

    def ask(self, body: RequestBody) -> WireReply:
        return self.reply(self.send(body))

    def heartbeat(self, group: str, member: str = "m") -> ConnectGroupHeartbeatResponse:
        body = self.ask(heartbeat_of(group, member)).body
        assert isinstance(body, ConnectGroupHeartbeatResponse)
        return body

    def _read(self, timeout_s: float) -> None:
        message = self._consumer.poll(timeout_s)
        if message is not None and message.error() is None and message.key() == self._id:
            reply = decode_reply(message.value() or b"")
            number = reply.header.correlation_id
            assert number not in self._answered, f"answered twice: {number}, with {reply.body}, at {message.offset()}"
            self._answered.add(number)
            self.replies[number] = reply

    def close(self) -> None:
        self._consumer.close()


def settings_of_shards(servers: str) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id="shards")


@contextmanager
def in_process(servers: str) -> Iterator[ShardServer]:
    """A coordinator in this process that serves all shards."""
    server = ShardServer(settings_of_shards(servers), EchoMachine, make=LAYOUT)
    server.start()
    try:
        wait_until(lambda: len(server.served) == LAYOUT.shards, "all shards are served")
        yield server
    finally:
        server.close()


class Coordinating:
    """A process, and what it prints.

    :param arguments: of ``cospark``, or of the ``main`` of ``module``
    """

    def __init__(self, folder: Path, *arguments: str, module: str = COSPARK) -> None:
        self._path = folder / f"coordinator-{secrets.token_hex(4)}.log"
        path = os.pathsep.join(map(str, (_ROOT, _ROOT / "tests", _HERE)))
        self._process = Forked(arguments, log=self._path, env={**os.environ, "PYTHONPATH": path}, module=module)

    @property
    def log(self) -> str:
        return self._path.read_text()

    @property
    def paused(self) -> bool:
        state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(DEADLINE_S)

    def kill(self) -> None:
        """End it like a crash."""
        self._process.kill()
        self._process.wait()


class CoordinatorProcess(Coordinating):
    """A coordinator with the echo machine."""

    def __init__(self, servers: str, folder: Path, *options: str) -> None:
        super().__init__(folder, servers, *options, module="shard_process")

    @property
    def served(self) -> set[int]:
        said = [line for line in self.log.splitlines() if line.startswith("serves")]
        return {int(number) for number in said[-1].split()[1:]} if said else set()

    def serves(self, *shards: int) -> None:
        """Wait until it serves exactly these shards."""
        wait_until(lambda: self.served == set(shards), f"it serves {shards}\n{self.log}")


class CoordinatorCommand(Coordinating):
    """``cospark coordinator``."""

    def __init__(self, servers: str, folder: Path) -> None:
        super().__init__(folder, "coordinator", "--bootstrap-servers", servers)
