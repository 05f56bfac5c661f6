"""What a leader does between rounds: reasons for the next one, and when it leaves well alone.

How a group is written: see :mod:`led_group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of
from led_group import EPOCH, Group, member, record_after
from stand_ins import MemoryTopics

from airflow_provider.assignment.learners.model import LearnerMemory
from airflow_provider.assignment.model import Absence, LeaveReason, Memory, Move, MoveReason
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.member.events import JoinedMember, PerformAssignment
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.wire import v3
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.group.live.classic.leading import assign, gather_call, later_epoch, unassigned_work, waits_in_vain
from airflow_provider.group.live.classic.ready_learners import ReadyLearners
from airflow_provider.state.records import JobDefinition, Lesson, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.retrying import to_try_again
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.model import (
    NO_GENERATION,
    NO_TASKS,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    WorkerId,
    planner_of,
)
from airflow_provider.values.packed_tasks import PackedTasks
from airflow_provider.values.replacing import replaced

A0, A1 = TaskId("a", 0), TaskId("a", 1)
W1, W2 = WorkerId("w1"), WorkerId("w2")


# ---- work that nobody has


@pytest.mark.parametrize(
    ("leaving", "draining", "asked", "why"),
    [
        ("w1 w2", "", False, "nobody stays to whom it could be given"),
        ("w1", "w2", False, "nor here"),
        ("w1", "", True, "w2 stays"),
        ("", "w1 w2", True, "where all drain, each is as any other"),
        ("w1", "w1 w2", True, "w2 is, then"),
    ],
)
def test_new_work_is_a_reason_as_long_as_somebody_stays(leaving: str, draining: str, asked: bool, why: str) -> None:
    group = Group({"w1": "r", "w2": "r"}, leaving_soon=frozenset(map(WorkerId, leaving.split())))
    jobs = replace(group.jobs, jobs={**group.jobs.jobs, "b": JobDefinition(name="b", entry_point="m:f")})
    said = {
        WorkerId(worker): WorkerStatus(
            worker=WorkerId(worker),
            state=WorkerPhase.STABLE,
            epoch=EPOCH,
            slots=0,
            member_id=group.record.members[WorkerId(worker)],
        )
        for worker in draining.split()
    }
    assert bool(unassigned_work(jobs, replace(group.status, workers=said))) is asked, why


def test_work_that_the_last_round_did_not_know_of_is_a_reason() -> None:
    group = Group({"w1": "r", "w2": "r"})
    assert unassigned_work(group.jobs, group.status) is None
    new = JobDefinition(name="b", entry_point="m:f")
    jobs = replace(group.jobs, jobs={**group.jobs.jobs, "b": new})
    assert unassigned_work(jobs, group.status) == "new work: b:planner"


def test_a_few_of_the_new_tasks_are_named() -> None:
    group = Group({"w1": ". . . . ."})
    nothing = replace(group.status, group=record_of({W1: frozenset()}))
    assert unassigned_work(group.jobs, nothing) == "new work: a:0, a:1, a:2 and 2 more"


def test_without_a_round_there_is_nothing_to_compare_with() -> None:
    group = Group({"w1": "r"})
    assert unassigned_work(group.jobs, StatusSnapshot()) is None


def test_a_job_that_was_removed_and_submitted_again_is_work_though_the_last_round_gave_out_its_planner() -> None:
    job = JobDefinition(name="a", entry_point="m:f")
    planner = planner_of("a")
    record = record_of({W1: frozenset({planner})}, config_offset=ConfigOffset(7))
    status = StatusSnapshot(group=record)
    before, after = (JobsSnapshot(jobs={"a": job}, defined_at={"a": offset}) for offset in (6, 8))
    assert unassigned_work(before, status) is None, "its worker is about to speak of it"
    assert unassigned_work(after, status) == "new work: a:planner"
    said = TaskStatus(task=planner, state=TaskState.RUNNING, epoch=EPOCH, worker=W1)
    assert unassigned_work(after, replace(status, tasks={planner: said})) is None, "only its retries are others"


def test_a_task_that_its_worker_let_go_of_by_itself_has_to_be_assigned_again() -> None:
    """Its plan shrank and grew again. What the worker has left is in its own record."""
    group = Group({"w1": "x r"})
    said = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=EPOCH, slots=1, owned=frozenset({A1}))
    assert unassigned_work(group.jobs, replace(group.status, workers={W1: said})) == "new work: a:0"


def test_what_was_said_before_the_round_says_nothing_of_what_the_round_gave() -> None:
    began = Move(tasks=frozenset({A0}), source=WorkerId("w0"), target=W1, reason=MoveReason.LOST)
    group = Group({"w1": "x r"}, epoch=Epoch(6), moves=(began,))
    assert unassigned_work(group.jobs, group.status) is None


def test_what_a_fenced_process_stopped_is_no_reason() -> None:
    """It stops its tasks in the worker's name. Until its lease is over its successor only speaks for them."""
    group = Group({"w1": "x r"})
    assert unassigned_work(group.jobs, group.status) is None


