"""A group as ``cospark status`` shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busy_group import A0, A1, A2, BUSY, JOB, JOBS, W1, W2, coordinator, page, told, worker
from group_records import record_of

from airflow_provider.assignment.model import LeaveReason, Memory, Move, MoveReason
from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import as_json
from airflow_provider.state.records import (
    PlanRecord,
    StreamProgress,
    TaskState,
    WorkerPhase,
)
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import TaskId, WorkerId
from airflow_provider.values.replacing import replaced


def row(text: str, name: str) -> str:
    """The row of a table that begins so, its cells divided by one space."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"│ {name} "))
    return " ".join(line.replace("│", " ").split())


def test_the_page_shows_who_does_what() -> None:
    text = page(JOBS, BUSY)
    assert text.startswith("g: epoch 5, converged, led by w1 (w2 joined)")
    assert row(text, "w1") == "w1 stable 5 running: a:0 pending: a:1"
    assert row(text, "w2") == "w2 deferred 5", "its task has failed: nothing left to do"
    assert row(text, "a") == "a failed 1 pending, 1 running, 1 failed a:2: boom"


def test_how_many_slots_there_are_and_what_waits_for_some_is_shown() -> None:
    assert page(JOBS, BUSY).splitlines()[1] == "  2 slots, 1 busy", "a:1 may move to w2"
    left = replace(BUSY, workers={**BUSY.workers, W2: worker(W2, WorkerPhase.LEFT)})
    assert page(JOBS, left).splitlines()[1] == "  1 slot, 1 busy: 1 task waits for 1 slot"
    assert as_json("g", JOBS, left, wall_ms=0)["room"] == {
        "workers": 1,
        "slots": 1,
        "busy": 1,
        "spare": 0,
        "waiting_tasks": 1,
        "waiting_streams": 0,
        "lacking": 1,
    }


def test_an_error_is_shown_as_it_is_and_not_taken_for_markup() -> None:
    hundredth = TaskId("a", 100)
    plan = PlanRecord.of(replace(JOB, max_tasks=101), [{}] * 101, planned_by=W1, at_ms=0)
    jobs = JobsSnapshot(jobs={"a": replace(JOB, max_tasks=101)}, plans={"a": plan})
    failed = told(hundredth, TaskState.FAILED, error="no columns [id, name] in [/data/in]")
    text = page(jobs, replace(BUSY, tasks={hundredth: failed}))
    assert "a:100: no columns [id, name] in [/data/in]" in row(text, "a")


def test_many_tasks_are_not_all_named() -> None:
    plan = PlanRecord.of(replace(JOB, max_tasks=99), [{}] * 40, planned_by=W1, at_ms=0)
    jobs = JobsSnapshot(jobs={"a": replace(JOB, max_tasks=99)}, plans={"a": plan})
    status = StatusSnapshot(group=record_of({W1: frozenset(TaskId("a", index) for index in range(40))}))
    assert "and 28 more" in page(jobs, status)


@pytest.mark.parametrize(
    ("left", "shown"), [(None, "lost"), (LeaveReason.RESTARTING, "left (restarting)")], ids=["lost", "left"]
)
def test_a_worker_for_which_tasks_wait_is_shown_with_them(left: LeaveReason | None, shown: str) -> None:
    memory = Memory(assignment={W1: frozenset({A0}), W2: frozenset({A1})}, deadline_ms=61_000)
    waiting = record_of({W1: frozenset({A0})}, delay_ms=60_000, memory=memory, reason="w2 left")
    status = replace(BUSY, group=waiting, tasks={A0: told(A0, TaskState.RUNNING), A1: told(A1, TaskState.RUNNING, W2)})
    if left is not None:
        away = replace(worker(W2, WorkerPhase.LEFT), left=left)
        status = replace(status, workers={**status.workers, W2: away})
    text = page(JOBS, status, wall_ms=1_000)
    assert "lost tasks wait 60 s more for their worker" in text
    assert row(text, "w2") == f"w2 {shown} 5 wait for it: a:1"


@pytest.mark.parametrize(
    ("state", "shown"),
    [(WorkerPhase.JOINING, True), (WorkerPhase.STABLE, False), (WorkerPhase.LEFT, False)],
)
def test_whoever_is_not_in_the_group_is_shown_only_on_the_way_in(state: WorkerPhase, shown: bool) -> None:
    outside = WorkerId("w9")
    text = page(JOBS, replace(BUSY, workers={**BUSY.workers, outside: worker(outside, state)}))
    assert ("w9" in text) == shown


