"""What is written to the topics can be read again, by hand and by this package; what can't be accepted says why."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.assignment.model import LeaveReason, Memory, Move, MoveReason
from airflow_provider.kafka.topics.errors import TooLargeError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.producer import NewRecord, TopicWriter
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    JobError,
    PlanRecord,
    RebalanceEvent,
    Removal,
    StreamProgress,
    TaskEvent,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    TopicNames,
    UnreadableRecordError,
    WorkerPhase,
    WorkerStatus,
    control_key,
    decode,
    encode,
    event_from_json,
    job_key,
    parse_key,
    plan_key,
    task_key,
    worker_key,
)
from airflow_provider.state.records.envelope import LARGEST_VALUE
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import (
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    WorkerId,
    planner_of,
)
from airflow_provider.values.replacing import replaced

W1 = WorkerId("w1")

JOB = JobDefinition(
    name="flights",
    entry_point="jobs.flights:Clean",
    config={"months": [1, 2], "where": None},
    max_tasks=12,
    run_key="manual__2013",
    retries=2,
    retry_delay_ms=500,
    submitted_at_ms=1_000,
    submitted_by="dag flights",
)
STATUS = TaskStatus(
    task=TaskId("flights", 3),
    state=TaskState.PENDING,
    epoch=Epoch(7),
    worker=W1,
    run_key="manual__2013",
    kind=TaskKind.STREAMING,
    fingerprint="abc",
    attempt=2,
    started_at_ms=10,
    finished_at_ms=20,
    error=TaskFailure(message="boom", traceback="Traceback\n  boom"),
    result={"rows": 3},
    handle={"session": "s"},
)
GROUP = ClassicRecord(
    epoch=Epoch(7),
    generation=GenerationId(3),
    leader=W1,
    leader_member=MemberId("w1-abc"),
    protocol=SubProtocol.SESSIONED,
    config_offset=ConfigOffset(5),
    members={W1: MemberId("w1-abc")},
    assignment={W1: frozenset({TaskId("flights", 0), planner_of("flights")})},
    revoked={},
    moves=(Move(tasks=frozenset({TaskId("flights", 0)}), source=None, target=W1, reason=MoveReason.NEW),),
    delay_ms=0,
    reason="first member",
    at_ms=1_000,
    memory=Memory(generation=GenerationId(3), deadline_ms=900, members=frozenset({W1})),
)

RECORDS = [
    JOB,
    replaced(STATUS, progress=StreamProgress(batch=7, rows_per_second=12.5, at_ms=30)),
    JobDefinition(name="s", entry_point="m:f", kind=TaskKind.STREAMING, replan_interval_ms=60_000),
    PlanRecord.of(JOB, [{"month": 1}, {"month": 2}], planned_by=W1, at_ms=3),
    ControlRecord(worker=W1, action=ControlAction.DRAIN, at_ms=4),
    ControlRecord(worker=W1, action=ControlAction.LEAVE_SOON, at_ms=4, within_ms=60_000),
    STATUS,
    TaskStatus(task=planner_of("flights"), state=TaskState.FINISHED, epoch=Epoch(0), worker=W1),
    WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(3), slots=2, owned=frozenset({TaskId("flights", 1)})),
    WorkerStatus(
        worker=W1,
        state=WorkerPhase.LEFT,
        epoch=Epoch(3),
        slots=2,
        member_id=MemberId("w1-1"),
        left=LeaveReason.RESTARTING,
        returns_ms=9,
    ),
    RebalanceEvent.of(GROUP),
    TaskEvent(status=STATUS, at_ms=9),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_written_is_read_again_even_with_fields_of_a_newer_writer(record: Any) -> None:
    stored = json.loads(encode(record.to_json()))
    assert stored["v"] == 1
    stored["a_field_of_tomorrow"] = {"x": 1}
    assert type(record).from_json(decode(json.dumps(stored).encode())) == record


@pytest.mark.parametrize("record", RECORDS[:-2], ids=lambda record: type(record).__name__)
def test_a_record_with_a_field_missing_or_of_another_type_is_refused(record: Any) -> None:
    data = record.to_json()
    for name in data.keys() - {"result", "handle"}:  # any JSON value may stand there, or none
        with pytest.raises(ValueError, match=rf"Expected .* got .*{name}[`\[]"):
            type(record).from_json({**data, name: [object()]})


@pytest.mark.parametrize("waiting", [set(), {TaskId("flights", 1)}], ids=["nothing lost", "lost work waits"])
def test_a_group_record_repeats_its_assignment_in_the_memory_only_if_lost_work_waits(waiting: set[TaskId]) -> None:
    remembered = {worker: tasks | waiting for worker, tasks in GROUP.assignment.items()}
    record = replace(GROUP, memory=replace(GROUP.memory, assignment=remembered))
    written = record.to_json()
    assert (written["memory"]["assignment"] is not None) == bool(waiting)
    assert ClassicRecord.from_json(decode(encode(written))) == record


def test_a_worker_that_an_older_release_has_written_says_nothing_of_its_absence() -> None:
    data = WorkerStatus(worker=W1, state=WorkerPhase.LEFT, epoch=Epoch(3), slots=2, left=LeaveReason.STOPPED).to_json()
    old = {
        name: value
        for name, value in data.items()
        if name not in ("member_id", "left", "returns_ms", "condition", "learning", "leaves_soon")
    }
    read = WorkerStatus.from_json(old)
    assert (read.member_id, read.left, read.returns_ms, read.condition) == ("", None, None, "")


def test_a_release_that_knows_of_no_learning_reads_a_drain() -> None:
    wish = ControlRecord(worker=W1, action=ControlAction.LEAVE_SOON, at_ms=4)
    written = wish.to_json()
    assert written == {"worker": W1, "action": "drain", "at_ms": 4, "learned_first": True}
    drain = ControlRecord(worker=W1, action=ControlAction.DRAIN, at_ms=4)
    assert drain.to_json() == {"worker": W1, "action": "drain", "at_ms": 4}, "nothing else is written than before"


def test_how_long_a_return_takes_is_no_negative_number_and_no_longer_than_any_delay() -> None:
    data = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(3), slots=2).to_json()
    with pytest.raises(ValueError, match="returns_ms"):
        WorkerStatus.from_json({**data, "returns_ms": -1})
    assert WorkerStatus.from_json({**data, "returns_ms": 2**40}).returns_ms == 2**31 - 1


def test_a_task_that_an_older_release_has_written_has_seen_no_spark_end() -> None:
    old = {name: value for name, value in STATUS.to_json().items() if name != "spark_deaths"}
    assert TaskStatus.from_json(old).spark_deaths == 0


def test_a_memory_that_an_older_release_has_written_awaits_nobody() -> None:
    data = replace(GROUP, memory=replace(GROUP.memory, awaited={W1: 5})).to_json()
    assert ClassicRecord.from_json(data).memory.awaited == {W1: 5}
    del data["memory"]["awaited"]
    assert ClassicRecord.from_json(data).memory.awaited == {}


def test_events_are_told_apart_and_carry_no_memory_of_the_leader() -> None:
    rebalance = event_from_json(RebalanceEvent.of(GROUP).to_json())
    assert isinstance(rebalance, RebalanceEvent)
    assert rebalance.deadline_ms == 900
    assert rebalance.record.moves == GROUP.moves
    assert "memory" not in RebalanceEvent.of(GROUP).to_json()
    assert event_from_json(TaskEvent(status=STATUS, at_ms=9).to_json()) == TaskEvent(status=STATUS, at_ms=9)
    with pytest.raises(UnreadableRecordError, match="weather"):
        event_from_json({"type": "weather"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\xff\xfe", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object but list"),
        (b"{}", "no schema version"),
        (b'{"v": true}', "no schema version"),
        (b'{"v": "1"}', "no schema version"),
        (b'{"v": 3}', "newer than 2"),
    ],
)
def test_a_value_that_is_no_record_is_unreadable(value: Any, message: str) -> None:
    with pytest.raises(UnreadableRecordError, match=message):
        decode(value)


def test_a_value_that_is_too_long_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed it may be small: a kilobyte becomes a megabyte, and that seventy in memory."""
    longest = encode(JOB.to_json()).ljust(LARGEST_VALUE)
    assert JobDefinition.from_json(decode(longest)) == JOB
    monkeypatch.setattr(msgspec.json, "decode", lambda _text: pytest.fail("it was parsed"))
    with pytest.raises(UnreadableRecordError, match="it has 16777217 bytes, more than the 16777216"):
        decode(longest + b" ")


