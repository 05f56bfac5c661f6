"""The topics of a group on a real broker, through the clients that workers, sensors and commands use."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from group_records import record_of
from skipped_records import skipped_records
from topic_bench import JOB, PLAN, TASK, W1, settings_of, task_status
from waiting import DEADLINE_S, eventually

from airflow_provider.assignment.model import Memory
from airflow_provider.group.live.shared import watched_topics
from airflow_provider.integration.one_shot import list_groups, read_group, submit_job
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError, TopicTimeoutError
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics, Submission
from airflow_provider.state.records import (
    ActionEvent,
    ControlAction,
    ControlRecord,
    RebalanceEvent,
    TaskEvent,
    TaskState,
    TaskStatus,
    TopicNames,
    WorkerPhase,
    WorkerStatus,
    encode,
    task_key,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import Epoch, GenerationId, MemberId, TaskId
from demo.events import read_events

pytestmark = pytest.mark.usefixtures("nothing_left_open")


def _group(epoch: int) -> ClassicRecord:
    return record_of(
        {W1: frozenset({TASK})},
        epoch=epoch,
        members={W1: MemberId("m1")},
        reason="a worker joined",
        at_ms=5,
        memory=Memory(generation=GenerationId(epoch)),
    )


def _raw_write(settings: KafkaSettings, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    """Write bytes, as any Kafka tool could."""
    failures: list[KafkaError] = []
    producer = Producer(settings.librdkafka())

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    for key, value in records:
        producer.produce(topic, key=key, value=value, on_delivery=delivered)
    assert producer.flush(DEADLINE_S) == 0
    assert not failures


async def test_what_one_writes_another_reads(settings: KafkaSettings, group_id: str) -> None:
    wish = ControlRecord(worker=W1, action=ControlAction.DRAIN, at_ms=1)
    worker = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(3), slots=2)
    async with GroupTopics(settings, group_id, WORKER) as topics:
        assert (await topics.submit(JOB)).changed
        await topics.publish_plan(PLAN)
        await topics.publish_control(wish)
        await topics.publish_worker(worker)
        await topics.publish_task(task_status(3))
        await topics.publish_group(_group(3))
        await topics.catch_up()
        mine = topics.jobs, topics.status
    seen = read_group(settings, group_id)
    assert (seen.jobs, seen.status) == mine
    assert dict(seen.jobs.jobs) == {"flights": JOB}
    assert seen.jobs.plan_of("flights") == PLAN
    assert dict(seen.jobs.controls) == {W1: wish}
    assert seen.jobs.offset == 3
    assert seen.status.group == _group(3)
    assert dict(seen.status.workers) == {W1: worker}
    assert dict(seen.status.tasks) == {TASK: task_status(3)}
    submitted, asked, step, rebalanced = read_events(settings, group_id)
    assert [event.action for event in (submitted, asked) if isinstance(event, ActionEvent)] == ["submit", "drain"]
    assert isinstance(step, TaskEvent)
    assert step.status == task_status(3)
    assert rebalanced == RebalanceEvent.of(_group(3))


async def test_the_topics_are_compacted_or_kept_by_time_and_have_one_partition(
    settings: KafkaSettings, group_id: str
) -> None:
    names = TopicNames.of(group_id)
    async with GroupTopics(settings, group_id, WORKER), GroupTopics(settings, group_id, WORKER):
        pass
    admin = AdminClient(settings.librdkafka())
    metadata = await asyncio.to_thread(admin.list_topics, timeout=DEADLINE_S)
    assert {name: len(metadata.topics[name].partitions) for name in names.all} == dict.fromkeys(names.all, 1)
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names.all])
    configs = {resource.name: future.result() for resource, future in asked.items()}
    policies = {name: configs[name]["cleanup.policy"].value for name in names.all}
    assert policies == {names.jobs: "compact", names.status: "compact", names.events: "delete"}
    assert configs[names.events]["retention.ms"].value == str(7 * 24 * 3600 * 1000)


async def test_the_same_job_again_changes_nothing_and_another_run_key_does(
    settings: KafkaSettings, group_id: str
) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.submit(JOB)
        again = await topics.submit(replace(JOB, submitted_at_ms=99, submitted_by="somebody else"))
        assert (again.changed, again.definition) == (False, JOB)
        await topics.catch_up()
        assert topics.jobs.offset == 1
        next_run = replace(JOB, run_key="r2")
        assert await topics.submit(next_run) == Submission(definition=next_run, changed=True)
        await topics.catch_up()
        assert dict(topics.jobs.jobs) == {"flights": next_run}


async def test_a_removed_job_takes_its_plan_and_statuses_with_it_and_nobody_elses(
    settings: KafkaSettings, group_id: str
) -> None:
    other = task_status(1, task=TaskId("flights-2", 0))
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.submit(JOB)
        await topics.publish_plan(PLAN)
        await topics.publish_task(task_status(1))
        await topics.publish_task(other)
        assert await topics.remove("flights")
        assert not await topics.remove("flights")
        await topics.catch_up()
        assert (dict(topics.jobs.jobs), dict(topics.jobs.plans)) == ({}, {})
        assert dict(topics.status.tasks) == {other.task: other}
    fresh = read_group(settings, group_id)
    assert (dict(fresh.jobs.jobs), dict(fresh.status.tasks)) == ({}, {other.task: other})


async def test_a_garbage_record_in_the_jobs_topic_is_reported_once_with_its_offset_and_disturbs_nothing(
    settings: KafkaSettings, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    names = TopicNames.of(group_id)
    async with GroupTopics(settings, group_id, WORKER) as topics, GroupTopics(settings, group_id, WORKER) as another:
        await topics.submit(JOB)
        garbage = [(b"job:flights", b"\x00garbage"), (b"job:x", b'{"v": 99}'), (b"", b"{}"), (b"recipe:a", None)]
        await asyncio.to_thread(_raw_write, settings, names.jobs, *garbage)
        await topics.publish_plan(PLAN)
        await topics.catch_up()
        await another.catch_up()
        assert topics.jobs.plan_of("flights") == PLAN
        assert (topics.jobs.unreadable, topics.jobs.offset) == (4, 6)
        assert another.jobs is topics.jobs
    reports = [record.getMessage() for record in caplog.records if names.jobs in record.getMessage()]
    assert skipped_records("\n".join(reports)) == 4
    assert "the record at offset 1 " in reports[0]


_DELETE_WITH_A_HEADER_THAT_IS_NO_TEXT = """
import asyncio, os, sys
os.environ["AIOKAFKA_NO_EXTENSIONS"] = "1"  # the compiled encoder takes no other text
from aiokafka import AIOKafkaProducer
class NoText(str):
    def encode(self, *_):
        return b"\\xff\\xfe"
