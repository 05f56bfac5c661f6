"""The topics of a group on a real broker, through the clients that workers, sensors and commands use."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider.kafka import clients
from airflow_provider.kafka.local import LocalBroker
from airflow_provider.kafka.log_errors import (
    BrokerAwayError,
    LogError,
    LogTimeoutError,
    NoTopicError,
    RefusedError,
    RightsError,
    TopicRightsError,
)
from airflow_provider.kafka.logs import GroupLogs, Submission
from airflow_provider.kafka.one_shot import (
    list_groups,
    read_group,
    read_timeline,
    remove_job,
    send_control,
    submit_job,
)
from airflow_provider.kafka.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    PlanRecord,
    RebalanceEvent,
    TaskEvent,
    TaskState,
    TaskStatus,
    Topics,
    WorkerPhase,
    WorkerStatus,
    encode,
    task_key,
)
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.membership.assignors.model import Memory
from airflow_provider.membership.model import (
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    WorkerId,
)
from airflow_provider.membership.record import GroupRecord

W1 = WorkerId("w1")
JOB = JobDefinition(name="flights", entry_point="jobs:Flights", max_tasks=3, run_key="r1", submitted_at_ms=1)
PLAN = PlanRecord.of(JOB, [{"month": 1}, {"month": 2}], planned_by=W1, at_ms=2)
TASK = TaskId("flights", 0)
SOON_S = 20.0


def _settings(servers: str, **extra) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": servers, **extra}, conn_id="kafka_test")


@pytest.fixture
def settings(broker) -> KafkaSettings:
    return _settings(broker.bootstrap_servers)


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    yield
    assert not clients._process.clients
    deadline = time.monotonic() + 5
    while names := [thread.name for thread in threading.enumerate() if thread.name.startswith("cospark-log")]:
        assert time.monotonic() < deadline, names
        time.sleep(0.01)


@asynccontextmanager
async def _logs(settings: KafkaSettings, group: str):
    async with GroupLogs(settings, group) as logs:
        yield logs


async def _opened(settings: KafkaSettings, group: str) -> None:
    async with GroupLogs(settings, group):
        pass


def _task(epoch: int, state: TaskState = TaskState.RUNNING, **others) -> TaskStatus:
    return TaskStatus(**{"task": TASK, "state": state, "epoch": Epoch(epoch), "worker": W1, "run_key": "r1", **others})


def _group(epoch: int) -> GroupRecord:
    return GroupRecord(
        epoch=Epoch(epoch),
        generation=GenerationId(epoch),
        leader=W1,
        leader_member=MemberId("m1"),
        protocol=SubProtocol.SESSIONED,
        config_offset=ConfigOffset(0),
        members={W1: MemberId("m1")},
        assignment={W1: frozenset({TASK})},
        revoked={},
        moves=(),
        delay_ms=0,
        reason="a worker joined",
        at_ms=5,
        memory=Memory(generation=GenerationId(epoch)),
    )


def _raw_write(settings: KafkaSettings, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    """As any Kafka tool would."""
    failures: list[KafkaError] = []
    producer = Producer(settings.librdkafka())
    for key, value in records:
        producer.produce(topic, key=key, value=value, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(SOON_S) == 0
    assert not failures


async def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_what_one_writes_another_reads(settings, group_id):
    wish = ControlRecord(worker=W1, action=ControlAction.DRAIN, at_ms=1)
    worker = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(3), slots=2)
    async with _logs(settings, group_id) as logs:
        assert (await logs.submit(JOB)).changed
        await logs.publish_plan(PLAN)
        await logs.publish_control(wish)
        await logs.publish_worker(worker)
        await logs.publish_task(_task(3))
        await logs.publish_group(_group(3))
        await logs.catch_up()
        mine = logs.jobs, logs.status
    seen = read_group(settings, group_id)
    assert (seen.jobs, seen.status) == mine
    assert dict(seen.jobs.jobs) == {"flights": JOB}
    assert seen.jobs.plan_of("flights") == PLAN
    assert dict(seen.jobs.controls) == {W1: wish}
    assert seen.jobs.offset == 3
    assert seen.status.group == _group(3)
    assert dict(seen.status.workers) == {W1: worker}
    assert dict(seen.status.tasks) == {TASK: _task(3)}
    timeline = read_timeline(settings, group_id)
    assert [type(event) for event in timeline.events] == [TaskEvent, RebalanceEvent]
    assert timeline.events[0].status == _task(3)
    assert timeline.events[1] == RebalanceEvent.of(_group(3))


async def test_the_topics_are_compacted_or_kept_by_time_and_have_one_partition(settings, group_id):
    topics = Topics.of(group_id)
    async with _logs(settings, group_id), _logs(settings, group_id):
        pass
    admin = AdminClient(settings.librdkafka())
    metadata = await asyncio.to_thread(admin.list_topics, timeout=SOON_S)
    assert {name: len(metadata.topics[name].partitions) for name in topics.all} == dict.fromkeys(topics.all, 1)
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in topics.all])
    configs = {resource.name: future.result() for resource, future in asked.items()}
    policies = {name: configs[name]["cleanup.policy"].value for name in topics.all}
    assert policies == {topics.jobs: "compact", topics.status: "compact", topics.events: "delete"}
    assert configs[topics.events]["retention.ms"].value == str(7 * 24 * 3600 * 1000)


async def test_the_same_job_again_changes_nothing_and_another_run_key_does(settings, group_id):
    async with _logs(settings, group_id) as logs:
        await logs.submit(JOB)
        again = await logs.submit(replace(JOB, submitted_at_ms=99, submitted_by="somebody else"))
        assert (again.changed, again.definition) == (False, JOB)
        await logs.catch_up()
        assert logs.jobs.offset == 1
        next_run = replace(JOB, run_key="r2")
        assert await logs.submit(next_run) == Submission(definition=next_run, changed=True)
        await logs.catch_up()
        assert dict(logs.jobs.jobs) == {"flights": next_run}


async def test_a_removed_job_takes_its_plan_and_statuses_with_it_and_nobody_elses(settings, group_id):
    other = _task(1, task=TaskId("flights-2", 0))
    async with _logs(settings, group_id) as logs:
        await logs.submit(JOB)
        await logs.publish_plan(PLAN)
        await logs.publish_task(_task(1))
        await logs.publish_task(other)
        assert await logs.remove("flights")
        assert not await logs.remove("flights")
        await logs.catch_up()
        assert (dict(logs.jobs.jobs), dict(logs.jobs.plans)) == ({}, {})
        assert dict(logs.status.tasks) == {other.task: other}
    fresh = read_group(settings, group_id)
    assert (dict(fresh.jobs.jobs), dict(fresh.status.tasks)) == ({}, {other.task: other})


async def test_a_garbage_record_in_the_jobs_topic_is_reported_once_with_its_offset_and_disturbs_nothing(
    settings, group_id, caplog
):
    caplog.set_level(logging.WARNING)
    topics = Topics.of(group_id)
    async with _logs(settings, group_id) as logs, _logs(settings, group_id) as another:
        await logs.submit(JOB)
        garbage = [(b"job:flights", b"\x00garbage"), (b"job:x", b'{"v": 99}'), (b"", b"{}"), (b"recipe:a", None)]
        await asyncio.to_thread(_raw_write, settings, topics.jobs, *garbage)
        await logs.publish_plan(PLAN)
        await logs.catch_up()
        await another.catch_up()
        assert logs.jobs.plan_of("flights") == PLAN
        assert (logs.jobs.unreadable, logs.jobs.offset) == (4, 6)
        assert another.jobs is logs.jobs
    reports = [record.getMessage() for record in caplog.records if topics.jobs in record.getMessage()]
    assert [int(report.split("offset ")[1].split(" ")[0]) for report in reports] == [1, 2, 3, 4]
    assert "schema version 99 is newer" in reports[1]


async def test_a_stale_status_does_not_win_and_the_leader_writes_the_winner_again(settings, group_id):
    async with _logs(settings, group_id) as logs:
        await logs.publish_task(_task(7, TaskState.FINISHED))
        await logs.publish_group(_group(7))
        await logs.publish_task(_task(6, TaskState.STOPPED))  # a worker that woke late
        await logs.publish_group(_group(6))
        await logs.catch_up()
        assert logs.status.tasks[TASK] == _task(7, TaskState.FINISHED)
        assert logs.status.group == _group(7)
        assert set(logs.status.overwritten) == {task_key(TASK), "group"}
        assert await logs.reassert() == 2
        await logs.catch_up()
        assert dict(logs.status.overwritten) == {}
        assert await logs.reassert() == 0
    last = _last_values(settings, Topics.of(group_id).status)
    assert b'"finished"' in last[task_key(TASK).encode()]
    assert b'"epoch":7' in last[b"group"]


def _last_values(settings: KafkaSettings, topic: str) -> dict[bytes, bytes]:
    """What compaction would leave."""
    consumer = Consumer({**settings.librdkafka(), "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    last: dict[bytes, bytes] = {}
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        if message is not None:
            last[message.key()] = message.value()
    consumer.close()
    return last


async def test_a_new_reader_gets_the_same_from_a_log_that_was_compacted(settings, group_id):
    """With holes in the offsets, and tombstones that are gone."""
    topics = Topics.of(group_id)
    admin = AdminClient(settings.librdkafka())
    quick = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
        "max.compaction.lag.ms": "100",
    }
    for future in admin.create_topics([NewTopic(topics.jobs, 1, config=quick)]).values():
        future.result()
    async with _logs(settings, group_id) as logs:
        for number in range(30):
            await logs.submit(replace(JOB, run_key=f"r{number}"))
        await logs.submit(replace(JOB, name="gone"))
        await logs.remove("gone")
        await logs.submit(replace(JOB, name="last"))
        await logs.catch_up()
        offset = logs.jobs.offset
        assert offset == 33
        await _until(lambda: _compacted(settings, topics.jobs, logs))
        await logs.catch_up()
        expected = logs.jobs
    fresh = read_group(settings, group_id).jobs
    assert set(fresh.jobs) == set(expected.jobs) >= {"flights", "last"}
    assert fresh.jobs["flights"].run_key == "r29"
    assert fresh.offset == expected.offset


def _compacted(settings: KafkaSettings, topic: str, logs: GroupLogs) -> bool:
    """Whether few records are left; each look writes one more, because only an append rolls a segment."""
    number = logs.jobs.offset
    _raw_write(settings, topic, (b"job:rolls", b'{"v": 1}'))
    return number > 33 and len(_all_offsets(settings, topic)) < 15


def _all_offsets(settings: KafkaSettings, topic: str) -> list[int]:
    consumer = Consumer({**settings.librdkafka(), "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    offsets: list[int] = []
    while True:
        message = consumer.poll(SOON_S)
        assert message is not None
        if message.error() is not None:
            break
        offsets.append(message.offset())
    consumer.close()
    return offsets


async def test_catching_up_sees_everything_written_before_by_anybody(settings, group_id):
    async with _logs(settings, group_id) as logs:
        for epoch in range(1, 21):
            status = _task(epoch)
            await asyncio.to_thread(_raw_write, settings, logs.topics.status, _record(status))
            await logs.catch_up()
            assert logs.status.tasks[TASK].epoch == epoch


def _record(status: TaskStatus) -> tuple[bytes, bytes]:
    return task_key(status.task).encode(), encode(status.to_json())


async def test_waiting_ends_with_the_change_that_was_waited_for_or_in_time(settings, group_id):
    async with _logs(settings, group_id) as logs:
        waiting = asyncio.ensure_future(logs.wait_for(lambda jobs, _: "flights" in jobs.jobs, timeout_s=SOON_S))
        await logs.submit(JOB)
        await waiting
        with pytest.raises(LogTimeoutError, match=r"group .*: not within 0.05 s"):
            await logs.wait_for(lambda *_: False, timeout_s=0.05)
        with pytest.raises(ZeroDivisionError):
            await logs.wait_for(lambda *_: 1 / 0)


async def test_listeners_hear_of_changes_until_they_stop(settings, group_id):
    async with _logs(settings, group_id) as logs, _logs(settings, group_id) as another:
        await logs.catch_up()
        heard: list[str] = []
        stop = logs.subscribe(lambda: heard.append("one"))
        another.subscribe(lambda: heard.append("two"))
        await logs.submit(JOB)
        await _until(lambda: {"one", "two"} <= set(heard))
        stop()
        await logs.publish_plan(PLAN)
        heard.clear()
        await logs.publish_task(_task(1))
        await logs.wait_for(lambda _, status: TASK in status.tasks, timeout_s=SOON_S)
        await _until(lambda: heard)
        assert set(heard) == {"two"}


async def test_many_memberships_share_one_reader_and_one_writer(settings, group_id):
    before = threading.active_count()
    many = [GroupLogs(settings, f"{group_id}-{number % 3}") for number in range(60)]
    await asyncio.gather(*(logs.start() for logs in many))
    await asyncio.gather(*(logs.catch_up() for logs in many))
    await many[0].submit(JOB)
    named = [thread.name for thread in threading.enumerate() if thread.name.startswith("cospark-log")]
    assert sorted(named) == ["cospark-log-reader", "cospark-log-writer"]
    assert threading.active_count() <= before + 3
    await asyncio.gather(*(logs.catch_up() for logs in many))
    assert [number for number, logs in enumerate(many) if logs.jobs.jobs] == list(range(0, 60, 3))
    for logs in many[:-1]:
        await logs.aclose()
    await many[-1].catch_up()
    await many[-1].aclose()
    await many[-1].aclose()


async def test_closed_logs_say_so(settings, group_id):
    logs = GroupLogs(settings, group_id)
    with pytest.raises(LogError, match=r"are not open: call start\(\) first"):
        _ = logs.jobs
    async with logs:
        await logs.catch_up()
    with pytest.raises(LogError, match="are not open"):
        await logs.publish_plan(PLAN)


async def test_from_code_without_a_loop_and_from_code_within_one(settings, group_id):
    assert group_id not in list_groups(settings)

    def work() -> None:
        assert submit_job(settings, group_id, JOB).changed
        assert not submit_job(settings, group_id, JOB).changed
        send_control(settings, group_id, ControlRecord(worker=W1, action=ControlAction.STOP, at_ms=1))
        assert set(read_group(settings, group_id).jobs.controls) == {W1}

    await asyncio.to_thread(work)
    assert remove_job(settings, group_id, "flights")
    assert dict(read_group(settings, group_id).jobs.jobs) == {}
    assert group_id in list_groups(settings)
    assert read_timeline(settings, group_id).events == ()


def test_looking_at_a_group_that_does_not_exist_makes_no_topics(settings, group_id):
    with pytest.raises(NoTopicError, match=f"'{group_id}.jobs' does not exist"):
        read_group(settings, group_id)
    with pytest.raises(NoTopicError, match=f"'{group_id}.events' does not exist"):
        read_timeline(settings, group_id)
    assert group_id not in list_groups(settings)


async def test_a_group_that_was_looked_for_too_early_is_found_later(settings, group_id):
    """Librdkafka remembers for a while that a topic did not exist."""
    keeps_clients = GroupLogs(settings, f"{group_id}-other")
    await keeps_clients.start()
    early = GroupLogs(settings, group_id)
    early.attach()
    with pytest.raises(NoTopicError):
        await early.catch_up()
    await asyncio.to_thread(
        lambda: submit_job(_settings(settings.bootstrap_servers, **{"client.id": "another"}), group_id, JOB)
    )
    await early.catch_up()
    assert dict(early.jobs.jobs) == {"flights": JOB}
    await early.aclose()
    await keeps_clients.aclose()


async def test_a_topic_with_several_partitions_is_refused(settings, group_id):
    admin = AdminClient(settings.librdkafka())
    admin.create_topics([NewTopic(f"{group_id}.status", 3)])[f"{group_id}.status"].result()
    with pytest.raises(LogError, match=f"'{group_id}.status' has 3 partitions, but must have exactly one"):
        await GroupLogs(settings, group_id).start()


async def test_a_topic_that_is_deleted_and_made_anew_is_read_anew(settings, group_id):
    async with _logs(settings, group_id) as logs:
        await logs.submit(JOB)
        await logs.submit(replace(JOB, name="old"))
        await logs.catch_up()
        assert logs.jobs.offset == 2
        admin = AdminClient(settings.librdkafka())
        admin.delete_topics([logs.topics.jobs])[logs.topics.jobs].result()
        await _until(lambda: logs.topics.jobs not in admin.list_topics(timeout=SOON_S).topics)
        admin.create_topics([NewTopic(logs.topics.jobs, 1)])[logs.topics.jobs].result()
        new = replace(JOB, name="new")
        await asyncio.to_thread(
            lambda: submit_job(_settings(settings.bootstrap_servers, **{"client.id": "another"}), group_id, new)
        )
        await logs.wait_for(lambda jobs, _: "new" in jobs.jobs, timeout_s=60)
        assert (dict(logs.jobs.jobs), logs.jobs.offset) == ({"new": new}, 1)


async def test_a_large_group_record_is_stored(settings, group_id):
    """Twenty thousand tasks: more than a broker takes in one record, unless it is compressed."""
    tasks = frozenset(TaskId(f"a-job-with-a-long-name-{n % 100:03}", n // 100) for n in range(20_000))
    large = replace(_group(1), assignment={W1: tasks}, memory=Memory(assignment={W1: tasks}))
    async with _logs(settings, group_id) as logs:
        await logs.publish_group(large)
        await logs.catch_up()
        assert logs.status.group == large


class TestBrokerAway:
    def test_a_broker_that_is_not_there_is_named(self):
        settings = _settings("127.0.0.1:9")
        started = time.monotonic()
        with pytest.raises(BrokerAwayError, match=r"no broker answered at 127\.0\.0\.1:9 while .*check bootstrap"):
            read_group(settings, "any", timeout_s=1.0)
        with pytest.raises(BrokerAwayError, match=r"127\.0\.0\.1:9"):
            list_groups(settings, timeout_s=1.0)
        with pytest.raises(BrokerAwayError, match=r"127\.0\.0\.1:9"):
            asyncio.run(GroupLogs(settings, "any").start(timeout_s=1.0))
        assert time.monotonic() - started < 20

    def test_settings_that_librdkafka_refuses_are_named(self):
        settings = _settings("127.0.0.1:9", **{"no.such.property": 1})
        with pytest.raises(LogError, match=r"no\.such\.property"):
            read_group(settings, "any")

    async def test_an_outage_is_two_lines_in_the_log_and_reading_and_writing_go_on(self, group_id, caplog, capfd):
        caplog.set_level(logging.INFO, "airflow_provider")
        with LocalBroker() as broker:
            settings = _settings(broker.bootstrap_servers)
            async with _logs(settings, group_id) as logs:
                await logs.submit(JOB)
                await logs.catch_up()
                await asyncio.to_thread(broker.kill)
                await _until(lambda: "can be reached" in caplog.text)
                with pytest.raises(BrokerAwayError, match="waiting for a change"):
                    await logs.wait_for(lambda *_: False, timeout_s=1)
                with pytest.raises(BrokerAwayError, match="asking for the ends"):
                    await logs.catch_up(timeout_s=1)
                writing = asyncio.ensure_future(logs.publish_task(_task(1)))
                await asyncio.to_thread(broker.start)
                await writing
                await logs.wait_for(lambda _, status: TASK in status.tasks, timeout_s=SOON_S)
                await _until(lambda: "is back" in caplog.text)
        lines = [record.getMessage() for record in caplog.records if record.name.endswith("outage")]
        back = next(number for number, line in enumerate(lines) if "is back after" in line)
        assert (len(lines[:back]), back) == (1, 1)
        assert broker.bootstrap_servers in lines[0]
        assert capfd.readouterr().err == ""


class TestRights:
    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls) -> Iterator[LocalBroker]:
        users = " ".join(f'user_{name}="secret-of-{name}"' for name in ("admin", "alice"))
        properties = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
        }
        with LocalBroker(security_protocol="SASL_PLAINTEXT", properties=properties) as running:
            yield running

    @staticmethod
    def _as(broker: LocalBroker, user: str, password: str | None = None) -> KafkaSettings:
        return _settings(
            broker.bootstrap_servers,
            **{
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": password or f"secret-of-{user}",
            },
        )

    @staticmethod
    def _allow(broker: LocalBroker, topic: str, *operations: str) -> None:
        admin = AdminClient(TestRights._as(broker, "admin").librdkafka())
        acls = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                "User:alice",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        for future in admin.create_acls(acls).values():
            future.result()

    async def test_each_missing_right_is_named_with_its_topic(self, guarded, group_id):
        admin, alice = self._as(guarded, "admin"), self._as(guarded, "alice")
        topics = Topics.of(group_id)
        with pytest.raises(RightsError, match=f"User:alice has no right to READ on the topic '{group_id}.jobs', "):
            await GroupLogs(alice, group_id).start()
        for topic in topics.all:
            self._allow(guarded, topic, "DESCRIBE")
        with pytest.raises(RightsError, match=f"no right to CREATE on the topic '{group_id}"):
            await GroupLogs(alice, group_id).start()
        async with _logs(admin, group_id) as theirs:
            await theirs.submit(JOB)
            with pytest.raises(RightsError, match=f"no right to READ on the topic '{group_id}.jobs', READ on"):
                await GroupLogs(alice, group_id).start()
            self._allow(guarded, topics.jobs, "READ")
            self._allow(guarded, topics.status, "READ")
            await self._once_allowed(lambda: _opened(alice, group_id))
            async with _logs(alice, group_id) as logs:
                with pytest.raises(TopicRightsError, match=f"no right to WRITE on the topic '{group_id}.jobs'"):
                    await logs.publish_plan(PLAN)
                await _until(lambda: "flights" in logs.jobs.jobs)
                await logs.catch_up()
                self._allow(guarded, topics.jobs, "WRITE")
                await self._once_allowed(lambda: logs.publish_plan(PLAN))
                await logs.wait_for(lambda jobs, _: "flights" in jobs.plans, timeout_s=SOON_S)

    @staticmethod
    async def _once_allowed(act: Callable[[], Awaitable[None]]) -> None:
        """A right takes a moment to arrive at the broker."""
        deadline = time.monotonic() + SOON_S
        while True:
            try:
                await act()
            except RightsError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            else:
                return

    async def test_a_wrong_password_is_told_at_once(self, guarded, group_id):
        settings = self._as(guarded, "alice", "wrong-password")
        with pytest.raises(RefusedError, match=r"(?i)authentication failed.*sasl\.password") as failed:
            await GroupLogs(settings, group_id).start(timeout_s=SOON_S)
        assert "wrong-password" not in str(failed.value)

    @pytest.mark.parametrize("ask", [list_groups, lambda settings, **time: read_timeline(settings, "any", **time)])
    def test_so_it_is_to_whoever_asks_just_once(self, guarded, ask):
        settings, began = self._as(guarded, "alice", "wrong-password"), time.monotonic()
        with pytest.raises(RefusedError, match=r"(?i)authentication failed.*sasl\.password"):
            ask(settings, timeout_s=60.0)
        assert time.monotonic() - began < SOON_S


FORK = """
import asyncio, os, sys
from airflow_provider.kafka.logs import GroupLogs, Submission
from airflow_provider.kafka.one_shot import read_group, submit_job
from airflow_provider.kafka.records import JobDefinition
from airflow_provider.kafka.settings import KafkaSettings

settings = KafkaSettings.from_extra({"bootstrap.servers": sys.argv[1]}, conn_id="c")
group, how = sys.argv[2:]

async def main():
    logs = GroupLogs(settings, group)
    await logs.start()
    await logs.submit(JobDefinition(name="parent", entry_point="m:f"))
    return logs

logs = asyncio.run(main())
child = os.fork()
if child == 0:
    submit_job(settings, group, JobDefinition(name="child", entry_point="m:f"))
    if how == "_exit":
        os._exit(0)
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert set(read_group(settings, group).jobs.jobs) == {"parent", "child"}
print("both")
"""


@pytest.mark.parametrize("how", ["_exit", "exit"])
def test_a_forked_process_has_clients_of_its_own(settings, group_id, how, tmp_path):
    """As Airflow does: the supervisor forks, and the task process writes."""
    script = tmp_path / "fork.py"
    script.write_text(FORK)
    done = subprocess.run(
        [sys.executable, str(script), settings.bootstrap_servers, group_id, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "both"), done.stderr
