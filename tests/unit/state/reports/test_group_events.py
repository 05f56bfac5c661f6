"""What the records of an events topic tell of a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.state.records import (
    Event,
    RebalanceEvent,
    TaskEvent,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
)
from airflow_provider.state.reports import group_events
from airflow_provider.state.reports.group_events import EventFold, EventKind, GroupEvent
from airflow_provider.values.model import PLANNER_INDEX, Epoch, MemberId, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")
FINISHED, FAILED, RUNNING = TaskState.FINISHED, TaskState.FAILED, TaskState.RUNNING
UNASSIGNED, STOPPED = TaskState.UNASSIGNED, TaskState.STOPPED


def task(index: int, state: TaskState, *, attempt: int = 1, **more: Any) -> TaskEvent:
    error = TaskFailure.of(f"no luck with {index}", "long") if state is FAILED else None
    status = TaskStatus(
        **{
            "task": TaskId("job", index),
            "state": state,
            "epoch": Epoch(1),
            "worker": W1,
            "run_key": "r1",
            "attempt": attempt,
            "finished_at_ms": 100 + attempt if state.final else None,
            "error": error,
            **more,
        }
    )
    return TaskEvent(status=status, at_ms=7)


def planned(tasks: int, **more: Any) -> TaskEvent:
    return task(PLANNER_INDEX, FINISHED, result={"tasks": tasks, "bounded": True}, **more)


def of_job(event: TaskEvent, job: str) -> TaskEvent:
    return replace(event, status=replaced(event.status, task=TaskId(job, event.status.task.index)))


def unbounded(tasks: int) -> TaskEvent:
    return task(PLANNER_INDEX, FINISHED, result={"tasks": tasks, "bounded": False})


def rebalance(epoch: int, *members: WorkerId, **more: Any) -> RebalanceEvent:
    shares = {worker: frozenset({TaskId("job", 0)}) for worker in members}
    ids = {worker: MemberId(f"{worker}-x") for worker in members}
    return RebalanceEvent.of(record_of(shares, **{"epoch": epoch, "members": ids, "at_ms": epoch, **more}))


def told(*events: Event) -> list[GroupEvent]:
    fold = EventFold()
    return [each for event in events for each in fold.take(event)]


def kinds(*events: Event) -> list[str]:
    return [event.kind.value for event in told(*events)]


def test_a_job_has_finished_with_the_last_of_its_tasks() -> None:
    (over,) = told(planned(2), task(0, RUNNING), task(0, FINISHED), task(1, RUNNING), task(1, FINISHED))
    assert over.to_json("g") == {
        "event": "job_finished",
        "group": "g",
        "id": "g/job_finished/job:1/r1/1/101",
        "at_ms": 7,
        "job": "job",
        "run_key": "r1",
        "tasks": 2,
        "failed": [],
        "failures": 0,
        "error": "",
    }


def test_that_a_task_fails_again_and_again_is_told_once_until_it_has_gone_well() -> None:
    def failures(number: int, forgiven: int = 0) -> TaskEvent:
        more: dict[str, Any] = {"error": TaskFailure.of("no luck"), "failures": number, "forgiven": forgiven}
        return task(0, TaskState.PENDING, attempt=number + 1, **more)

    row = [failures(number) for number in range(1, 8)]
    (begins,) = told(unbounded(1), *row, row[2], row[4], row[6])
    assert begins.kind is EventKind.TASK_KEEPS_FAILING
    assert (begins.about["task"], begins.about["attempt"], begins.about["error"]) == (0, 6, "no luck")
    later = [failures(number, forgiven=7) for number in range(8, 15)]
    assert kinds(unbounded(1), *row, *later) == ["task_keeps_failing"] * 2
    assert kinds(unbounded(1), *later[:4]) == []


def test_it_is_told_whatever_comes_first() -> None:
    """Tasks are given out as soon as the plan can be read; the planner's own end may be stored later."""
    assert kinds(task(0, FINISHED), planned(1)) == ["job_finished"]
    assert kinds(planned(0)) == ["job_finished"], "there was nothing to do"


