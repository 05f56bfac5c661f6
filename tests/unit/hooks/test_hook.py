"""The hook, up to the seam where a broker is asked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time import task_runner
from airflow_values import group_record, group_snapshot, job, jobs_snapshot, status_snapshot
from stand_ins import MemoryTopics

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration import one_shot
from airflow_provider.integration.airflow_api.airflow_names import AirflowException
from airflow_provider.integration.links import SparkGroupLink, group_link
from airflow_provider.integration.memberships import deserted
from airflow_provider.integration.one_shot import GroupSnapshot
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import BrokerAwayError, NoTopicError
from airflow_provider.provider_info import get_provider_info
from airflow_provider.state.metrics.missing_slots import NO_ROOM, Room
from airflow_provider.state.records import TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.reports.narration import epoch_in_words, tasks_in_words
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, MemberId, TaskId, WorkerId


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "broker:9092", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    secrets = {"sasl.username": "u", "sasl.password": "hunter2"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": {**extra, **secrets, "ssl.ca.location": ""}})
    )

    async def has_members(_group: str, _settings: KafkaSettings) -> bool:
        return True

    monkeypatch.setattr(deserted, "has_members", has_members)


def test_settings_come_from_a_connection_of_type_kafka(connection: None) -> None:
    settings = SparkGroupHook("broker").get_settings()
    assert settings.bootstrap_servers == "broker:9092"
    assert settings.conn_id == "broker"
    assert "hunter2" not in repr(settings)


def test_airflows_form_stores_a_null_where_nobody_wrote_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    form, _ = get_provider_info()["connection-types"]
    extra = {**dict.fromkeys(form["conn-fields"]), "bootstrap.servers": "broker:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_FORM", json.dumps({"conn_type": "kafka", "extra": extra}))
    settings = SparkGroupHook("form").get_settings()
    assert dict(settings.values) == {"bootstrap.servers": "broker:9092"}


@pytest.mark.parametrize(("extra", "problem"), [("{", "is not JSON"), ("[1]", "must be a JSON object")])
def test_an_extra_that_is_no_json_object_is_named(extra: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkGroupHook, "get_connection", lambda _hook, _id: SimpleNamespace(extra=extra))
    with pytest.raises(SettingsError, match=f"connection 'broken': the extra {problem}"):
        SparkGroupHook("broken").get_settings()


async def test_triggers_get_them_without_blocking(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", None, raising=False)  # a triggerer has one
    assert await SparkGroupHook("broker").aget_settings() == SparkGroupHook("broker").get_settings()


def test_a_connection_that_is_missing_or_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((AirflowException, SettingsError), match="nowhere"):
        SparkGroupHook("nowhere").get_settings()
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", json.dumps({"conn_type": "kafka", "extra": {}}))
    with pytest.raises(SettingsError, match=r"connection 'empty': bootstrap.servers: is missing"):
        SparkGroupHook("empty").get_settings()


def test_the_button_in_airflow_tells_what_is_wrong(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_settings: KafkaSettings, *, timeout_s: float) -> list[str]:
        raise BrokerAwayError("broker:9092", "listing the topics", "refused")

    monkeypatch.setattr(one_shot, "list_groups", away)
    worked, message = SparkGroupHook("broker").test_connection()
    assert not worked
    assert "no broker answered at broker:9092" in message
    monkeypatch.setattr(one_shot, "list_groups", lambda _settings, *, timeout_s: ["etl", "ml"])
    assert SparkGroupHook("broker").test_connection() == (
        True,
        "The broker answers; groups of workers that can be seen: etl, ml",
    )


@pytest.mark.parametrize(
    ("workers", "asked"), [("w2", ["w2"]), (["w2", "w1"], ["w1", "w2"]), (None, ["w1", "w2"]), ([], [])]
)
def test_workers_are_asked_to_go_by_their_names(
    workers: Any, asked: list[str], connection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = MemoryTopics()
    asyncio.run(topics.publish_group(group_record(1)))
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group, _needs: topics)
    assert SparkGroupHook("broker").stop_workers("g", workers) == asked
    assert sorted(topics.jobs.controls) == asked


def test_who_has_left_is_not_asked_to_go(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = MemoryTopics()
    asyncio.run(topics.publish_group(group_record(1)))
    left = WorkerStatus(worker=WorkerId("w1"), state=WorkerPhase.LEFT, epoch=Epoch(1), slots=1)
    asyncio.run(topics.publish_worker(left))
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group, _needs: topics)
    assert SparkGroupHook("broker").stop_workers("g") == ["w2"]


def test_who_stands_back_is_asked_to_go_too(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = MemoryTopics()
    asyncio.run(topics.publish_group(group_record(1)))
    back = WorkerStatus(worker=WorkerId("w3"), state=WorkerPhase.LEFT, epoch=Epoch(1), slots=1, condition="no master")
    asyncio.run(topics.publish_worker(back))
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group, _needs: topics)
    assert SparkGroupHook("broker").stop_workers("g") == ["w1", "w2", "w3"]


async def test_an_asynchronous_task_may_use_the_hook_too(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group, _needs: MemoryTopics())
    assert SparkGroupHook("broker").stop_workers("g", "w1") == ["w1"]


def test_reports_on_jobs_and_groups(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_snapshot(job(), tasks=3)
    tasks = status_snapshot(jobs, "job", TaskState.FINISHED, TaskState.FAILED, TaskState.PENDING, worker="w1")
    group = group_snapshot(4, applied=3)
    status = StatusSnapshot(tasks=tasks.tasks, group=group.group, workers=group.workers)
    monkeypatch.setattr(
        one_shot, "read_group", lambda _settings, name: GroupSnapshot(group=name, jobs=jobs, status=status)
    )
    hook = SparkGroupHook("broker")
    report = hook.job_progress("g", "job")
    assert report is not None
    assert json.loads(json.dumps(report.to_json())) == {
        "job": "job",
        "run_key": "r1",
        "state": "failed",
        "complete": False,
        "tasks": 3,
        "counts": {"pending": 1, "finished": 1, "failed": 1},
        "errors": {"job:1": {"message": "no luck with 1", "traceback": "..."}},
        "results": {"0": {"rows": 0}},
        "names": {},
        "learners": [],
        "assets": [],
        "runs": {
            index: {"state": state, "worker": "w1", "attempt": 1, "started_at": None, "seconds": None}
            for index, state in (("0", "finished"), ("1", "failed"), ("2", "pending"))
        },
    }
    assert hook.job_progress("g", "another") is None
    state = hook.group_state("g")
    assert state is not None
    assert state.record.epoch == 4
    assert not state.converged


def test_the_slots_of_a_group(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, group, gone = jobs_snapshot(job(), tasks=6), group_snapshot(4), False
    jobs = replace(jobs, plans={name: replace(plan, at_ms=wall_ms()) for name, plan in jobs.plans.items()})

    async def has_members(_group: str, _settings: KafkaSettings) -> bool:
        return not gone

    monkeypatch.setattr(deserted, "has_members", has_members)
    monkeypatch.setattr(
        one_shot, "read_group", lambda _settings, name: GroupSnapshot(group=name, jobs=jobs, status=group)
    )
    hook = SparkGroupHook("broker")
    assert hook.room("g") == Room(workers=2, slots=4, waiting_tasks=2, lacking=2)
    assert hook.room("g", waited_s=10**8).lacking == 0, "they were planned just now"
    gone = True
    assert hook.room("g") == Room(waiting_tasks=6, lacking=6)


def test_a_group_that_does_not_exist_is_no_error(connection: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_settings: KafkaSettings, name: str) -> GroupSnapshot:
        raise NoTopicError(f"{name}.jobs")

    monkeypatch.setattr(one_shot, "read_group", missing)
    assert SparkGroupHook("broker").group_state("g") is None
    assert SparkGroupHook("broker").job_progress("g", "job") is None

    async def has_members(_group: str, _settings: KafkaSettings) -> bool:
        return False

    monkeypatch.setattr(deserted, "has_members", has_members)
    assert SparkGroupHook("broker").room("g") == NO_ROOM


def test_the_link_leads_to_the_groups_leader() -> None:
    snapshot = group_snapshot(1)
    assert group_link(snapshot).startswith("http://airflow.example/")
    assert group_link(StatusSnapshot()) == ""
    foreign = {WorkerId("w1"): _with_url(snapshot, "process://host/12")}
    assert group_link(StatusSnapshot(group=snapshot.group, workers=foreign)) == "", "nothing that a browser opens"

    class Operator:
        group_link = "http://airflow.example/x"

    link: Any = SparkGroupLink()
    assert link.get_link(Operator(), ti_key=None) == "http://airflow.example/x"
    assert link.get_link(object(), ti_key=None) == ""


def _with_url(snapshot: StatusSnapshot, url: str) -> Any:
    return replace(snapshot.workers[WorkerId("w1")], url=url)


@pytest.mark.parametrize("reason", MoveReason)
@pytest.mark.parametrize("target", [None, "w2"], ids=["stops", "starts"])
def test_every_move_has_words(reason: MoveReason, target: str | None) -> None:
    move = Move(
        tasks=frozenset({TaskId("job", 0)}),
        source=WorkerId("w1"),
        target=None if target is None else WorkerId(target),
        reason=reason,
    )
    record = group_snapshot(1, moves=(move,)).group
    assert record is not None
    lines = list(epoch_in_words(record, WorkerId("w1")))
    assert lines[0].startswith("Epoch 1 (generation 1), led by this worker")
    assert "job:0" in lines[1]


def test_one_worker_is_told_as_one() -> None:
    record = group_snapshot(1, members={WorkerId("w1"): MemberId("w1")}, reason="").group
    assert record is not None
    assert next(epoch_in_words(record, WorkerId("w1"))).endswith("with 1 worker: w1")


def test_very_many_workers_are_not_all_named_for_each_of_them_says_this() -> None:
    workers = [f"worker-{number:04}" for number in range(1_000)]
    members = {WorkerId(worker): MemberId(worker) for worker in workers}
    record = group_snapshot(1, members=members, reason=f"{', '.join(workers)} joined").group
    assert record is not None
    lines = list(epoch_in_words(record, WorkerId(workers[0])))
    assert "with 1000 workers: worker-0000, " in lines[0]
    assert "and 980 more" in lines[0]
    assert sum(map(len, lines)) < 1_500


def test_very_many_tasks_are_not_all_named() -> None:
    assert tasks_in_words([]) == "no task"
    words = tasks_in_words(TaskId("job", index) for index in range(1_000))
    assert words.startswith("job:0, job:1, ")
    assert words.endswith(" and 980 more")