@pytest.mark.slow
async def test_nothing_is_written_that_nobody_would_read() -> None:
    writer = TopicWriter({"bootstrap.servers": "127.0.0.1:9"}, Outage("127.0.0.1:9"))
    try:
        with pytest.raises(TooLargeError, match="or 16777216 before compression"):
            await writer.write(NewRecord("g.jobs", "plan:a", b" " * (LARGEST_VALUE + 1)))
    finally:
        writer.close()


def test_keys_are_readable_and_come_apart_again() -> None:
    assert [job_key("a"), plan_key("a.b"), control_key(W1), worker_key(W1), task_key(TaskId("a", 3))] == [
        "job:a",
        "plan:a.b",
        "control:w1",
        "worker:w1",
        "task:a:3",
    ]
    assert parse_key(b"task:a:-1").task == planner_of("a")
    assert parse_key(b"worker:host:8083").name == "host:8083"
    assert TopicNames.of("etl").all == ("etl.jobs", "etl.status", "etl.events")


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff", b"job", b"job:", b"group:x", b"task:a", b"task:a:x", b"task:a:-2", b"recipe:a"]
)
def test_other_keys_are_unreadable(key: bytes | None) -> None:
    with pytest.raises(UnreadableRecordError):
        parse_key(key)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a:b", "é", "a\n", "x" * 201, None, 7])
