"""Who may write to the status topic may lie in it. Whatever they say, the group goes on.

A lie is put at each place of each record. Either the record is skipped, or those who read it go on with it: a leader
makes a round that everybody can read, a member can join, a worker can say what became of a task.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from group_records import record_of

from airflow_provider.assignment.model import Memory, Move, MoveReason
from airflow_provider.assignment.policy import Deferred, Incremental
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.member.events import JoinedMember, PerformAssignment
from airflow_provider.group.classic.wire.v1 import encode_assignment, encode_metadata
from airflow_provider.group.live.classic.leading import gather_call
from airflow_provider.state.records import (
    GROUP_KEY,
    CheckpointClaim,
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskState,
    TaskStatus,
    TaskWork,
    WorkerPhase,
    WorkerStatus,
    encode,
    task_key,
    worker_key,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.state.views.topic_view import Unreadable
from airflow_provider.values.model import (
    Assignment,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.taking_over import first_run

W1, W2 = WorkerId("w1"), WorkerId("w2")
A0, A1 = TaskId("a", 0), TaskId("a", 1)
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=2, run_key="r1")
PLAN = PlanRecord.of(JOB, [{"i": 0}, {"i": 1}], planned_by=W1, at_ms=0)
JOBS = JobsSnapshot(jobs={"a": JOB}, plans={"a": PLAN})
NOW_MS: Final = 1_700_000_000_000
HIGHEST: Final = NOW_MS * 1_000
GENERATION: Final = 100_000

GROUP = record_of(
    {W1: frozenset({A0}), W2: frozenset({A1})},
    generation=GenerationId(GENERATION - 1),
    revoked={W1: frozenset({A1})},
    moves=(Move(tasks=frozenset({A1}), source=W1, target=W2, reason=MoveReason.BALANCE),),
    policy=Incremental(max_moves=2),
    memory=Memory(
        generation=GenerationId(GENERATION - 1),
        assignment={W1: frozenset({A0})},
        members=frozenset({W1, W2}),
        candidates=(W2,),
        deadline_ms=NOW_MS + 1_000,
        successive_revocations=1,
        next_moves_at_ms=NOW_MS + 1_000,
        released=(Move(tasks=frozenset({A1}), source=W1, target=None, reason=MoveReason.BALANCE),),
    ),
)
WORKER = WorkerStatus(
    worker=W2, state=WorkerPhase.STABLE, epoch=Epoch(5), slots=1, owned=frozenset({A0}), running=frozenset({A0})
)
TASK = TaskStatus(
    task=A0,
    state=TaskState.PENDING,
    epoch=Epoch(5),
    worker=W2,
    run_key="r1",
    fingerprint=PLAN.fingerprints[0],
    attempt=2,
    failures=1,
    started_at_ms=1,
    finished_at_ms=2,
    retry_at_ms=3,
    error=TaskFailure(message="boom", traceback="..."),
    claim=CheckpointClaim(key="orders", process="host/boot/1/1", number=1, lease_ms=60_000),
)
RECORDS: dict[str, ClassicRecord | WorkerStatus | TaskStatus] = {
    GROUP_KEY: GROUP,
    worker_key(W2): WORKER,
    task_key(A0): TASK,
}

NUMBERS: list[object] = [
    -1,
    -2,
    -(2**31),
    -(2**63),
    0,
    1,
    2**31 - 1,
    2**31,
    2**40,
    HIGHEST,
    HIGHEST + 1,
    2**53 - 1,
    2**53,
]
NUMBERS += [2**63 - 1, 2**63, 10**400, True, 1.5, 1e300, "7"]
TEXTS: list[object] = ["", "x" * 250, "x" * 40_000, "\U0001f600" * 8_192, "\ud800", "w1", "a\nb", 5]


class Topic:
    """A status topic, and its reader's clock."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.unreadable: list[Unreadable] = []
        self.view = StatusView(self.unreadable.append, clock=lambda: self.now_ms)

    def write(self, key: str, record: ClassicRecord | WorkerStatus | TaskStatus | dict[str, Any]) -> None:
        value = json.dumps({"v": 1, **record}).encode() if isinstance(record, dict) else encode(record.to_json())
        self.view.apply(key.encode(), value, self.view.offset)

    def write_as_it_should_be(self, key: str, record: ClassicRecord | TaskStatus) -> None:
        """Some milliseconds later."""
        self.now_ms += GENERATION // 1_000 + 1
        before = len(self.unreadable)
        self.write(key, record)
        assert [str(each) for each in self.unreadable[before:]] == []


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from places(part, (*path, name))


