"""What is written to a group's topics, and what of it holds when others write at the same time."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from group_records import record_of
from large_topics import END, LargeTopics
from stand_ins import MemoryTopics
from waiting import eventually

from airflow_provider.group.live.classic.leader_records import LeaderRecords
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicTimeoutError
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.state.operations.operations import OperationError
from airflow_provider.state.records import (
    GROUP_KEY,
    JobDefinition,
    PlanRecord,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    decode,
    task_key,
)
from airflow_provider.state.records.envelope import NEWEST_VERSION, PACKED_VERSION
from airflow_provider.state.records.round_bytes import PACKED_FROM
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

TASK = TaskId("a", 0)
RUNNING = TaskStatus(
    task=TASK, state=TaskState.RUNNING, epoch=Epoch(5), worker=WorkerId("w1"), run_key="r1", started_at_ms=1
)
FINISHED = replaced(RUNNING, state=TaskState.FINISHED, finished_at_ms=2)
LATE = replaced(RUNNING, epoch=Epoch(4))
"""Of a worker that has been asleep."""


def leading() -> bool:
    return True


@pytest.mark.turned_clock
async def test_a_mended_record_that_lands_after_the_end_of_its_attempt_does_not_bring_it_back() -> None:
    topics = MemoryTopics()
    await topics.publish_task(RUNNING)
    await topics.publish_task(LATE)
    topics.takes_s = 60
    mending = asyncio.ensure_future(topics.reassert())
    await eventually(lambda: topics.writing)
    topics.takes_s = 0.0
    await topics.publish_task(FINISHED)
    assert await mending == 1
    assert topics.status.tasks[TASK] == FINISHED
    assert topics.status.overwritten == {task_key(TASK): FINISHED}, "compaction would keep what was mended"
    assert await topics.reassert() == 1
    assert (topics.status.tasks[TASK], dict(topics.status.overwritten)) == (FINISHED, {})


async def test_what_has_landed_by_the_time_of_mending_is_read_before() -> None:
    class Behind(MemoryTopics):
        """The end lies in the topic, and has not been read."""

        async def catch_up(self, *, timeout_s: float | None = None) -> None:
            await self.publish_task(FINISHED)

    topics = Behind()
    await topics.publish_task(RUNNING)
    await topics.publish_task(LATE)
    assert await topics.reassert() == 0
    assert topics.status.tasks[TASK] == FINISHED


class Written(MemoryTopics):
    """Remembers the versions in which rounds were written."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[int] = []

    async def _write(self, topic: str, key: str, value: bytes | None) -> None:
        await super()._write(topic, key, value)
        if key == GROUP_KEY and value is not None:
            self.versions.append(decode(value)["v"])


@pytest.mark.parametrize(("reads", "version"), [(NEWEST_VERSION, PACKED_VERSION), (1, 1)], ids=["new", "older"])
async def test_a_large_round_is_packed_once_all_its_workers_have_a_release_that_reads_it(
    reads: int, version: int
) -> None:
    topics = Written()
    large = frozenset(TaskId("a", index) for index in range(PACKED_FROM))
    round_ = record_of({WorkerId("w1"): large, WorkerId("w2"): frozenset()})
    for worker, its in (("w1", NEWEST_VERSION), ("w2", reads)):
        await topics.publish_worker(
            WorkerStatus(worker=WorkerId(worker), state=WorkerPhase.STABLE, epoch=Epoch(4), slots=1, reads=its)
        )
    await topics.publish_group(round_)
    assert topics.versions == [version, version], "in the status topic and in the timeline"
    assert topics.status.group == round_
    await topics.publish_group(record_of(epoch=4))
    assert topics.status.overwritten == {GROUP_KEY: round_}
    del topics.versions[:]
    assert await topics.reassert() == 1
    assert topics.versions == [version]
    assert (topics.status.group, dict(topics.status.overwritten)) == (round_, {})


JOB = JobDefinition(name="a", entry_point="m:f", run_key="r1")


def plan_of(job: JobDefinition) -> PlanRecord:
    return PlanRecord.of(job, [{}], planned_by=WorkerId("w1"), at_ms=0)


async def finish(topics: MemoryTopics, plan: PlanRecord) -> None:
    """As by a worker that knows that plan."""
    await topics.publish_plan(plan)
    for task, fingerprint in ((planner_of("a"), plan.definition), (TASK, plan.fingerprints[0])):
        await topics.publish_task(replaced(FINISHED, task=task, fingerprint=fingerprint))


async def test_a_job_that_was_removed_and_comes_again_begins_anew_whatever_late_workers_say_of_it() -> None:
    topics = MemoryTopics()
    before = (await topics.submit(JOB)).definition
    await topics.remove("a")
    await finish(topics, plan_of(before))
    again = await topics.submit(JOB)
    assert again.changed
    assert configured(topics.jobs, topics.status.tasks) == {planner_of("a")}
    await topics.publish_plan(plan_of(again.definition))
    await finish(topics, plan_of(before))
    assert configured(topics.jobs, topics.status.tasks) == {planner_of("a")}, "and still later"
    await finish(topics, plan_of(again.definition))
    assert configured(topics.jobs, topics.status.tasks) == set()


async def test_what_is_submitted_over_it_is_of_the_same_job() -> None:
    topics = MemoryTopics()
    await topics.submit(JOB)
    await topics.remove("a")
    first = (await topics.submit(JOB)).definition
    assert not (await topics.submit(JOB)).changed
    await finish(topics, plan_of(first))
    assert (await topics.submit(replace(JOB, retries=3))).changed
    assert configured(topics.jobs, topics.status.tasks) == set(), "it has finished already"