@pytest.mark.parametrize(("awaits", "told"), [(Awaited.PROCESS, True), (Awaited.TRIGGERER, False), (None, False)])
def test_where_airflow_says_why_it_does_not_start_a_worker_is_told(awaits: Awaited | None, told: bool) -> None:
    said = replace(worker(W2, WorkerPhase.DEFERRED), awaits=awaits, condition=awaits.in_words if awaits else "")
    line = "  Airflow has not started w2 yet: its page of groups says why (a paused DAG, a full pool, ...)"
    assert (line in page(JOBS, replace(BUSY, workers={**BUSY.workers, W2: said})).splitlines()) is told


def test_of_who_waits_no_longer_airflow_says_nothing() -> None:
    w9 = WorkerId("w9")
    gone = replace(worker(w9, WorkerPhase.DEFERRED), awaits=Awaited.PROCESS)
    assert "Airflow" not in page(JOBS, replace(BUSY, workers={**BUSY.workers, w9: gone}))


def test_a_group_that_all_have_left_says_so() -> None:
    stopped = replace(worker(W2, WorkerPhase.LEFT), left=LeaveReason.STOPPED, slots=0)
    text = page(JOBS, replace(BUSY, workers={W1: worker(W1, WorkerPhase.LEFT), W2: stopped}))
    assert "g: all workers have left, the last one at 1970-01-01 00:00:00 UTC, epoch 5 (w2 joined)" in text
    assert row(text, "w1").startswith("w1 left 5")
    assert row(text, "w2").startswith("w2 left (stopped) 5"), "it drains no more"


def test_how_long_tasks_run_and_took_is_shown() -> None:
    ended = {TaskId("a", i): (1_000, 1_500 + 100 * i) for i in (0, 1)}
    tasks = {
        task: replaced(told(task, TaskState.FINISHED), started_at_ms=began, finished_at_ms=end)
        for task, (began, end) in ended.items()
    }
    running = replaced(told(A2, TaskState.RUNNING, W2), started_at_ms=1_000)
    status = replace(BUSY, tasks={**tasks, A2: running})
    text = page(JOBS, status, wall_ms=213_000)
    assert "running: a:2 (3 min)" in row(text, "w2")
    assert "0.5 s, at most 0.6 s (a:1)" in row(text, "a")
    lines = as_lines(describe(coordinator("w1", "w2"), JOBS, status))
    assert "  task a:1: finished at w1, attempt 1, took 0.6 s" in lines
    assert "  task a:2: running at w2, attempt 1, since 1970-01-01 00:00:01 UTC" in lines


def test_how_far_a_stream_is_is_shown() -> None:
    progress = StreamProgress(batch=812, rows_per_second=1200.5, at_ms=2_000)
    running = replaced(told(A2, TaskState.RUNNING, W2), started_at_ms=1_000, progress=progress)
    assert "running: a:2 (3 min, batch 812, 1,200 rows/s, lag unknown)" in row(
        page(JOBS, replace(BUSY, tasks={A2: running}), wall_ms=213_000), "w2"
    )
    about = describe(coordinator("w1", "w2"), JOBS, replace(BUSY, tasks={A2: running}))
    since = "since 1970-01-01 00:00:01 UTC"
    assert f"  task a:2: running at w2, attempt 1, {since}, batch 812, 1,200 rows/s, lag unknown" in as_lines(about)


def test_a_group_without_jobs_says_so() -> None:
    """A worker alone in a mistyped group waits for ever."""
    assert "group g has no jobs yet" in page(JobsSnapshot(), StatusSnapshot())
    assert "no jobs yet" not in page(JOBS, StatusSnapshot())
    assert "group g has no jobs yet" in page(JobsSnapshot(), StatusSnapshot(group=BUSY.group))


def test_before_the_first_rebalance_there_are_jobs_at_least() -> None:
    text = page(JOBS, StatusSnapshot())
    assert "no rebalance has been completed yet" in text
    assert row(text, "a") == "a running 3 unassigned"


def test_the_last_moves_are_shown() -> None:
    moved = Move(
        tasks=frozenset(TaskId("a", index) for index in range(8)), source=W1, target=W2, reason=MoveReason.BALANCE
    )
    text = page(JOBS, replace(BUSY, group=record_of({W1: frozenset(), W2: frozenset()}, moves=(moved,))))
    assert "a:0: w1 → w2 (balance)" in text
    assert "and 2 more moves" in text
    back = replace(moved, target=W1, reason=MoveReason.RETURNED)
    text = page(JOBS, replace(BUSY, group=record_of({W1: frozenset(), W2: frozenset()}, moves=(back,))))
    assert "a:0: again at w1 (returned)" in text