def test_a_job_has_failed_when_nothing_of_it_is_left_to_run() -> None:
    events = told(planned(2), task(1, FAILED), task(0, FINISHED))
    assert [event.kind for event in events] == [EventKind.TASK_FAILED, EventKind.JOB_FAILED]
    failed, over = (event.to_json("g") for event in events)
    assert (failed["task"], failed["attempt"], failed["worker"]) == (1, 1, "w1")
    assert failed["error"] == "no luck with 1", "a traceback has no place in Airflow's database"
    assert (over["failed"], over["failures"], over["tasks"]) == ([1], 1, 2)


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([planned(3), task(1, FAILED), task(0, FAILED), task(2, FINISHED)], "job:1: no luck with 1"),
        (
            [planned(2), task(1, FAILED), task(1, RUNNING, attempt=2), task(0, FAILED), task(1, FAILED, attempt=2)],
            "job:0: no luck with 0",
        ),
        ([task(PLANNER_INDEX, FAILED)], "job:planner: no luck with -1"),
        ([planned(1), task(0, FAILED, error=None)], "job:0: "),
    ],
    ids=["not the last", "tried again meanwhile", "planner", "no error told"],
)
def test_the_error_of_a_job_is_that_of_the_first_task_that_has_failed(events: list[Event], error: str) -> None:
    (over,) = [event for event in told(*events) if event.kind is EventKind.JOB_FAILED]
    assert over.about["error"] == error


def test_without_a_plan_there_is_nothing_to_run() -> None:
    assert kinds(task(PLANNER_INDEX, FAILED)) == ["task_failed", "job_failed"]


def test_what_is_tried_again_ends_again() -> None:
    once = (planned(2), task(0, FINISHED), task(1, FAILED))
    again = (task(1, UNASSIGNED, attempt=2), task(1, RUNNING, attempt=2), task(1, FINISHED, attempt=2))
    assert kinds(*once, *again) == ["task_failed", "job_failed", "job_finished"]
    ids = [event.id for event in told(*once, task(1, UNASSIGNED, attempt=2), task(1, FAILED, attempt=2))]
    assert len(set(ids)) == len(ids) == 4


def test_nothing_is_told_twice_though_it_lies_in_the_topic_twice() -> None:
    events = [planned(1), task(0, FAILED), task(0, FAILED), task(0, UNASSIGNED, attempt=2), task(0, FAILED)]
    assert kinds(*events) == ["task_failed", "job_failed"], "what comes late is of the attempt before"
    assert kinds(rebalance(1, W1), rebalance(2, W1), rebalance(1, W1)) == ["rebalanced"] * 2


def test_a_task_that_was_stopped_has_not_ended() -> None:
    assert kinds(planned(1), task(0, STOPPED), task(0, RUNNING, attempt=2)) == []


def test_what_happens_to_two_groups_in_the_same_moment_has_two_ids() -> None:
    """One DAG may be started by both."""
    (event,) = told(planned(0))
    assert event.to_json("g")["id"] != event.to_json("h")["id"]


def test_runs_are_apart() -> None:
    first, second = planned(1, run_key="r1"), planned(1, run_key="r2")
    late = task(0, FINISHED, run_key="r1")
    events = told(first, second, late, task(0, FINISHED, run_key="r2"))
    assert [event.about["run_key"] for event in events] == ["r1", "r2"]


def test_of_many_runs_only_the_last_ones_are_kept() -> None:
    fold = EventFold()
    for number in range(50):
        fold.take(planned(2, run_key=f"r{number}"))
    assert fold.take(task(0, FINISHED, run_key="r0")) == ()
    assert fold.take(task(1, FINISHED, run_key="r0")) == (), "how many there were is forgotten"
    assert len(fold._runs["job"]) == 4


def test_of_many_jobs_only_those_that_were_heard_of_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_events, "_MOST_JOBS", 3)
    fold = EventFold()
    for number in range(3):
        fold.take(of_job(planned(2), f"day-{number}"))
    fold.take(of_job(task(0, FINISHED), "day-0"))
    fold.take(of_job(planned(2), "day-3"))
    assert list(fold._runs) == ["day-2", "day-0", "day-3"]
    assert [event.kind for event in fold.take(of_job(task(1, FINISHED), "day-0"))] == [EventKind.JOB_FINISHED]


@pytest.mark.parametrize("tasks", ["2", [], {}, None, 1.5])
def test_a_plan_that_says_no_number_of_tasks_is_no_plan(tasks: object) -> None:
    fold = EventFold()
    fold.take(task(0, FINISHED))
    assert fold.take(task(PLANNER_INDEX, FINISHED, result={"tasks": tasks})) == ()


def test_a_job_without_an_end_fails_with_its_first_failure_and_never_finishes() -> None:
    begun = unbounded(2)
    assert kinds(begun, task(0, FAILED), task(1, FAILED)) == ["task_failed", "job_failed", "task_failed"]
    assert (
        kinds(begun, task(0, FAILED), task(0, UNASSIGNED, attempt=2), task(0, FAILED, attempt=2))
        == [
            "task_failed",
            "job_failed",
        ]
        * 2
    )
    assert kinds(begun, task(0, FINISHED), task(1, FINISHED)) == []


