"""The hook's daily operations: what it asks of a group's topics, and what it answers where there is no group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fake_watch import FakeWatch
from group_records import record_of
from operator_bench import SETTINGS
from stand_ins import MemoryTopics
from waiting import DEADLINE_S

from airflow_provider.group.live import shared
from airflow_provider.hooks.spark_connect import SparkAddress, SparkConnectHook
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration import one_shot
from airflow_provider.integration.memberships import deserted as common_deserted
from airflow_provider.integration.memberships import group_now
from airflow_provider.integration.one_shot import GroupSnapshot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError, TopicTimeoutError
from airflow_provider.kafka.topics.rights import RETRIER, STEERER, STOPPER, Needs
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch import watching
from airflow_provider.spark.connect.query_watch.watch_events import WatchEvent
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.state.operations.operations import NoJobError, OperationError
from airflow_provider.state.records import ActionEvent, JobDefinition, PlanRecord, TaskKind, TaskState, TaskStatus
from airflow_provider.state.views.presence import nobody
from airflow_provider.values.model import Epoch, TaskId, WorkerId

W1 = WorkerId("w1")
JOB = JobDefinition(name="etl", entry_point="m:f", max_tasks=9, config={"table": "a"})


class Group:
    """A group in memory, and with which rights it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics = MemoryTopics("g")
        self.needed: list[Needs] = []
        self.deserted: bool | TopicError = False

        def opened(_settings: KafkaSettings, _group: str, needs: Needs) -> MemoryTopics:
            self.needed.append(needs)
            return self.topics

        def read(_settings: KafkaSettings, group: str, *, timeout_s: float = 30.0) -> GroupSnapshot:
            return GroupSnapshot(group=group, jobs=self.topics.jobs, status=self.topics.status)

        monkeypatch.setattr(SparkGroupHook, "get_settings", lambda _hook: SETTINGS)
        monkeypatch.setattr(one_shot, "GroupTopics", opened)
        monkeypatch.setattr(one_shot, "read_group", read)

    async def has_members(self, _group: str, _settings: KafkaSettings) -> bool:
        if isinstance(self.deserted, TopicError):
            raise self.deserted
        return not self.deserted


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    made = Group(monkeypatch)

    async def write() -> None:
        await made.topics.submit(JOB)
        await made.topics.publish_plan(PlanRecord.of(JOB, [{"i": 0}], planned_by=WorkerId("w1"), at_ms=0))

    asyncio.run(write())
    monkeypatch.setattr(common_deserted, "has_members", made.has_members)
    return made


def test_each_is_asked_by_name_with_the_rights_that_it_needs_and_written_down(group: Group) -> None:
    hook = SparkGroupHook()
    assert hook.pause_job("g", "etl", by="anna").changed
    assert hook.stop_job("g", "etl").changed
    assert hook.resume_job("g", "etl", by="bert").changed
    assert not hook.restart_job("g", "etl", [0], by="carl").changed, "nobody has it"
    assert hook.alter_job("g", "etl", {"table": "b"}, by="dora", retries=2).changed
    assert hook.set_log_level("g", "pkg.jobs", "DEBUG", worker="w1", by="emil").changed
    with pytest.raises(OperationError, match="the group has no workers"):
        hook.rebalance("g", by="fred")
    assert hook.stop_job("g", "etl", [0], by="gerd").stopped == (TaskId("etl", 0),)
    done = [event for event in group.topics.events if isinstance(event, ActionEvent)][1:]
    assert [(event.action, event.by) for event in done] == [
        ("pause", "anna"),
        ("stop", user_at_host()),
        ("resume", "bert"),
        ("alter", "dora"),
        ("set level", "emil"),
        ("stop tasks", "gerd"),
    ]
    assert group.needed == [STEERER] * 5 + [STOPPER, STOPPER, STEERER]


def test_a_job_is_described_whole(group: Group) -> None:
    hook = SparkGroupHook()
    described = hook.describe_job("g", "etl")
    assert described is not None
    shown = described.to_json(now_ms=0)
    assert shown["definition"]["config"] == {"table": "a"}
    assert [task["config"] for task in shown["status"]["tasks"]] == [{"i": 0}]
    assert [job.definition.name for job in hook.describe_jobs("g")] == ["etl"]
    assert hook.describe_job("g", "other") is None


def test_what_no_worker_watches_is_not_said_to_run(group: Group) -> None:
    async def run() -> None:
        await group.topics.publish_task(
            TaskStatus(task=TaskId("etl", 0), state=TaskState.RUNNING, epoch=Epoch(1), worker=WorkerId("w1"))
        )

    asyncio.run(run())
    hook = SparkGroupHook()

    def counted() -> tuple[Mapping[TaskState, int], TaskState]:
        report, described = hook.job_progress("g", "etl"), hook.describe_job("g", "etl")
        assert report is not None
        assert described is not None
        return report.progress.counts, described.tasks[0].state

    assert counted() == ({TaskState.RUNNING: 1}, TaskState.RUNNING)
    group.deserted = True
    assert counted() == ({TaskState.UNWATCHED: 1}, TaskState.UNWATCHED)
    group.deserted = TopicError("no right to read the coordinators' records")
    assert counted() == ({TaskState.RUNNING: 1}, TaskState.RUNNING), "who only looks sees what the topics say"
    with pytest.raises(TopicError):
        hook.orphans("g")