def test_what_had_failed_in_this_round_and_is_tried_again_has_to_be_assigned_again() -> None:
    """Its worker released it when it failed: nobody would start it, unless something else happens."""
    group = Group({"w1": "r r"})
    failed = replaced(group.status.tasks[A0], state=TaskState.FAILED)
    ended = replace(group.status, tasks={**group.status.tasks, A0: failed})
    assert unassigned_work(group.jobs, ended) is None
    (again,) = to_try_again(group.job, group.jobs.plans["a"], ended.tasks)
    retried = replace(ended, tasks={**ended.tasks, A0: again})
    assert unassigned_work(group.jobs, retried) == "new work: a:0"
    later = replace(retried, group=replace(group.record, epoch=Epoch(EPOCH + 1)))
    assert unassigned_work(group.jobs, later) is None, "that round has assigned it"
    for status, state in ((retried, TaskState.UNASSIGNED), (later, TaskState.PENDING)):
        told = effective_status(A0, group.jobs, status)
        assert told is not None
        assert told.state is state


def test_a_task_that_ended_before_its_worker_had_the_round_that_counts_it_has_to_be_assigned_again() -> None:
    """Between JoinGroup and the assignment, and then its job was to run again."""
    group = Group({"w1": "f r"}, epoch=Epoch(6))
    again = replace(group.job, run_key="r2")
    plan = replace(group.jobs.plans["a"], run_key="r2")
    jobs = replace(group.jobs, jobs={"a": again}, plans={"a": plan})
    assert unassigned_work(jobs, group.status) is None, "w1 has not said what it has in this round"
    said = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(6), slots=1, owned=frozenset({A1}))
    assert unassigned_work(jobs, replace(group.status, workers={W1: said})) == "new work: a:0"
    before = replace(said, epoch=EPOCH)
    assert unassigned_work(jobs, replace(group.status, workers={W1: before})) is None
    elsewhere = replace(said, state=WorkerPhase.JOINING)
    assert unassigned_work(jobs, replace(group.status, workers={W1: elsewhere})) is None, "it says so when it has it"


def test_what_another_worker_said_of_a_task_that_it_gave_up_is_no_news_of_the_one_that_has_it() -> None:
    group = Group({"w1": "r", "w2": "x"})
    moved = replace(group.record, assignment={W1: frozenset({A0, A1}), W2: frozenset()})
    assert unassigned_work(group.jobs, replace(group.status, group=moved)) is None


def test_what_is_being_revoked_or_waits_for_its_worker_comes_back_by_itself() -> None:
    group = Group({"w1": "x r"})
    revoked = replace(group.record, assignment={W1: frozenset({A1})}, revoked={W1: frozenset({A0})})
    assert unassigned_work(group.jobs, replace(group.status, group=revoked)) is None
    for waits in ({"deadline_ms": 9}, {"awaited": {W2: 9}}):
        waiting = Memory(assignment={W2: frozenset({A0})}, **waits)
        delayed = replace(group.record, assignment={W1: frozenset({A1})}, delay_ms=9, memory=waiting)
        assert unassigned_work(group.jobs, replace(group.status, group=delayed)) is None