def test_a_job_name_that_a_key_or_path_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(JobError, match=r"name: use 1 to 200 letters"):
        JobDefinition(name=name, entry_point="m:f")


@pytest.mark.parametrize("name", ["a", "...", "Flights_2013.v-2", "x" * 200])
def test_a_legal_job_name_is_kept(name: str) -> None:
    assert JobDefinition(name=name, entry_point="m:f").name == name


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("entry_point", "jobs.flights", "package.module:ClassOrFunction"),
        ("entry_point", "jobs..flights:Clean", "package.module:ClassOrFunction"),
        ("entry_point", "os;rm:x", "package.module:ClassOrFunction"),
        ("entry_point", None, "package.module:ClassOrFunction"),
        ("entry_point", f"m:{'f' * 500}", "at most 500 characters"),
        ("max_tasks", 0, "at least 1"),
        ("max_tasks", True, "whole number"),
        ("max_tasks", 1.5, "whole number"),
        ("retries", -1, "at least 0"),
        ("retry_delay_ms", -1, "at least 0"),
        ("timeout_ms", 0, "at least 1"),
        ("replan_interval_ms", 0, "at least 1"),
        ("run_key", None, "must be a string"),
        ("run_key", "r" * 1_001, "at most 1000 characters"),
        ("config", [1], "must be a JSON object, not list"),
        ("config", {"at": object()}, "can't be written as JSON"),
        ("config", {"x": math.nan}, "can't be written as JSON"),
        ("config", {"deep": [{1: "x"}]}, "the key 1 is not a string"),
    ],
)
def test_a_bad_field_is_refused_with_the_jobs_name_and_what_to_do(field: str, value: Any, message: str) -> None:
    with pytest.raises(JobError, match=message) as refused:
        JobDefinition(**{"name": "flights", "entry_point": "m:f", field: value})
    assert str(refused.value).startswith(f"job 'flights', {field}: ")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run_key", "half \ud83d"),
        ("submitted_by", "\udcff"),
        ("retry_delay_ms", 10**400),
        ("max_tasks", 2**63),
        ("submitted_at_ms", -(10**30)),
        ("timeout_ms", 10**20),
        ("replan_interval_ms", 10**20),
    ],
)
def test_what_nobody_can_go_on_with_is_refused_where_it_is_read(field: str, value: Any) -> None:
    """It could neither be written into a status record, nor be waited for: a worker that took it would end."""
    record = {**JobDefinition(name="flights", entry_point="m:f").to_json(), field: value}
    with pytest.raises(
        ValueError, match=f"{field}.*(must fit into 64 bits|can be written as UTF-8|must be at most)|Expected.*{field}"
    ):
        JobDefinition.from_json(record)