@pytest.mark.parametrize("deserted", [True, False], ids=["the last worker was killed", "a worker watches"])
def test_orphans_are_listed_and_ended_with_the_token_of_their_connection(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, deserted: bool
) -> None:
    group.deserted = deserted
    server, watches, tokens = ConnectServer(host="spark"), list[FakeWatch](), list[str]()
    handle = QueryHandle(server=server, session_id="s", conn_id="spark_stream", query_id="q", run_id="r")
    running = TaskStatus(
        task=TaskId("etl", 0),
        state=TaskState.RUNNING,
        epoch=Epoch(1),
        worker=WorkerId("w1"),
        kind=TaskKind.STREAMING,
        handle=handle.to_json(),
    )

    async def write() -> None:
        await group.topics.publish_group(record_of({running.worker: frozenset({running.task})}))
        await group.topics.publish_task(running)

    asyncio.run(write())

    def watch(settings: ConnectSettings, _user_agent: str, hear: Callable[[WatchEvent], None]) -> FakeWatch:
        tokens.append(settings.token)
        watches.append(FakeWatch(hear))
        return watches[-1]

    monkeypatch.setattr(watching, "QueryWatch", watch)
    monkeypatch.setattr(
        SparkConnectHook,
        "get_address",
        lambda hook: SparkAddress(master=server.url, token=f"token of {hook.spark_conn_id}"),
    )
    hook = SparkGroupHook()
    if not deserted:
        assert (hook.orphans("g"), hook.end_orphans("g"), watches) == ([], {}, [])
        return
    assert [(orphan.label, orphan.why) for orphan in hook.orphans("g")] == [("etl:0", "the group has no workers")]
    refused = hook.end_orphans("g", allowed_spark_servers=["sc://other"])
    assert "sc://spark:15002 is not called" in refused["etl:0"]
    assert (watches, tokens) == ([], []), "a handle comes from a topic"
    assert hook.end_orphans("g", allowed_spark_servers=["sc://spark"]) == {"etl:0": ""}
    assert ([watch.stopped for watch in watches], tokens) == ([[handle]], ["token of spark_stream"])
    assert (hook.orphans("g"), group.needed) == ([], [RETRIER, RETRIER])


def test_levels_are_told_by_worker(group: Group) -> None:
    hook = SparkGroupHook()
    hook.set_log_level("g", "pkg.jobs", "DEBUG")
    hook.set_log_level("g", "pkg", "ERROR", worker="w1")
    assert hook.log_levels("g") == {"*": {"pkg.jobs": "DEBUG"}, "w1": {"pkg": "ERROR"}}
    hook.set_log_level("g", "pkg.jobs", None)
    assert hook.log_levels("g") == {"w1": {"pkg": "ERROR"}}
    with pytest.raises(ValueError, match=r"^level: "):
        hook.set_log_level("g", "pkg", "LOUD")


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda hook: hook.pause_job("g", "etl"), NoJobError),
        (lambda hook: hook.restart_job("g", "etl"), NoJobError),
        (lambda hook: hook.set_log_level("g", "pkg", "DEBUG"), OperationError),
    ],
)
def test_a_group_that_is_not_there_has_no_jobs(
    group: Group, monkeypatch: pytest.MonkeyPatch, ask: Callable[[SparkGroupHook], Any], error: type[Exception]
) -> None:
    def missing(_settings: KafkaSettings, _group: str, _needs: Needs) -> MemoryTopics:
        raise NoTopicError("g.jobs")

    monkeypatch.setattr(one_shot, "GroupTopics", missing)
    with pytest.raises(error):
        ask(SparkGroupHook())


def test_only_the_version_is_altered_that_was_looked_at(group: Group) -> None:
    hook = SparkGroupHook()
    looked = hook.describe_job("g", "etl")
    assert looked is not None
    assert hook.alter_job("g", "etl", {"table": "b"}, if_version=looked.version).changed
    with pytest.raises(OperationError, match="'etl' has changed"):
        hook.alter_job("g", "etl", {"table": "c"}, if_version=looked.version)
    assert group.topics.jobs.jobs["etl"].config == {"table": "b"}
    assert hook.alter_job("g", "etl", session_conf={"spark.sql.shuffle.partitions": "8"}, retries=2).changed
    assert group.topics.jobs.jobs["etl"].session_conf == {"spark.sql.shuffle.partitions": "8"}


def test_a_wait_hears_from_the_coordinator_that_the_last_worker_was_killed(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Collection[str]] = []

    @asynccontextmanager
    async def watched_topics(
        _settings: KafkaSettings, _group: str, *, timeout_s: float | None = None
    ) -> AsyncIterator[MemoryTopics]:
        await group.topics.publish_group(record_of({W1: frozenset()}))
        yield group.topics

    async def have_classic_members(groups: Collection[str], _settings: KafkaSettings) -> Mapping[str, bool]:
        asked.append(groups)
        return {"g": len(asked) < 3}

    monkeypatch.setattr(shared, "watched_topics", watched_topics)
    monkeypatch.setattr(common_deserted, "have_classic_members", have_classic_members)
    monkeypatch.setattr(group_now, "_ASK_AGAIN_S", 0.01)
    why = SparkGroupHook().wait_for("g", lambda _, status: nobody(status) or None, timeout_s=DEADLINE_S)
    assert why.startswith("no worker is there: w1 got lost")
    with pytest.raises(TopicTimeoutError):
        SparkGroupHook().wait_for("g", lambda _jobs, _status: None, timeout_s=0.0)