def part_of(value: Any, path: tuple[Any, ...]) -> Any:
    return value if not path else part_of(value[path[0]], path[1:])


def with_part(value: Any, path: tuple[Any, ...], part: Any) -> Any:
    if not path:
        return part
    copied = copy.copy(value)
    copied[path[0]] = with_part(value[path[0]], path[1:], part)
    return copied


def lies(record: ClassicRecord | WorkerStatus | TaskStatus) -> Iterator[tuple[str, dict[str, Any]]]:
    """The record with a lie in each of its places, names of fields that the writer chooses among them."""
    truth = record.to_json()
    for path in places(truth):
        part = part_of(truth, path)
        if isinstance(part, dict) and path and path[-1] in ("members", "assignment", "revoked"):
            for name in TEXTS:
                if isinstance(name, str):
                    yield (
                        f"{path} names {name[:20]!r}",
                        with_part(truth, path, {**part, name: next(iter(part.values()))}),
                    )
        if isinstance(part, (dict, list)):
            continue
        for lie in NUMBERS if isinstance(part, int) else TEXTS:
            yield f"{path} is {str(lie)[:20]!r}", with_part(truth, path, lie)


def joined(worker: WorkerId, record: GroupRecord | None) -> JoinedMember:
    """A worker that is back speaks for what the record says it had."""
    owned: Tasks = frozenset() if record is None else record.owned_by(worker) | record.revoked_from(worker)
    state = WorkerState(
        version=2, url="", config_offset=ConfigOffset(0), assignment=Assignment(version=2, assigned=owned)
    )
    return JoinedMember(member_id=MemberId(worker), instance_id=worker, metadata=encode_metadata(state))


def next_round(topic: Topic, *, generation: int = GENERATION) -> ClassicRecord:
    status = topic.view.snapshot()
    command = PerformAssignment(
        seq=1,
        generation=GenerationId(generation),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("w1"),
        last_completed=GenerationId(generation - 1),
        members=tuple(joined(worker, status.group) for worker in (W1, W2)),
        reason="a test",
    )
    answer = lead(gather_call(command, JOBS, status, policy=Deferred(), at_ms=topic.now_ms))
    assert answer.record is not None
    return answer.record


@pytest.mark.slow
@pytest.mark.parametrize("key", RECORDS)
def test_whatever_a_record_says_the_next_leader_makes_a_round_that_everybody_can_read(key: str) -> None:
    accepted = 0
    for lie, record in lies(RECORDS[key]):
        topic = Topic()
        topic.write(key, record)
        accepted += not topic.unreadable
        made = next_round(topic)
        topic.write_as_it_should_be(GROUP_KEY, made)
        assert topic.view.snapshot().group == made, lie
        again = next_round(topic, generation=GENERATION + 1)
        topic.write_as_it_should_be(GROUP_KEY, again)
        assert topic.view.snapshot().group == again, lie
        assert again.epoch > made.epoch, lie
        for assignment in (again.assignment, again.revoked):
            for tasks in assignment.values():
                encode_assignment(Assignment(version=2, assigned=tasks))
    assert accepted > 10, "or nothing is tried here"