async def test_who_looked_at_another_job_of_the_name_removes_nothing_and_retries_nothing() -> None:
    topics = MemoryTopics()
    await topics.submit(JOB)
    looked_at = topics.jobs.defined_at["a"]
    await topics.submit(replace(JOB, run_key="r2"))
    with pytest.raises(OperationError, match="job 'a' has changed"):
        await topics.remove("a", defined_at=looked_at)
    with pytest.raises(OperationError, match="job 'a' has changed"):
        await topics.retry_failed("a", by="me", defined_at=looked_at)
    assert set(topics.jobs.jobs) == {"a"}
    assert await topics.remove("a", defined_at=topics.jobs.defined_at["a"])
    assert not await topics.remove("a", defined_at=looked_at), "it is gone, as was wanted"


async def test_what_an_unfinished_removal_leaves_is_deleted_by_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    class Ended(BaseException):
        """Nobody goes on after it."""

    class Ending(MemoryTopics):
        """A process that ends when it has deleted the job."""

        async def _write(self, topic: str, key: str, value: bytes | None) -> None:
            await super()._write(topic, key, value)
            if key == "job:a" and value is None:
                raise Ended

    caplog.set_level(logging.INFO)
    topics = Ending()
    await finish(topics, plan_of((await topics.submit(JOB)).definition))
    other = (await topics.submit(replace(JOB, name="b"))).definition
    others = replaced(RUNNING, task=TaskId("b", 0))
    await topics.publish_plan(plan_of(other))
    await topics.publish_task(others)
    with pytest.raises(Ended):
        await topics.remove("a")
    assert (set(topics.jobs.plans), set(topics.status.tasks)) == ({"a", "b"}, {TASK, planner_of("a"), others.task})
    leader = LeaderRecords(topics, asyncio.ensure_future, leading)
    leader.mend()
    await eventually(lambda: "3 records" in caplog.text)
    assert (set(topics.jobs.plans), dict(topics.status.tasks)) == ({"b"}, {others.task: others})


async def test_what_a_leader_finds_of_a_job_that_it_has_not_read_yet_is_left_alone() -> None:
    class Behind(MemoryTopics):
        """The job lies in the topic, and has not been read."""

        async def catch_up(self, *, timeout_s: float | None = None) -> None:
            if not self.jobs.jobs:
                await self._put(self.names.jobs, "job:a", JOB.to_json())

    topics = Behind()
    await topics.publish_task(FINISHED)
    assert await topics.sweep(leading) == 0
    assert topics.status.tasks[TASK] == FINISHED


async def test_what_is_said_of_a_task_while_the_leader_looks_is_left_alone() -> None:
    class Busy(MemoryTopics):
        async def catch_up(self, *, timeout_s: float | None = None) -> None:
            await self.publish_task(FINISHED)

    topics = Busy()
    await topics.publish_task(RUNNING)
    assert await topics.sweep(leading) == 0
    assert topics.status.tasks[TASK] == FINISHED


async def test_who_leads_no_more_when_the_topics_are_read_deletes_nothing() -> None:
    """The job may have been submitted again, and its task be run by somebody who says so under the same key."""
    topics = MemoryTopics()
    await topics.publish_task(FINISHED)
    assert await topics.sweep(lambda: False) == 0
    assert topics.status.tasks[TASK] == FINISHED
    assert await topics.sweep(leading) == 1


async def test_the_record_of_a_worker_that_is_gone_for_long_is_deleted() -> None:
    topics = MemoryTopics()
    here, gone = (
        WorkerStatus(worker=WorkerId(name), state=WorkerPhase.STABLE, epoch=Epoch(4), slots=1) for name in ("w1", "w2")
    )
    left = replace(gone, worker=WorkerId("w3"), state=WorkerPhase.LEFT, at_ms=wall_ms())
    for status in (here, gone, left):
        await topics.publish_worker(status)
    await topics.publish_group(record_of({here.worker: frozenset()}, epoch=5))
    assert await topics.sweep(leading) == 1
    assert set(topics.status.workers) == {here.worker, left.worker}
    assert await topics.sweep(leading) == 0


@pytest.mark.parametrize("group", ["", "a\x00b", "\ud800", "a b", "x" * 243])
async def test_a_group_whose_name_no_topic_can_have_is_not_given_to_the_reader_of_all_groups(group: str) -> None:
    topics = FollowedTopics(KafkaSettings.from_extra({"bootstrap.servers": "broker:9092"}, conn_id="c"), group)
    with pytest.raises(NoTopicError):
        topics.attach()
    with pytest.raises(NoTopicError):
        await topics.start()
    await topics.aclose()


@pytest.mark.parametrize(("read", "waits"), [((0,), 1), ((0, 7, 7), 2), ((0, 5, 9, 9), 3)])
async def test_large_topics_are_read_as_long_as_there_is_progress(read: tuple[int, ...], waits: int) -> None:
    """On a busy machine this may take minutes, for whoever reads: workers, triggers and commands."""
    topics = LargeTopics(*read)
    with pytest.raises(TopicTimeoutError):
        await topics.catch_up()
    assert topics.waits == waits


async def test_what_is_written_after_the_end_of_one_topic_is_no_progress_in_the_other() -> None:
    topics = LargeTopics(0, END, *range(END + 1, END + 9), unread=1)
    with pytest.raises(TopicTimeoutError):
        await topics.catch_up()
    assert topics.waits == 2


async def test_who_has_said_how_long_waits_no_longer() -> None:
    topics = LargeTopics(0, 7, 7)
    with pytest.raises(TopicTimeoutError):
        await topics.catch_up(timeout_s=5)
    assert topics.waits == 1