async def main():
    async with AIOKafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
        await producer.send_and_wait(sys.argv[2], key=b"job:x", headers=[(NoText(), b"")], partition=0)
asyncio.run(main())
"""


async def test_a_deletion_with_a_header_that_is_no_text_is_a_deletion(settings: KafkaSettings, group_id: str) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.submit(JOB)
        servers = str(settings.librdkafka()["bootstrap.servers"])
        arguments = (_DELETE_WITH_A_HEADER_THAT_IS_NO_TEXT, servers, topics.names.jobs)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", *arguments], check=True)
        await topics.publish_plan(PLAN)
        await topics.catch_up()
        assert topics.jobs.plan_of("flights") == PLAN
        assert topics.fault is None


async def test_a_stale_status_does_not_win_and_the_leader_writes_the_winner_again(
    settings: KafkaSettings, group_id: str
) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.publish_task(task_status(7, TaskState.FINISHED))
        await topics.publish_group(_group(7))
        await topics.publish_task(task_status(6, TaskState.STOPPED))  # a worker that woke late
        await topics.publish_group(_group(6))
        await topics.catch_up()
        assert topics.status.tasks[TASK] == task_status(7, TaskState.FINISHED)
        assert topics.status.group == _group(7)
        assert set(topics.status.overwritten) == {task_key(TASK), "group"}
        assert await topics.reassert() == 2
        await topics.catch_up()
        assert dict(topics.status.overwritten) == {}
        assert await topics.reassert() == 0
    last = _last_values(settings, TopicNames.of(group_id).status)
    assert b'"finished"' in last[task_key(TASK).encode()]
    assert b'"epoch":7' in last[b"group"]


def _last_values(settings: KafkaSettings, topic: str) -> dict[bytes | None, bytes]:
    """The last value of each key: what compaction would leave."""
    return {message.key(): message.value() or b"" for message in _messages(settings, topic)}


def _messages(settings: KafkaSettings, topic: str) -> list[Message]:
    """All messages, as any Kafka tool reads them."""
    consumer = Consumer({**settings.librdkafka(), "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    with closing(consumer):
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return messages
            messages.append(message)


async def test_a_new_reader_gets_the_same_from_a_log_that_was_compacted(settings: KafkaSettings, group_id: str) -> None:
    """The log has gaps in its offsets, and its tombstones are gone."""
    names = TopicNames.of(group_id)
    _make_quickly_compacted(settings, names.jobs)
    async with GroupTopics(settings, group_id, WORKER) as topics:
        for number in range(30):
            await topics.submit(replace(JOB, run_key=f"r{number}"))
        await topics.submit(replace(JOB, name="gone"))
        await topics.remove("gone")
        await topics.submit(replace(JOB, name="last"))
        await topics.catch_up()
        offset = topics.jobs.offset
        assert offset == 34, "a removal is two records"
        await eventually(lambda: _compacted(settings, names.jobs, topics))
        await topics.catch_up()
        expected = topics.jobs
    fresh = read_group(settings, group_id).jobs
    assert set(fresh.jobs) == set(expected.jobs) >= {"flights", "last"}
    assert fresh.jobs["flights"].run_key == "r29"
    assert fresh.offset == expected.offset


def _make_quickly_compacted(settings: KafkaSettings, topic: str) -> None:
    quick = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
        "max.compaction.lag.ms": "100",
    }
    admin = AdminClient(settings.librdkafka())
    admin.create_topics([NewTopic(topic, 1, config=quick)])[topic].result()


async def test_a_reader_cut_off_until_a_tombstone_is_gone_sees_that_the_job_was_removed(
    settings: KafkaSettings, group_id: str
) -> None:
    names = TopicNames.of(group_id)
    _make_quickly_compacted(settings, names.jobs)
    elsewhere = settings_of(settings.bootstrap_servers, **{"client.id": "another"})
    partition = [TopicPartition(names.jobs, 0)]
    async with GroupTopics(settings, group_id, WORKER) as topics, GroupTopics(elsewhere, group_id, WORKER) as others:
        await topics.submit(JOB)
        await topics.submit(replace(JOB, name="gone"))
        await topics.catch_up()
        reader, cut_off = topics._open().reader, threading.Event()
        await eventually(lambda: names.jobs in reader._positions._whole)
        reader._orders.put(lambda: reader._consumer.pause(partition))
        reader._orders.put(cut_off.set)
        await eventually(cut_off.is_set)
        await others.remove("gone")
        await others.submit(replace(JOB, name="new"))
        await eventually(lambda: not _tombstones(settings, names.jobs))
        assert set(topics.jobs.jobs) == {"flights", "gone"}
        seen: list[set[str]] = []
        topics.subscribe(lambda: seen.append(set(topics.jobs.jobs)))
        reader._orders.put(lambda: reader._consumer.resume(partition))
        await topics.wait_for(lambda jobs, _: "gone" not in jobs.jobs, timeout_s=DEADLINE_S)
        assert set(topics.jobs.jobs) == {"flights", "new"}
        assert all("flights" in jobs for jobs in seen)
        assert dict(topics.renewals) == {names.jobs: 0, names.status: 0}


def _tombstones(settings: KafkaSettings, topic: str) -> list[bytes | None]:
    """The tombstones that are left. Each call writes a record, because only an append rolls a segment."""
    _raw_write(settings, topic, (b"job:rolls", b'{"v": 1}'))
    return [message.key() for message in _messages(settings, topic) if message.value() is None]


def _compacted(settings: KafkaSettings, topic: str, topics: GroupTopics) -> bool:
    """Whether few records are left. Each call writes one more, because only an append rolls a segment."""
    number = topics.jobs.offset
    _raw_write(settings, topic, (b"job:rolls", b'{"v": 1}'))
    return number > 33 and len(_messages(settings, topic)) < 15


async def test_catching_up_sees_everything_written_before_by_anybody(settings: KafkaSettings, group_id: str) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics:
        for epoch in range(1, 21):
            status = task_status(epoch)
            await asyncio.to_thread(_raw_write, settings, topics.names.status, _record(status))
            await topics.catch_up()
            assert topics.status.tasks[TASK].epoch == epoch


def _record(status: TaskStatus) -> tuple[bytes, bytes]:
    return task_key(status.task).encode(), encode(status.to_json())


async def test_waiting_ends_with_the_change_that_was_waited_for_or_in_time(
    settings: KafkaSettings, group_id: str
) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics:
        waiting = asyncio.ensure_future(topics.wait_for(lambda jobs, _: "flights" in jobs.jobs, timeout_s=DEADLINE_S))
        await topics.submit(JOB)
        await waiting
        with pytest.raises(TopicTimeoutError, match=r"group .*: not within 0.05 s"):
            await topics.wait_for(lambda _jobs, _status: False, timeout_s=0.05)
        with pytest.raises(ZeroDivisionError):
            await topics.wait_for(lambda _jobs, _status: bool(1 / 0))


async def test_listeners_hear_of_changes_until_they_stop(settings: KafkaSettings, group_id: str) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics, GroupTopics(settings, group_id, WORKER) as another:
        await topics.catch_up()
        heard: list[str] = []
        stop = topics.subscribe(lambda: heard.append("one"))
        another.subscribe(lambda: heard.append("two"))
        await topics.submit(JOB)
        await eventually(lambda: {"one", "two"} <= set(heard))
        stop()
        await topics.publish_plan(PLAN)
        heard.clear()
        await topics.publish_task(task_status(1))
        await topics.wait_for(lambda _, status: TASK in status.tasks, timeout_s=DEADLINE_S)
        await eventually(lambda: heard)
        assert set(heard) == {"two"}


def test_looking_at_a_group_that_does_not_exist_makes_no_topics(settings: KafkaSettings, group_id: str) -> None:
    with pytest.raises(NoTopicError, match=f"'{group_id}.jobs' does not exist"):
        read_group(settings, group_id)
    with pytest.raises(NoTopicError, match=f"'{group_id}.events' does not exist"):
        read_events(settings, group_id)
    assert group_id not in list_groups(settings)


async def test_a_reader_that_waits_for_a_group_finds_it_once_it_is_made(
    settings: KafkaSettings, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def jobs() -> list[str]:
        async with watched_topics(settings, group_id) as topics:
            await topics.wait_for(lambda jobs, _: bool(jobs.jobs))  # the topics are made before the job is written
            return list(topics.jobs.jobs)

    waiting = asyncio.ensure_future(jobs())
    await eventually(lambda: f"'{group_id}.jobs' does not exist" in caplog.text)
    assert group_id not in await asyncio.to_thread(list_groups, settings)
    with pytest.raises(TopicTimeoutError, match=r"after 0\.1 s: the topic"):
        async with watched_topics(settings, group_id, timeout_s=0.1):
            pass
    await asyncio.to_thread(submit_job, settings, group_id, JOB)
    assert await asyncio.wait_for(waiting, DEADLINE_S) == ["flights"]


async def test_a_group_that_was_looked_for_too_early_is_found_later(settings: KafkaSettings, group_id: str) -> None:
    """Librdkafka remembers for a while that a topic did not exist."""
    keeps_clients = GroupTopics(settings, f"{group_id}-other", WORKER)
    await keeps_clients.start()
    early = GroupTopics(settings, group_id)
    early.attach()
    with pytest.raises(NoTopicError):
        await early.catch_up()
    await asyncio.to_thread(
        lambda: submit_job(settings_of(settings.bootstrap_servers, **{"client.id": "another"}), group_id, JOB)
    )
    await asyncio.wait_for(_caught_up(early), DEADLINE_S)
    assert dict(early.jobs.jobs) == {"flights": JOB}
    await early.aclose()
    await keeps_clients.aclose()


async def _caught_up(topics: GroupTopics) -> None:
    """Whether the reader caught up; it may still count the topics as missing when the broker already has them."""
    while True:
        try:
            await topics.catch_up()
        except NoTopicError:
            await asyncio.sleep(0.05)
        else:
            return


async def test_a_topic_with_several_partitions_is_refused(settings: KafkaSettings, group_id: str) -> None:
    admin = AdminClient(settings.librdkafka())
    admin.create_topics([NewTopic(f"{group_id}.status", 3)])[f"{group_id}.status"].result()
    with pytest.raises(TopicError, match=f"'{group_id}.status' has 3 partitions, but must have exactly one"):
        await GroupTopics(settings, group_id, WORKER).start()


async def test_a_topic_that_loses_old_records_is_warned_of(
    settings: KafkaSettings, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs in it would be unknown to workers that start after a week."""
    admin = AdminClient(settings.librdkafka())
    admin.create_topics([NewTopic(f"{group_id}.jobs", 1)])[f"{group_id}.jobs"].result()
    async with GroupTopics(settings, group_id, WORKER):
        warned = [record.getMessage() for record in caplog.records if "cleanup.policy" in record.getMessage()]
    assert len(warned) == 1, "not of the topics that it has created itself"
    assert f"the topic '{group_id}.jobs' has cleanup.policy=delete" in warned[0]


