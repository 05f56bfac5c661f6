"""What a topic adds up to, record by record."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from group_records import record_of
from view_bench import Log, Record, Snapshot

from airflow_provider.assignment.policy import Incremental
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import (
    GROUP_KEY,
    ControlAction,
    ControlRecord,
    JobDefinition,
    PlanRecord,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    control_key,
    encode,
    job_key,
    plan_key,
    task_key,
    worker_key,
)
from airflow_provider.state.views.jobs_view import JobsView
from airflow_provider.state.views.status_view import StatusSnapshot, StatusView
from airflow_provider.state.views.topic_view import Unreadable
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, WorkerId, planner_of

W1, W2 = WorkerId("w1"), WorkerId("w2")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=3, run_key="r1")
PLAN = PlanRecord.of(JOB, [{"i": 0}, {"i": 1}], planned_by=W1, at_ms=0)


Stale = tuple[str, object]
Place = tuple[str | int, ...]


@pytest.fixture
def unreadable() -> list[Unreadable]:
    return []


@pytest.fixture
def jobs(unreadable: list[Unreadable]) -> Log[JobsView]:
    return Log(JobsView(unreadable.append))


def status_view() -> StatusView:
    return StatusView(clock=wall_ms)


@pytest.fixture
def stale() -> list[Stale]:
    return []


@pytest.fixture
def status(unreadable: list[Unreadable], stale: list[Stale]) -> Log[StatusView]:
    return Log(StatusView(unreadable.append, lambda key, winner: stale.append((key, winner)), clock=wall_ms))


def test_jobs_plans_and_controls_are_kept_by_name_until_deleted(jobs: Log[JobsView]) -> None:
    wish = ControlRecord(worker=W1, action=ControlAction.STOP, at_ms=1)
    jobs.write(job_key("a"), JOB)
    jobs.write(plan_key("a"), PLAN)
    jobs.write(control_key(W1), wish)
    before = jobs.view.snapshot()
    assert (dict(before.jobs), dict(before.plans), dict(before.controls)) == ({"a": JOB}, {"a": PLAN}, {W1: wish})
    assert before.offset == 3
    for key in (job_key("a"), plan_key("a"), control_key(W1), job_key("never there")):
        jobs.write(key, None)
    after = jobs.view.snapshot()
    assert (dict(after.jobs), dict(after.plans), dict(after.controls), after.offset) == ({}, {}, {}, 7)
    assert dict(before.jobs) == {"a": JOB}


def test_where_a_job_is_defined_is_known_from_its_last_definition(jobs: Log[JobsView]) -> None:
    jobs.write_at(4, job_key("a"), encode(JOB.to_json()))
    jobs.write_at(9, job_key("a"), None)
    assert dict(jobs.view.snapshot().defined_at) == {}
    jobs.write_at(12, job_key("a"), encode(JOB.to_json()))
    assert dict(jobs.view.snapshot().defined_at) == {"a": 12}


def test_a_snapshot_cannot_be_changed(jobs: Log[JobsView]) -> None:
    jobs.write(job_key("a"), JOB)
    with pytest.raises(TypeError):
        jobs.view.snapshot().jobs["b"] = JOB  # type: ignore[index]  # as Python sees it, not mypy


def test_a_snapshot_is_made_anew_only_after_a_change(jobs: Log[JobsView]) -> None:
    jobs.write(job_key("a"), JOB)
    first = jobs.view.snapshot()
    assert jobs.view.snapshot() is first
    jobs.view.advance(1)
    assert jobs.view.snapshot() is first
    jobs.view.advance(5)
    assert jobs.view.snapshot().offset == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"job:a", b"garbage"),
        (b"job:a", b'{"v": 3}'),
        (b"job:a", b'{"v": 1}'),
        (b"job:b", encode(JOB.to_json())),
        (b"job:a", encode({**JOB.to_json(), "max_tasks": 0})),
        (b"task:a:0", b"{}"),
        (b"\xff", b"{}"),
        (b"", None),
    ],
)
def test_a_record_that_cannot_be_read_is_counted_reported_once_and_skipped(
    jobs: Log[JobsView], unreadable: list[Unreadable], key: bytes, value: bytes
) -> None:
    jobs.write(job_key("a"), JOB)
    jobs.write(key, value)
    jobs.write(plan_key("a"), PLAN)
    snapshot = jobs.view.snapshot()
    assert (dict(snapshot.jobs), dict(snapshot.plans)) == ({"a": JOB}, {"a": PLAN})
    assert (snapshot.offset, snapshot.unreadable) == (3, 1)
    (report,) = unreadable
    assert (report.key, report.offset) == (key, 1)
    assert "offset 1" in str(report)


def test_a_topic_made_anew_starts_over(jobs: Log[JobsView]) -> None:
    jobs.write(job_key("a"), JOB)
    jobs.write(job_key("b"), b"garbage")
    jobs.write_at(0, b"job:c", encode({**JOB.to_json(), "name": "c"}))
    snapshot = jobs.view.snapshot()
    assert (list(snapshot.jobs), snapshot.offset, snapshot.unreadable) == (["c"], ConfigOffset(1), 0)


def test_holes_that_compaction_left_are_no_new_start(jobs: Log[JobsView]) -> None:
    jobs.write_at(10, b"job:a", encode(JOB.to_json()))
    jobs.write_at(20, b"plan:a", encode(PLAN.to_json()))
    assert (len(jobs.view.snapshot().jobs), jobs.view.offset) == (1, 21)


def test_the_plan_of_an_older_run_or_definition_does_not_count(jobs: Log[JobsView]) -> None:
    jobs.write(plan_key("a"), PLAN)
    assert jobs.view.snapshot().plan_of("a") is None
    jobs.write(job_key("a"), JOB)
    assert jobs.view.snapshot().plan_of("a") == PLAN
    jobs.write(job_key("a"), dataclasses.replace(JOB, run_key="r2"))
    assert jobs.view.snapshot().plan_of("a") is None
    jobs.write(job_key("a"), dataclasses.replace(JOB, config={"new": 1}))
    assert jobs.view.snapshot().plan_of("a") is None


def test_the_work_of_a_task_is_its_config_and_that_of_a_planner_the_jobs(jobs: Log[JobsView]) -> None:
    job = dataclasses.replace(JOB, config={"days": 2})
    assert jobs.view.snapshot().work_of(TaskId("a", 0)) is None
    jobs.write(job_key("a"), job)
    planner = jobs.view.snapshot().work_of(planner_of("a"))
    assert planner is not None
    assert (planner.config, planner.fingerprint) == ({"days": 2}, job.fingerprint)
    assert jobs.view.snapshot().work_of(TaskId("a", 0)) is None
    plan = PlanRecord.of(job, [{"i": 0}, {"i": 1}], planned_by=W1, at_ms=0)
    jobs.write(plan_key("a"), plan)
    work = jobs.view.snapshot().work_of(TaskId("a", 1))
    assert work is not None
    assert (work.config, work.fingerprint, work.definition) == ({"i": 1}, plan.fingerprints[1], job)
    assert jobs.view.snapshot().work_of(TaskId("a", 2)) is None


def _task(epoch: int, state: TaskState = TaskState.RUNNING, **others: Any) -> TaskStatus:
    return TaskStatus(
        **{"task": TaskId("a", 0), "epoch": Epoch(epoch), "state": state, "worker": W1, "run_key": "r1", **others}
    )


def _worker(epoch: int, state: WorkerPhase = WorkerPhase.STABLE) -> WorkerStatus:
    return WorkerStatus(worker=W1, state=state, epoch=Epoch(epoch), slots=1)


@pytest.mark.parametrize(
    ("key", "newer", "older", "read"),
    [
        (GROUP_KEY, record_of(epoch=5), record_of(epoch=4), lambda snapshot: snapshot.group),
        (worker_key(W1), _worker(5), _worker(4), lambda snapshot: snapshot.workers.get(W1)),
        (task_key(TaskId("a", 0)), _task(5), _task(4), lambda snapshot: snapshot.tasks.get(TaskId("a", 0))),
    ],
    ids=["group", "worker", "task"],
)
def test_an_older_epoch_never_wins_and_the_winner_is_held_until_written_again(
    status: Log[StatusView],
    stale: list[Stale],
    key: str,
    newer: Record,
    older: Record,
    read: Callable[[StatusSnapshot], object],
) -> None:
    status.write(key, older)
    status.write(key, newer)
    assert read(status.view.snapshot()) == newer
    assert stale == []
    status.write(key, older)
    snapshot = status.view.snapshot()
    assert read(snapshot) == newer
    assert dict(snapshot.overwritten) == {key: newer}
    assert stale == [(key, newer)]
    status.write(key, newer)
    assert dict(status.view.snapshot().overwritten) == {}
    status.write(key, older)
    status.write(key, None)
    snapshot = status.view.snapshot()
    assert read(snapshot) is None
    assert dict(snapshot.overwritten) == {}
    assert status.view.offset == 6


def test_an_epoch_belongs_to_the_round_that_wrote_it_first(status: Log[StatusView]) -> None:
    first, again = record_of(epoch=5, reason="first"), record_of(epoch=5, reason="again")
    status.write(GROUP_KEY, first)
    status.write(GROUP_KEY, record_of(epoch=5, generation=2))
    status.write(GROUP_KEY, record_of(epoch=5, leader_member="m2"))
    assert status.view.snapshot().group == first
    status.write(GROUP_KEY, again)
    assert status.view.snapshot().group == again


def test_a_group_counted_from_one_again_goes_on_with_a_higher_epoch(status: Log[StatusView]) -> None:
    status.write(GROUP_KEY, record_of(epoch=5, generation=5))
    status.write(GROUP_KEY, record_of(epoch=6, generation=1, leader_member="m2"))
    group = status.view.snapshot().group
    assert group is not None
    assert group.round_id == {"generation": 1}


def test_within_an_epoch_the_later_attempt_wins_and_then_the_later_record(status: Log[StatusView]) -> None:
    key = task_key(TaskId("a", 0))
    status.write(key, _task(5, TaskState.RUNNING, attempt=2))
    status.write(key, _task(5, TaskState.PENDING, attempt=1))
    assert status.view.snapshot().tasks[TaskId("a", 0)].attempt == 2
    status.write(key, _task(5, TaskState.FINISHED, attempt=2))
    assert status.view.snapshot().tasks[TaskId("a", 0)].state is TaskState.FINISHED


@pytest.mark.parametrize("end", [TaskState.FINISHED, TaskState.FAILED])
@pytest.mark.parametrize("late", list(TaskState))
def test_within_an_attempt_nothing_replaces_its_end_and_it_is_written_again(
    status: Log[StatusView], end: TaskState, late: TaskState
) -> None:
    """A leader that mends an older record may write it after the end that came in between."""
    key, ended = task_key(TaskId("a", 0)), _task(5, end, attempt=2, started_at_ms=1, finished_at_ms=2)
    status.write(key, ended)
    status.write(key, _task(5, late, attempt=2, started_at_ms=1))
    snapshot = status.view.snapshot()
    assert snapshot.tasks[TaskId("a", 0)] == ended
    assert dict(snapshot.overwritten) == {key: ended}, "compaction would keep the other"
    status.write(key, ended)
    assert dict(status.view.snapshot().overwritten) == {}


@pytest.mark.parametrize(
    "later",
    [{"attempt": 3}, {"epoch": 6}, {"run_key": "r2"}, {"fingerprint": "new"}],
    ids=lambda more: next(iter(more)),
)
def test_what_comes_after_an_end_replaces_it(status: Log[StatusView], later: dict[str, Any]) -> None:
    key, task = task_key(TaskId("a", 0)), {"epoch": 5, "attempt": 2, "fingerprint": "old", **later}
    status.write(key, _task(5, TaskState.FAILED, attempt=2, fingerprint="old"))
    status.write(key, _task(state=TaskState.PENDING, **task))
    assert status.view.snapshot().tasks[TaskId("a", 0)].state is TaskState.PENDING


@pytest.mark.parametrize(
    ("began_ms", "late", "known"),
    [
        (1, TaskState.RUNNING, TaskState.STOPPED),
        (1, TaskState.FINISHED, TaskState.FINISHED),
        (None, TaskState.PENDING, TaskState.PENDING),
    ],
    ids=["a start that is over", "an end that says more", "an attempt that had not begun goes on"],
)
def test_what_replaces_that_an_attempt_was_stopped(
    status: Log[StatusView], began_ms: int | None, late: TaskState, known: TaskState
) -> None:
    key = task_key(TaskId("a", 0))
    status.write(key, _task(5, TaskState.STOPPED, started_at_ms=began_ms))
    status.write(key, _task(5, late, started_at_ms=began_ms))
    assert status.view.snapshot().tasks[TaskId("a", 0)].state is known


@pytest.mark.parametrize("other", [{"run_key": "r2"}, {"fingerprint": "new"}])
def test_another_run_of_a_task_starts_again_with_attempt_one_even_in_the_same_epoch(
    status: Log[StatusView], other: dict[str, Any]
) -> None:
    key = task_key(TaskId("a", 0))
    status.write(key, _task(5, TaskState.FINISHED, attempt=3, fingerprint="old"))
    status.write(key, _task(5, TaskState.RUNNING, attempt=1, **{"fingerprint": "old", **other}))
    assert status.view.snapshot().tasks[TaskId("a", 0)].attempt == 1


def test_a_new_run_does_not_make_an_old_epoch_win(status: Log[StatusView]) -> None:
    key = task_key(TaskId("a", 0))
    status.write(key, _task(5))
    status.write(key, _task(4, run_key="r2"))
    assert status.view.snapshot().tasks[TaskId("a", 0)].run_key == "r1"


def test_a_status_topic_made_anew_starts_over(status: Log[StatusView]) -> None:
    status.write(GROUP_KEY, record_of(epoch=5))
    status.write(worker_key(W1), _worker(5))
    status.write_at(0, b"task:a:0", encode(_task(1).to_json()))
    snapshot = status.view.snapshot()
    assert (snapshot.group, dict(snapshot.workers), list(snapshot.tasks)) == (None, {}, [TaskId("a", 0)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"group", b'{"v": 1}'),
        (b"worker:w2", encode(_worker(1).to_json())),
        (b"task:a:1", encode(_task(1).to_json())),
        (b"task:a:0", encode({**_task(1).to_json(), "state": "dreaming"})),
        (b"job:a", encode(JOB.to_json())),
    ],
)
def test_a_status_record_that_cannot_be_read_disturbs_nothing(
    status: Log[StatusView], unreadable: list[Unreadable], key: bytes, value: bytes
) -> None:
    status.write(GROUP_KEY, record_of(epoch=5))
    status.write(key, value)
    snapshot = status.view.snapshot()
    assert (snapshot.group, snapshot.unreadable, snapshot.offset) == (record_of(epoch=5), 1, 2)
    assert [report.offset for report in unreadable] == [1]


def _places(value: object, path: Place = ()) -> Iterator[Place]:
    yield path
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for name, part in inner:
        yield from _places(part, (*path, name))


def _with(value: Any, path: Place, part: object) -> Any:
    if not path:
        return part
    copied = copy.copy(value)
    copied[path[0]] = _with(value[path[0]], path[1:], part)
    return copied


GARBAGE: list[Any] = [None, True, -5, 1.5, float("inf"), 10**400]
GARBAGE += ["x", [], [[]], [1], [None], [["a", True]], {}, {"a": None}]
GARBAGE += [float("nan"), "\ud800", ["\udfff"], {"\ud800": 1}, {"a": float("inf")}, [["\ud800", 0]]]


@pytest.mark.parametrize(
    ("view", "key", "record"),
    [
        (JobsView, job_key("a"), JOB),
        (JobsView, plan_key("a"), PLAN),
        (JobsView, control_key(W1), ControlRecord(worker=W1, action=ControlAction.STOP, at_ms=1)),
        (status_view, GROUP_KEY, record_of({W1: frozenset({TaskId("a", 0)})})),
        (status_view, worker_key(W1), _worker(5)),
        (status_view, task_key(TaskId("a", 0)), _task(5)),
    ],
    ids=["job", "plan", "control", "group", "worker", "task"],
)
def test_garbage_anywhere_in_a_record_never_ends_the_reading(
    view: Callable[[], JobsView | StatusView], key: str, record: Record
) -> None:
    """One thread reads the topics of all groups of a process."""
    good = {"v": 1, **record.to_json()}
    log: Log[JobsView | StatusView] = Log(view())
    for place in _places(good):
        for garbage in GARBAGE:
            log.write(key, None)
            log.write(key, json.dumps(_with(good, place, garbage)).encode())
            for accepted in _kept(log.view.snapshot()):
                assert isinstance(encode(accepted.to_json()), bytes), "a leader may have to write it again"
    log.write(key, None)
    log.write(key, record)
    seen = log.view.snapshot()
    assert seen.offset == log.end > seen.unreadable > 0
    assert record in _kept(seen)


def _kept(seen: Snapshot) -> list[Record]:
    if isinstance(seen, StatusSnapshot):
        return [*filter(None, [seen.group]), *seen.workers.values(), *seen.tasks.values()]
    return [*seen.jobs.values(), *seen.plans.values(), *seen.controls.values()]


def test_a_record_may_be_nested_as_deep_as_it_likes(status: Log[StatusView]) -> None:
    """Python reads what is a little less deep than its stack, and then can't show it: how deep, hangs on who calls."""
    record = {"v": 1, **record_of(policy=Incremental(max_moves=3)).to_json()}
    text = json.dumps(_with(record, ("policy", "max_delay_ms"), "HERE"))
    for depth in range(900, 1_001):
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            status.write(GROUP_KEY, text.replace('"HERE"', f"{opening * depth}1{closing * depth}").encode())
    assert status.view.snapshot().unreadable == status.end == 202