def test_a_limit_of_time_is_no_part_of_the_work_and_older_records_have_none() -> None:
    limited = _job(timeout_ms=60_000)
    assert JobDefinition.from_json(limited.to_json()) == limited
    assert limited.fingerprint == JOB.fingerprint
    assert not limited.same_as(JOB), "submitting it changes something"
    old = {name: value for name, value in JOB.to_json().items() if name != "timeout_ms"}
    assert JobDefinition.from_json(old) == JOB


def test_tasks_without_end_have_no_limit_of_time() -> None:
    with pytest.raises(JobError, match="timeout_ms: does not apply to a job whose tasks have no end"):
        JobDefinition(name="flights", entry_point="m:f", kind=TaskKind.STREAMING, timeout_ms=1)


def test_a_failure_can_be_written_whatever_is_in_its_text() -> None:
    failure = TaskFailure.of("no file caf\udce9", "in caf\udce9")
    assert failure == TaskFailure(message="no file caf\\udce9", traceback="in caf\\udce9")


def test_what_users_give_may_be_nested_as_deep_as_every_thread_can_write() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(levels - 1):
            value = {"x": value}
        return value

    job = JobDefinition(name="a", entry_point="m:f", config=nested(100), max_tasks=1)
    plan = PlanRecord.of(job, [nested(100)], planned_by=W1, at_ms=0)
    status = replaced(STATUS, result=nested(100))
    for record in (job, plan, status, TaskEvent(status=status, at_ms=9)):
        assert type(record).from_json(decode(encode(record.to_json()))) == record
    with pytest.raises(JobError, match="config: can't be written as JSON: it is nested more than 100 levels deep"):
        JobDefinition(name="a", entry_point="m:f", config=nested(101))
    with pytest.raises(ValueError, match="'result' can't be written as JSON: it is nested more than 100 levels deep"):
        TaskStatus.from_json({**STATUS.to_json(), "result": nested(101)})


def test_a_config_that_contains_itself_is_refused() -> None:
    config: dict[str, Any] = {}
    config["self"] = config
    with pytest.raises(JobError, match="can't be written as JSON"):
        JobDefinition(name="a", entry_point="m:f", config=config)


def test_a_config_changed_after_submission_changes_nothing() -> None:
    config = {"months": [1]}
    job = JobDefinition(name="a", entry_point="m:f", config=config)
    config["months"].append(2)
    assert job.config == {"months": [1]}


def test_the_config_does_not_show_in_logs() -> None:
    assert "hunter2" not in repr(JobDefinition(name="a", entry_point="m:f", config={"password": "hunter2"}))


def _job(**changes: Any) -> JobDefinition:
    return JobDefinition.from_json({**JOB.to_json(), **changes})


def test_the_fingerprint_is_of_what_runs_and_not_of_when() -> None:
    for same in ({"run_key": "next"}, {"retries": 9}, {"submitted_at_ms": 5}, {"submitted_by": "x"}):
        assert _job(**same).fingerprint == JOB.fingerprint
    others: list[dict[str, Any]] = [{"config": {}}, {"entry_point": "m:f"}, {"max_tasks": 13}, {"kind": "streaming"}]
    for other in others:
        assert _job(**other).fingerprint != JOB.fingerprint
    assert _job(config={"where": None, "months": [1, 2]}).fingerprint == JOB.fingerprint