# ---- what is known of those who are gone


GONE = WorkerStatus(worker=W2, state=WorkerPhase.STABLE, epoch=EPOCH, slots=1, returns_ms=0)


def joined(*workers: WorkerId, last: ClassicRecord | None = None) -> PerformAssignment:
    return PerformAssignment(
        seq=1,
        generation=GenerationId(1 if last is None else last.generation + 1),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("w1"),
        last_completed=NO_GENERATION if last is None else last.generation,
        members=tuple(member(worker, frozenset() if last is None else last.owned_by(worker)) for worker in workers),
        reason=GENERIC,
    )


def absent(group: Group, *said: WorkerStatus, present: tuple[WorkerId, ...] = (W1,)) -> Mapping[WorkerId, Absence]:
    status = replace(group.status, workers={word.worker: word for word in said})
    return gather_call(joined(*present, last=group.record), group.jobs, status, policy=Deferred(), at_ms=0).absent


def test_what_a_worker_has_said_of_its_absence_is_known_when_it_is_missed() -> None:
    group = Group({"w1": "r", "w2": "r"})
    assert absent(group, GONE) == {W2: Absence(returns_ms=0)}
    left = replace(GONE, state=WorkerPhase.LEFT, left=LeaveReason.RESTARTING, returns_ms=9)
    assert absent(group, left) == {W2: Absence(left=LeaveReason.RESTARTING, returns_ms=9)}
    assert absent(group) == {}
    assert absent(group, GONE, present=(W1, W2)) == {}
    assert absent(group, replace(GONE, worker=WorkerId("w3"))) == {}, "it was not in the last round"


def test_what_it_said_in_an_earlier_life_does_not_count() -> None:
    """The process that has the name by now was killed before it had said anything."""
    group = Group({"w1": "r", "w2": "r"})
    left = replace(GONE, state=WorkerPhase.LEFT, left=LeaveReason.STOPPED, epoch=Epoch(EPOCH - 1))
    assert absent(group, replace(left, member_id=MemberId("another"))) == {}
    assert absent(group, left) == {}


def test_what_it_said_before_it_had_heard_of_the_last_round_counts() -> None:
    """It was in that round, by that member id, and left before it had its assignment."""
    group = Group({"w1": "r", "w2": "r"})
    left = replace(GONE, left=LeaveReason.STOPPED, epoch=Epoch(EPOCH - 1), member_id=group.record.members[W2])
    assert absent(group, left) == {W2: Absence(left=LeaveReason.STOPPED, returns_ms=0)}


@pytest.mark.parametrize(("been_in", "epoch"), [(8, 9), (1_699_999, 1_700_000), (1_700_000, 6), (2**63 - 1, 6)])
def test_a_round_is_above_the_one_that_its_leader_was_in_unless_nobody_can_have_counted_up_to_it(
    been_in: int, epoch: int
) -> None:
    """After the highest possible one, none could follow."""
    group = Group({"w1": "r"})
    command = replace(joined(W1, last=group.record), epoch=Epoch(been_in))
    record = lead(gather_call(command, group.jobs, group.status, policy=Deferred(), at_ms=1_700)).record
    assert record is not None
    assert record.epoch == epoch


def test_the_leader_gives_away_at_once_what_a_worker_had_that_will_not_be_back() -> None:
    group = Group({"w1": "r", "w2": "r"})
    memory = Memory(generation=group.record.generation, assignment=group.record.assignment, members=frozenset({W1, W2}))
    group.status = replace(group.status, group=replace(group.record, memory=memory), workers={W2: GONE})
    command = joined(W1, last=group.record)
    record = lead(gather_call(command, group.jobs, group.status, policy=Deferred(), at_ms=0)).record
    assert record is not None
    assert (record.delay_ms, record.deadline_ms, record.waiting) == (0, 0, frozenset())
    assert A1 in record.owned_by(W1)
    silent = replace(group.status, workers={W2: replace(GONE, returns_ms=None)})
    waits = lead(gather_call(command, group.jobs, silent, policy=Deferred(), at_ms=0)).record
    assert waits is not None
    assert waits.waiting == {A1}