def test_whatever_was_said_of_a_task_its_next_worker_can_say_what_became_of_it() -> None:
    work = TaskWork(task=A0, definition=JOB, config=PLAN.configs[0], fingerprint=PLAN.fingerprints[0])
    accepted = 0
    for lie, record in lies(TASK):
        topic = Topic()
        topic.write(task_key(A0), record)
        told = topic.view.snapshot().tasks.get(A0)
        accepted += told is not None
        epoch = next_round(topic).epoch
        topic.now_ms += GENERATION // 1_000 + 1
        run = first_run(work, epoch, told, now_ms=0, wall_ms=topic.now_ms)
        worse = replaced(run.failed(TaskFailure.of("boom")), spark_deaths=run.spark_deaths + 1)
        for step in (run, worse.next_attempt(2**52, now_ms=0, wall_ms=topic.now_ms)):
            said = step.status(TaskState.RUNNING, W1, result=None)
            topic.write_as_it_should_be(task_key(A0), said)
            assert topic.view.snapshot().tasks[A0] == said, lie
    assert accepted > 10, "or nothing is tried here"


@pytest.mark.parametrize("key", RECORDS)
@pytest.mark.parametrize("epoch", [HIGHEST + 1, 2**53 - 1, 2**63 - 1])
def test_an_epoch_that_nobody_can_have_counted_up_to_is_dropped(key: str, epoch: int) -> None:
    topic = Topic()
    topic.write(key, RECORDS[key])
    before = topic.view.snapshot()
    topic.write(key, {**RECORDS[key].to_json(), "epoch": epoch})
    after = topic.view.snapshot()
    assert (after.group, after.workers, after.tasks) == (before.group, before.workers, before.tasks)
    assert after.unreadable == 1
    assert "epoch" in topic.unreadable[0].reason


@pytest.mark.parametrize("lease_ms", [-1, 2**31, 2**63 - 1])
def test_a_claim_of_a_checkpoint_for_longer_than_any_session_is_dropped(lease_ms: int) -> None:
    """The next one to run the checkpoint would wait for so long."""
    topic = Topic()
    assert TASK.claim is not None
    topic.write(task_key(A0), replaced(TASK, claim=replace(TASK.claim, lease_ms=lease_ms)))
    assert (dict(topic.view.snapshot().tasks), topic.view.snapshot().unreadable) == ({}, 1)
    assert "lease_ms" in topic.unreadable[0].reason


def test_no_real_epoch_is_dropped_however_long_a_group_has_lived_and_whatever_it_was_told() -> None:
    """A hundred years of a thousand rounds a second; and every lie that is believed, repeated after each round."""
    topic = Topic()
    topic.write(GROUP_KEY, replace(GROUP, epoch=Epoch(100 * 365 * 86_400 * 1_000)))
    assert topic.unreadable == []
    for generation in range(GENERATION, GENERATION + 20):
        topic.write(task_key(A0), replaced(TASK, epoch=Epoch(topic.now_ms * 1_000)))
        made = next_round(topic, generation=generation)
        topic.write_as_it_should_be(GROUP_KEY, made)
        assert topic.view.snapshot().group == made


@pytest.mark.parametrize("index", ["00", "+0", " 0", "0_0", "\u0660", "-0", "", str(2**31)])
def test_a_task_has_one_key(index: str) -> None:
    """Compaction keeps the last record of each key: one under another key would come back when the first is deleted."""
    topic = Topic()
    topic.write(f"task:a:{index}", TASK)
    assert (dict(topic.view.snapshot().tasks), topic.view.snapshot().unreadable) == ({}, 1)


@pytest.mark.parametrize("field", ["number", "lease_ms"])
@pytest.mark.parametrize("lie", [-1, 2**53, 10**400, True, 1.5])
def test_a_claim_has_numbers_that_can_be_counted_with(field: str, lie: object) -> None:
    claim = CheckpointClaim(key="k", process="p", number=1, lease_ms=1).to_json()
    with pytest.raises(ValueError, match=field):
        CheckpointClaim.from_json({**claim, field: lie})