@pytest.mark.parametrize(
    ("definition", "of_tasks", "of_planner"),
    [
        ({"retries": None}, 0, 0),
        ({"retries": None, "replan_interval_ms": 5}, 0, 0),
        ({"retries": None, "kind": TaskKind.STREAMING}, None, 0),
        ({"retries": None, "kind": TaskKind.STREAMING, "replan_interval_ms": 5}, None, None),
        ({"retries": 2, "kind": TaskKind.STREAMING, "replan_interval_ms": 5}, 2, 2),
        ({"retries": 0, "kind": TaskKind.STREAMING}, 0, 0),
    ],
)
def test_what_has_no_end_is_tried_again_as_often_as_it_takes_unless_its_job_says_how_often(
    definition: Any, of_tasks: int | None, of_planner: int | None
) -> None:
    job = _job(**definition)
    tries = [job.retries_of(TaskId(job.name, index)) for index in (0, 7, -1)]
    assert tries == [of_tasks, of_tasks, of_planner]


def test_a_job_that_says_nothing_of_retries_is_one_without_any_for_older_releases() -> None:
    silent = _job(retries=None)
    assert "retries" not in silent.to_json(), "they take null for an unreadable record, and nothing for 0"
    assert JobDefinition.from_json(silent.to_json()) == silent
    assert not silent.same_as(_job(retries=0)), "to say 0 sets a limit"


def test_a_job_that_was_removed_is_another_one_afterwards_which_its_submitter_need_not_know() -> None:
    again = _job(removal=7)
    assert again.fingerprint != JOB.fingerprint
    assert again.same_as(JOB)
    assert JobDefinition.from_json(again.to_json()) == again
    old = {name: value for name, value in JOB.to_json().items() if name != "removal"}
    assert JobDefinition.from_json(old) == JOB


def test_the_fingerprint_is_the_same_in_every_process_and_version() -> None:
    """It is compared with what other processes have written: it must not change by accident."""
    # printf '["a","m:f",{"x":1},1,"batch"]' | sha256sum | head -c 16
    job = JobDefinition(name="a", entry_point="m:f", config={"x": 1})
    assert job.fingerprint == "653c4338cbbbcb0b"
    # printf '["653c4338cbbbcb0b",{"m":1}]' | sha256sum | head -c 16
    assert PlanRecord.of(job, [{"m": 1}], planned_by=W1, at_ms=0).fingerprints == ("9482ac89b9b012e9",)


def test_submitting_again_is_the_same_unless_something_was_asked_for_differently() -> None:
    assert JOB.same_as(_job(submitted_at_ms=5, submitted_by="x"))
    assert not JOB.same_as(_job(run_key="next"))
    assert not JOB.same_as(_job(retries=9))


@pytest.mark.parametrize(
    ("changes", "bounded"),
    [({}, True), ({"kind": "streaming"}, False), ({"replan_interval_ms": 5}, False)],
)
def test_a_job_is_bounded_if_a_run_of_it_ends(changes: Any, bounded: bool) -> None:
    assert _job(**changes).bounded is bounded


def test_a_failure_keeps_the_end_of_its_traceback_which_is_where_the_cause_is() -> None:
    failure = TaskFailure.of("m" * 600, "x" * 5_000 + "the cause")
    assert len(failure.message) == 500
    assert len(failure.traceback) == 4_000
    assert failure.traceback.endswith("the cause")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@given(config=st.dictionaries(st.text(), JSON))
def test_any_json_object_survives_as_config(config: dict[str, Any]) -> None:
    job = JobDefinition(name="a", entry_point="m:f", config=config)
    again = JobDefinition.from_json(decode(encode(job.to_json())))
    assert again == job
    assert again.fingerprint == job.fingerprint


@given(value=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_value_makes_reading_fail_in_an_undocumented_way(value: Any) -> None:
    with contextlib.suppress(ValueError):
        JobDefinition.from_json(decode(value))


def test_a_config_with_half_a_character_is_refused_at_submission() -> None:
    with pytest.raises(JobError, match="can't be written as JSON"):
        JobDefinition(name="a", entry_point="m:f", config={"x": "\ud800"})


@pytest.mark.parametrize("removed", [1, "yesterday", [], True])
def test_what_is_no_removal_is_refused_in_words(removed: object) -> None:
    with pytest.raises(ValueError, match="Expected `object`, got "):
        Removal.from_json(removed)