@pytest.mark.parametrize(
    "fault", [RecursionError("too deep"), MemoryError(), RuntimeError("whatever"), OSError(5, "?")]
)
def test_whatever_a_parser_makes_of_a_record_only_that_record_is_lost(
    status: Log[StatusView], unreadable: list[Unreadable], monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(_data: object) -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(TaskStatus, "from_json", fail)
        status.write(task_key(TaskId("a", 0)), _task(5))
    status.write(worker_key(W1), _worker(5))
    snapshot = status.view.snapshot()
    assert (snapshot.unreadable, snapshot.offset, dict(snapshot.workers)) == (1, 2, {W1: _worker(5)})
    assert [(each.offset, type(fault).__name__ in each.reason) for each in unreadable] == [(0, True)]


@pytest.mark.parametrize("name", ["leader", "leader_member"])
@pytest.mark.parametrize("garbage", [None, 1, [], ["w1"], {}])
def test_a_group_record_names_its_leader_by_a_text(
    status: Log[StatusView], unreadable: list[Unreadable], name: str, garbage: object
) -> None:
    status.write(GROUP_KEY, json.dumps({"v": 1, **record_of().to_json(), name: garbage}).encode())
    assert status.view.snapshot().group is None
    assert "a name must be a text" in unreadable[0].reason


def test_what_is_told_of_an_unreadable_record_is_short_however_long_it_is() -> None:
    told: list[Unreadable] = []
    view = JobsView(told.append)
    long = "x" * 1_000_000
    view.apply(f"job:{long}".encode(), json.dumps({"v": 1, "name": [long]}).encode(), 7)
    view.apply(b"job:flights", json.dumps({"v": 1, "name": [long]}).encode(), 8)
    assert view.snapshot().unreadable == 2
    assert [len(str(each)) < 1_000 for each in told] == [True, True]
    assert "offset 8 with key b'job:flights'" in str(told[1])
