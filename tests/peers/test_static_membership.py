"""The classic protocol beyond Connect: static members on a real broker, and our groups in Kafka's own tools."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient, NewTopic
from fleet import SHORT_SESSION, Fleet
from java_classes import java_command
from waiting import DEADLINE_S, eventually, slow_ms

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

TASKS = 3
SESSION_MS = int(slow_ms(6_000))


@pytest.fixture
async def fleet(broker: LocalBroker, group_id: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Our workers; their tasks run until they are stopped."""
    options = ("--runner", "noop", "--slots", "9", *SHORT_SESSION)
    async with Fleet(broker.bootstrap_servers, group_id, tmp_path, *options) as fleet:
        await fleet.submit("forever", tasks=TASKS, kind=TaskKind.STREAMING)
        yield fleet


async def test_the_older_of_two_namesakes_is_fenced_and_stops_its_tasks_before_the_newer_one_starts_them(
    fleet: Fleet,
) -> None:
    fleet.start("w1")
    await fleet.balanced("w1")
    epoch = fleet.epoch

    fleet.start("newer-w1", "--worker", "w1")

    assert await asyncio.to_thread(fleet.wait_for_end, "w1") == 1
    assert "two must not share that name" in fleet.log_of("w1")
    await fleet.wait_for(
        lambda _jobs, status: all(
            told.attempt == 2 and told.state is TaskState.RUNNING
            for task, told in status.tasks.items()
            if not task.is_planner
        ),
        "the newer process runs them",
    )
    assert fleet.epoch >= epoch
    steps = [step for step in await fleet.steps() if not step.task.is_planner]
    stops = {step.task: step.finished_at_ms for step in steps if step.state is TaskState.STOPPED}
    starts = {step.task: step.started_at_ms for step in steps if step.attempt == 2 and step.started_at_ms}
    assert len(stops) == len(starts) == TASKS
    assert all((stops[task] or 0) <= at for task, at in starts.items()), "no two copies"


@pytest.fixture
def topic(broker: LocalBroker, group_id: str) -> str:
    """A topic for the consumers."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(group_id, 2)]).values():
        made.result(DEADLINE_S)
    return group_id


def test_the_older_of_two_consumers_of_librdkafka_is_fenced_too(broker: LocalBroker, group_id: str, topic: str) -> None:
    """The broker fences the older one for good."""
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group_id,
        "group.instance.id": "w1",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 300,
        "error_cb": lambda _error: None,
    }
    older, newer = Consumer(config), Consumer(config)
    try:
        for consumer in (older, newer):
            consumer.subscribe([topic])
            while not consumer.assignment():  # the test's time limit ends it
                consumer.poll(0.05)
        while (message := older.poll(0.05)) is None or (error := message.error()) is None:
            pass
        assert error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
        assert "fenced" in error.str().lower()
        assert newer.assignment()
    finally:
        newer.close()
        older.close()


async def test_two_consumers_of_aiokafka_take_the_name_from_each_other_for_ever(
    broker: LocalBroker, group_id: str, topic: str
) -> None:
    """Their heartbeats have no instance id, so the broker can only answer that it does not know the member: each then
    joins again and takes the name back. That is why we have our own requests, with newer versions.
    """

    def consumer() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group_id,
            group_instance_id="w1",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
        )

    older, newer = consumer(), consumer()
    seen: set[str] = set()

    def names_taken() -> bool:
        seen.update((older._coordinator.member_id, newer._coordinator.member_id))
        return len(seen) >= 5

    try:
        await older.start()
        await newer.start()
        await eventually(names_taken, "names taken back twice")
    finally:
        await older.stop()
        await newer.stop()


async def test_kafkas_own_tools_show_our_group(fleet: Fleet, broker: LocalBroker, java_classes: Path) -> None:
    for worker in ("w1", "w2"):
        fleet.start(worker)
    await fleet.balanced("w1", "w2")

    tools = "org.apache.kafka.tools"
    described, listed, consumers = await asyncio.gather(
        output_of("cospark.peer.Groups", broker.bootstrap_servers, fleet.group_id, classes=java_classes),
        output_of(f"{tools}.GroupsCommand", "--list", "--bootstrap-server", broker.bootstrap_servers),
        output_of(
            f"{tools}.consumer.group.ConsumerGroupCommand", "--list", "--bootstrap-server", broker.bootstrap_servers
        ),
    )

    group = json.loads(described)
    assert (group["type"], group["protocol"], group["state"]) == ("connect", "compressed", "Stable")
    members = fleet.record.members
    assert {member["instance"]: member["member"] for member in group["members"]} == members
    (line,) = (line for line in listed.splitlines() if fleet.group_id in line)
    assert line.split() == [fleet.group_id, "Classic", "connect"]
    assert fleet.group_id not in consumers, "it is not a consumer group"


async def output_of(main: str, *arguments: str, classes: Path | None = None) -> str:
    command = java_command(main, *arguments, classes=classes)
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)
