"""Changed configs of a declarative group apply to its running workers."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from statistics import median

import pytest
from confluent_kafka import Consumer, TopicPartition
from fleet import SHORT_SESSION, TIMING, MakeFleet
from waiting import DEADLINE_S, eventually

from airflow_provider.cli.main import main
from airflow_provider.group.declarative.protocol.sharding import REPLIES_TOPIC, REQUESTS_TOPIC
from airflow_provider.group.declarative.protocol.wire.messages.apis import decode_reply, decode_request
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
)
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.records import TaskKind

OLD_INTERVAL_MS = int(TIMING[3])
INTERVAL_MS, SESSION_MS = 200, 6_000
SOME = 5


class Overheard:
    """The requests and replies of one group that has the broker to itself.

    :ivar sent_ms: when the heartbeats of each worker were written
    :ivar granted: session timeout and heartbeat interval of the last reply
    """

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._group = group
        self._asked: dict[tuple[bytes | None, int], str] = {}
        self.sent_ms: dict[str, list[int]] = {}
        self.granted: dict[str, tuple[int, int]] = {}
        self._consumer = Consumer(
            {
                **settings.librdkafka(),
                "group.id": "overheard",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        topics = self._consumer.list_topics(timeout=DEADLINE_S).topics
        self._consumer.assign(
            [TopicPartition(name, part) for name in (REQUESTS_TOPIC, REPLIES_TOPIC) for part in topics[name].partitions]
        )

    def listen(self) -> None:
        for message in self._consumer.consume(1_000, 0.1):
            key, value = message.key(), message.value()
            if message.error() is not None or not isinstance(value, bytes) or not isinstance(key, bytes):
                continue
            if message.topic() == REPLIES_TOPIC:
                reply = decode_reply(value)
                member = self._asked.get((key, reply.header.correlation_id))
                if member is not None and isinstance(reply.body, ConnectGroupHeartbeatResponse):
                    self.granted[member] = (reply.body.session_timeout_ms, reply.body.heartbeat_interval_ms)
                continue
            request = decode_request(value)
            if isinstance(request.body, ConnectGroupHeartbeatRequest) and request.body.group_id == self._group:
                worker = request.body.member_id.partition("-")[0]
                self._asked[key, request.header.correlation_id] = worker
                self.sent_ms.setdefault(worker, []).append(message.timestamp()[1])

    def spacing_ms(self, worker: str) -> float:
        """The time between the last heartbeats."""
        sent = self.sent_ms.get(worker, [])[-SOME:]
        return median(later - earlier for earlier, later in itertools.pairwise(sent)) if len(sent) == SOME else 0

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def overheard(settings: KafkaSettings, group_id: str) -> Iterator[list[Overheard]]:
    """The test starts it once the topics exist."""
    made: list[Overheard] = []
    yield made
    for one in made:
        one.close()


async def test_changed_group_configs_apply_to_a_running_group(
    fleet: MakeFleet,
    settings: KafkaSettings,
    group_id: str,
    overheard: list[Overheard],
    capsys: pytest.CaptureFixture[str],
) -> None:
    connection = ("--bootstrap-servers", settings.bootstrap_servers)
    protocol = ("--runner", "noop", "--slots", "20", "--max-delay-ms", "0", "--group-protocol", "connect")

    def configure(*options: str) -> dict[str, dict[str, object]]:
        assert main(["groups", "configure", group_id, *options, "--json", *connection]) == 0
        holds: dict[str, dict[str, object]] = json.loads(capsys.readouterr().out)
        return holds

    async with fleet(*protocol, *SHORT_SESSION) as group:
        await group.submit("streams", tasks=6, kind=TaskKind.STREAMING)
        group.start("w1")
        group.start("w2")
        await group.balanced("w1", "w2")
        ears = Overheard(settings, group_id)
        overheard.append(ears)

        async def hear(worker: str, spacing_ms: float, *, above: bool) -> None:
            ears.sent_ms.clear()

            def heard() -> bool:
                ears.listen()
                spacing = ears.spacing_ms(worker)
                return spacing > spacing_ms if above else 0 < spacing < spacing_ms

            await eventually(heard)

        await hear("w1", OLD_INTERVAL_MS / 2, above=True)
        before = await asyncio.to_thread(configure)
        assert before["heartbeat_interval_ms"] == {"value": OLD_INTERVAL_MS, "is_default": True}
        after = await asyncio.to_thread(
            configure, "--heartbeat-interval-ms", str(INTERVAL_MS), "--session-timeout-ms", str(SESSION_MS)
        )
        assert after["session_timeout_ms"] == {"value": SESSION_MS, "is_default": False}
        for worker in ("w1", "w2"):
            await hear(worker, OLD_INTERVAL_MS / 2, above=False)
            assert ears.granted[worker] == (SESSION_MS, INTERVAL_MS)
        assert await asyncio.to_thread(main, ["groups", "describe", group_id, *connection]) == 0
        assert f"  connect.heartbeat.interval.ms={INTERVAL_MS}" in capsys.readouterr().out.splitlines()
        group.kill("w2")
        await group.balanced("w1")
        await asyncio.to_thread(configure, "--reset", "heartbeat-interval-ms", "--reset", "session-timeout-ms")
        await hear("w1", OLD_INTERVAL_MS / 2, above=True)