@pytest.mark.parametrize(
    ("left", "epoch", "vain"),
    [
        (LeaveReason.STOPPED, EPOCH, True),
        (LeaveReason.RESTARTING, EPOCH, False),
        (None, EPOCH, False),
        (LeaveReason.STOPPED, EPOCH - 1, False),
    ],
    ids=["left", "comes back", "killed", "another process of its name"],
)
def test_who_is_heard_to_have_left_after_it_was_missed_is_waited_for_no_longer(
    left: LeaveReason | None, epoch: int, vain: bool
) -> None:
    group = Group({"w1": "r", "w2": "r"})
    memory = Memory(generation=group.record.generation, assignment=group.record.assignment, members=frozenset({W1, W2}))
    silent = replace(group.status, group=replace(group.record, memory=memory))
    missed = lead(gather_call(joined(W1, last=group.record), group.jobs, silent, policy=Deferred(), at_ms=0)).record
    assert missed is not None
    assert missed.waiting == {A1}
    said = replace(GONE, state=WorkerPhase.LEFT, left=left, returns_ms=None, epoch=Epoch(epoch))
    heard = replace(silent, group=missed, workers={W2: said})
    assert waits_in_vain(heard) == ("w2 will not return" if vain else None)
    again = joined(W1, last=missed)
    record = lead(gather_call(again, group.jobs, heard, policy=Deferred(), at_ms=1)).record
    assert record is not None
    assert record.waiting == (NO_TASKS if vain else {A1})
    assert waits_in_vain(replace(heard, group=record)) is None


def test_whoever_has_left_and_is_back_is_missed_no_longer() -> None:
    group = Group({"w1": "r"})
    memory = Memory(assignment={W2: frozenset({A1})}, deadline_ms=9_000)
    group.status = replace(group.status, group=replace(group.record, memory=memory))
    left = replace(GONE, state=WorkerPhase.LEFT, left=LeaveReason.STOPPED)
    assert absent(group, left, present=(W1,)) == {W2: Absence(left=LeaveReason.STOPPED)}
    assert absent(group, left, present=(W1, W2)) == {}


def test_members_of_java_connect_keep_no_name() -> None:
    java = replace(member(WorkerId("java-1"), frozenset()), instance_id=None)
    command = replace(joined(W1), members=(*joined(W1).members, java))
    assert gather_call(command, JobsSnapshot(), StatusSnapshot(), policy=Deferred(), at_ms=0).named == {W1}


# ---- a round in which something is learned


@pytest.mark.parametrize(
    ("handle", "learned"), [(None, {"a"}), ({"session_id": "s"}, set())], ids=["attached", "detached"]
)
def test_detached_tasks_are_not_learned(handle: dict[str, str] | None, learned: set[str]) -> None:
    group = Group({"w1": "r r", "w2": ""}, protocol=SubProtocol.EXTENSIBLE)
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    tasks = {**group.status.tasks, A0: replaced(group.status.tasks[A0], handle=handle)}
    call = gather_call(joined(W1), jobs, replace(group.status, tasks=tasks), policy=Deferred(), at_ms=0)
    assert call.stateful == learned