def test_a_bounded_job_of_streams_ends() -> None:
    """A task that starts a query that ends by itself is said to be a stream."""
    assert kinds(planned(1), task(0, FINISHED, kind=TaskKind.STREAMING)) == ["job_finished"]


def test_a_planner_of_an_older_release_did_not_say_whether_its_job_ends() -> None:
    assert kinds(task(PLANNER_INDEX, FINISHED, result={"tasks": 1}), task(0, FINISHED)) == ["job_finished"]
    assert kinds(task(PLANNER_INDEX, FINISHED), task(0, FINISHED)) == [], "nor how many tasks there are"


def test_a_smaller_plan_of_the_same_run_has_fewer_ends() -> None:
    assert kinds(planned(3), task(2, FINISHED), planned(1, attempt=2), task(0, FINISHED)) == ["job_finished"]


def test_a_plan_of_an_altered_job_counts_though_its_attempts_begin_anew() -> None:
    before = (planned(2, fingerprint="a"), task(0, FINISHED, fingerprint="x"))
    altered = (task(PLANNER_INDEX, RUNNING, fingerprint="b"), planned(3, fingerprint="b"))
    assert kinds(*before, *altered, task(1, FINISHED)) == []
    assert kinds(*before, *altered, task(1, FINISHED), task(2, FINISHED)) == ["job_finished"]
    assert kinds(*before, task(1, FINISHED), *altered, task(2, FINISHED)) == ["job_finished", "job_finished"]


def test_an_altered_job_that_can_not_be_planned_has_failed_until_it_can() -> None:
    before = (planned(1, fingerprint="a"), task(0, FINISHED))
    wrong = task(PLANNER_INDEX, FAILED, fingerprint="b")
    failed = ["job_finished", "task_failed", "job_failed"]
    assert kinds(*before, wrong) == failed
    assert kinds(*before, wrong, planned(1, fingerprint="c")) == [*failed, "job_finished"]


def test_a_task_that_was_changed_ends_again() -> None:
    events = (planned(1), task(0, FINISHED, fingerprint="x"), task(0, RUNNING, fingerprint="y"))
    assert kinds(*events, task(0, FINISHED, fingerprint="y")) == ["job_finished", "job_finished"]


def test_what_comes_late_of_what_a_task_ran_before_it_was_changed_is_no_end() -> None:
    changed = task(0, RUNNING, fingerprint="y", epoch=Epoch(2))
    assert kinds(planned(1), task(0, RUNNING, fingerprint="x"), changed, task(0, FINISHED, fingerprint="x")) == []


def test_a_rebalance_says_who_came_and_went() -> None:
    move = Move(tasks=frozenset({TaskId("job", 0)}), source=W1, target=W2, reason=MoveReason.LOST)
    events = told(rebalance(1, W1), rebalance(2, W2, lost=frozenset({W1}), reason="w1 got lost", moves=(move,)))
    assert [event.kind.value for event in events] == ["rebalanced", "worker_lost", "rebalanced"]
    lost, after = (event.to_json("g") for event in events[1:])
    assert (lost["worker"], lost["epoch"], lost["members"]) == ("w1", 2, ["w2"])
    assert lost["id"] == "g/worker_lost/w1/w1-x"
    assert (after["joined"], after["gone"], after["lost"], after["moved"]) == (["w2"], ["w1"], ["w1"], 1)
    assert after["reason"] == "w1 got lost"


def test_a_round_that_an_older_release_wrote_tells_of_no_lost_worker() -> None:
    data = rebalance(2, W2, lost=frozenset({W1})).to_json()
    assert data["lost"] == ["w1"]
    assert RebalanceEvent.from_json(data).record.lost == {W1}
    del data["lost"]
    assert kinds(RebalanceEvent.from_json(data)) == ["rebalanced"]


@pytest.mark.parametrize("cut", range(1, 7))
def test_who_begins_in_the_middle_of_the_topic_tells_the_same_of_what_follows(cut: int) -> None:
    """From the beginning the offsets and ids are the same each time, wherever somebody was left."""
    steps: list[Event] = [task(0, RUNNING), rebalance(1, W1), task(0, FINISHED), rebalance(2, W1), task(1, FINISHED)]
    events = [planned(2), *steps]
    one, other = EventFold(), EventFold()
    first = [one.take(event) for event in events]
    second = [other.take(event) for event in events]
    assert first[cut:] == second[cut:]
    assert first[-1][0].kind is EventKind.JOB_FINISHED