async def test_a_topic_that_is_deleted_and_made_anew_is_read_anew(settings: KafkaSettings, group_id: str) -> None:
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.submit(JOB)
        await topics.submit(replace(JOB, name="old"))
        await topics.catch_up()
        assert topics.jobs.offset == 2
        admin = AdminClient(settings.librdkafka())
        admin.delete_topics([topics.names.jobs])[topics.names.jobs].result()
        await eventually(lambda: topics.names.jobs not in admin.list_topics(timeout=DEADLINE_S).topics)
        admin.create_topics([NewTopic(topics.names.jobs, 1)])[topics.names.jobs].result()
        new = replace(JOB, name="new")
        await asyncio.to_thread(
            lambda: submit_job(settings_of(settings.bootstrap_servers, **{"client.id": "another"}), group_id, new)
        )
        await topics.wait_for(lambda jobs, _: "new" in jobs.jobs, timeout_s=DEADLINE_S)
        assert (dict(topics.jobs.jobs), topics.jobs.offset) == ({"new": new}, 1)


async def test_a_large_group_record_is_stored(settings: KafkaSettings, group_id: str) -> None:
    """Twenty thousand tasks: more than a broker takes in one record, unless it is compressed."""
    tasks = frozenset(TaskId(f"a-job-with-a-long-name-{n % 100:03}", n // 100) for n in range(20_000))
    large = replace(_group(1), assignment={W1: tasks}, memory=Memory(assignment={W1: tasks}))
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.publish_group(large)
        await topics.catch_up()
        assert topics.status.group == large