@pytest.mark.parametrize(
    ("member_id", "has_it", "why"),
    [
        ("w2", W2, "by that w1 has stopped it, maybe after w2 had joined"),
        ("another process", W1, "the present one has made nothing ready: w1 has it again"),
    ],
)
def test_what_a_learner_has_said_since_it_joined_is_known_to_the_leader(
    member_id: str, has_it: WorkerId, why: str
) -> None:
    lessons = {"learning": {W2: frozenset({A0})}, "learned": {W1: frozenset({A0})}}
    memory = Memory(generation=GenerationId(EPOCH), assignment={W1: frozenset({A0, A1})}, members=frozenset({W1, W2}))
    group = Group(
        {"w1": "r r", "w2": ""},
        protocol=SubProtocol.EXTENSIBLE,
        memory=memory,
        learner_memory=LearnerMemory(cooperative=memory, learned=lessons["learned"]),
        **lessons,
    )
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    said = WorkerStatus(
        worker=W2,
        state=WorkerPhase.STABLE,
        epoch=EPOCH,
        slots=1,
        member_id=MemberId(member_id),
        learning=(Lesson(A0, 1.0, ready=True),),
    )
    learns = ExtensibleState(learning=PackedTasks.of({A0}), progress=(0.5,))
    states = {W1: ExtensibleState(owned=PackedTasks.of({A1})), W2: learns}
    command = replace(
        joined(W1),
        generation=GenerationId(EPOCH + 1),
        last_completed=GenerationId(EPOCH),
        protocol=SubProtocol.EXTENSIBLE,
        members=tuple(
            JoinedMember(member_id=MemberId(name), instance_id=name, metadata=v3.encode_metadata(state))
            for name, state in states.items()
        ),
    )
    status = replace(group.status, workers={W2: said})
    record = lead(gather_call(command, jobs, status, policy=Deferred(), at_ms=0)).record
    assert record is not None
    assert A0 in record.owned_by(has_it), why


# ---- why a round happened


async def test_a_leader_says_who_claims_to_have_read_more_than_there_is_and_assigns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = MemoryTopics()
    command = PerformAssignment(
        seq=1,
        generation=GenerationId(1),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("w1"),
        last_completed=NO_GENERATION,
        members=(member(W1, NO_TASKS), member(W2, NO_TASKS, offset=2**63 - 1)),
        reason="a test",
    )
    answer = await assign(
        command, topics, policy=Deferred(), settings=MemberSettings(group_id="g", worker=WorkerId("w1"))
    )
    assert answer.record is not None
    assert "worker w2 claims to have read the jobs topic up to 9223372036854775807, but it ends at 0" in caplog.text


GENERIC = "the group rebalances"


@pytest.mark.parametrize(
    ("record", "joins", "reason"),
    [
        ({}, (), GENERIC),
        ({}, ("w2", "w3"), "w2, w3 joined"),
        ({"revoked": {W1: frozenset({A1})}}, (), "revoked tasks have stopped"),
        ({"revoked": {W1: frozenset({A1})}}, ("w2",), "w2 joined"),
        ({"delay_ms": 10, "memory": Memory(deadline_ms=1_000)}, (), "the scheduled delay is over"),
        ({"delay_ms": 10, "memory": Memory(deadline_ms=1_001)}, (), GENERIC),
        ({"delay_ms": 10, "memory": Memory(deadline_ms=1_001, awaited={W2: 1_000})}, (), "the scheduled delay is over"),
    ],
)
def test_a_round_says_why_it_happened_whoever_began_it(
    record: dict[str, Any], joins: tuple[str, ...], reason: str
) -> None:
    group = Group({"w1": "r p"}, **record)
    assert record_after(group, reason=GENERIC, now_ms=1_000, joins=tuple(map(WorkerId, joins))).reason == reason


def test_whoever_came_and_whoever_left_is_named() -> None:
    group = Group({"w1": "r"})
    with_w9 = replace(group.record, members={W1: MemberId("w1"), WorkerId("w9"): MemberId("w9")})
    group.status = replace(group.status, group=with_w9)
    record = record_after(group, reason=GENERIC, members=(W1, W2))
    assert record.reason == "w2 joined; w9 went away"


@pytest.mark.parametrize(
    ("number", "named"),
    [
        (3, "w01, w02, w03 joined"),
        (4, "w01, w02, w03, w04 joined"),
        (5, "w01, w02, w03 and 2 others joined"),
        (99, "w01, w02, w03 and 96 others joined"),
    ],
)
def test_of_a_crowd_a_few_are_named_for_each_of_them_reads_the_record(number: int, named: str) -> None:
    crowd = tuple(WorkerId(f"w{worker:02}") for worker in range(1, number + 1))
    assert record_after(Group({"w1": "r"}), reason=GENERIC, joins=crowd).reason == named


def test_of_a_crowd_that_left_too() -> None:
    crowd = {WorkerId(f"w{worker:02}"): MemberId(f"w{worker:02}") for worker in range(1, 100)}
    group = Group({"w1": "r"})
    group.status = replace(group.status, group=replace(group.record, members={W1: MemberId("w1"), **crowd}))
    reason = record_after(group, reason=GENERIC, members=(W1, W2)).reason
    assert reason == "w2 joined; w01, w02, w03 and 96 others went away"


# ---- the epoch of a round


def test_a_round_counts_on_from_what_is_said_of_tasks_though_no_round_is_written() -> None:
    """Workers that outlive the topics speak in those made anew, before they end. They must not be believed for ever."""
    left_behind = replace(Group({"w1": "x"}).status, group=None)
    record = lead(gather_call(joined(W1), JobsSnapshot(), left_behind, policy=Deferred(), at_ms=0)).record
    assert record is not None
    assert record.epoch == EPOCH + 1


def test_whoever_speaks_in_a_later_epoch_is_overtaken_by_another_round() -> None:
    """Else its word would win against all that the task's worker says."""
    group = Group({"w1": "r"})
    assert later_epoch(group.status) is None
    earlier = replace(group.record, epoch=Epoch(EPOCH - 1))
    assert later_epoch(replace(group.status, group=earlier)) is not None
    assert later_epoch(replace(group.status, group=None)) is None


def test_a_lost_worker_is_ready_for_nothing_though_its_last_word_stays() -> None:
    """An owner would stop its task for nobody, in each round, as long as the record is there."""
    said = WorkerStatus(
        worker=W2,
        epoch=Epoch(5),
        state=WorkerPhase.STABLE,
        slots=1,
        member_id=MemberId("w2"),
        learning=(Lesson(A0, 1.0, ready=True), Lesson(A1, 0.5, ready=False)),
    )
    there = StatusSnapshot(workers={W2: said}, group=record_of({W1: frozenset({A0, A1}), W2: NO_TASKS}))
    lost = replace(there, group=record_of({W1: frozenset({A0, A1})}, epoch=6))
    both, ready = frozenset({A0, A1}), ReadyLearners()
    assert ready.of(both, there) == {A0}
    assert ready.of(both, replace(there, group=None)) == {A0}, "the record is not read yet"
    assert ready.of(both, lost) == NO_TASKS


class CountsLooks(dict[WorkerId, WorkerStatus]):
    """What workers have said, and whose word was looked up."""

    def __init__(self, said: Iterable[WorkerStatus]) -> None:
        super().__init__({word.worker: word for word in said})
        self.looked: list[WorkerId] = []

    def get(self, key: WorkerId, default: Any = None) -> Any:
        self.looked.append(key)
        return super().get(key, default)


def test_an_owner_looks_only_at_what_those_say_who_learn_its_tasks() -> None:
    def says(worker: str, *, ready: bool) -> WorkerStatus:
        lessons = (Lesson(A0, float(ready), ready=ready),)
        return WorkerStatus(
            worker=WorkerId(worker), epoch=Epoch(5), state=WorkerPhase.STABLE, slots=1, learning=lessons
        )

    record = record_of(
        {WorkerId(f"w{number}"): frozenset({A0, A1} if number == 1 else ()) for number in range(1_000)},
        learning={W2: frozenset({A0})},
    )
    learned, ready = frozenset({A0}), ReadyLearners()
    for is_ready in (False, True, False):
        said = CountsLooks([says("w2", ready=is_ready), *(says(f"w{number}", ready=True) for number in range(3, 999))])
        assert ready.of(learned, StatusSnapshot(workers=said, group=record)) == (learned if is_ready else NO_TASKS)
        assert said.looked == [W2]
