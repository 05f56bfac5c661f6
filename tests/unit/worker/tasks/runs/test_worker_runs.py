"""What a worker knows of its tasks, and which it starts next."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    TaskWork,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.task_progress.progress import needs_running
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.taking_over import first_run, last_word

ME = WorkerId("w1")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=100, run_key="r")
PLAN = PlanRecord.of(JOB, [{"i": i} for i in range(5)], planned_by=ME, at_ms=0)
A0 = TaskId("a", 0)
PLANNER = planner_of("a")


def work(index: int = 0, job: JobDefinition = JOB, slots: int = 1) -> TaskWork:
    return TaskWork(task=TaskId(job.name, index), definition=job, config={"slots": slots}, fingerprint=f"f{index}")


def run(
    index: int = 0, state: RunState = RunState.WAITING, *, job: JobDefinition = JOB, wants: int = 1, **more: Any
) -> TaskRun:
    return TaskRun(work=work(index, job, wants), epoch=Epoch(1), state=state, **more)


def table(*runs: TaskRun) -> RunTable:
    made = RunTable()
    for each in runs:
        made[each.task] = each
    return made


def start_next(runs: RunTable, *, slots: int, now_ms: int) -> list[TaskId]:
    started = []
    for task in runs.startable(slots=slots, now_ms=now_ms):
        runs[task] = runs[task].start(runs.share_of(runs[task], slots=slots))
        started.append(task)
    return started


@pytest.mark.parametrize(
    ("states", "started"),
    [
        ([RunState.WAITING, RunState.WAITING, RunState.WAITING], [0, 1]),
        ([RunState.STARTED, RunState.WAITING, RunState.WAITING], [1]),
        ([RunState.STARTED, RunState.STARTED, RunState.WAITING], []),
        ([RunState.STOPPING, RunState.STARTED, RunState.WAITING], []),
        ([RunState.RESTARTING, RunState.STARTED, RunState.WAITING], []),
        ([RunState.CLOSING, RunState.STARTED, RunState.WAITING], [2]),
    ],
)
def test_a_slot_is_taken_until_the_task_has_ended(states: list[RunState], started: list[int]) -> None:
    runs = table(*(run(index, state) for index, state in enumerate(states)))
    assert start_next(runs, slots=2, now_ms=0) == [TaskId("a", index) for index in started]


def test_planners_start_whatever_runs_and_take_nobodys_slot() -> None:
    runs = table(run(-1), run(0, RunState.STARTED), run(1))
    assert start_next(runs, slots=1, now_ms=0) == [PLANNER]
    runs[PLANNER] = replaced(runs[PLANNER], state=RunState.STARTED)
    assert start_next(runs, slots=2, now_ms=0) == [TaskId("a", 1)]


def test_more_slots_taken_than_there_are_start_nothing() -> None:
    runs = table(run(0, RunState.STARTED), run(1, RunState.STARTED), run(2))
    assert start_next(runs, slots=1, now_ms=0) == []


def test_jobs_start_in_the_order_in_which_they_were_submitted() -> None:
    late, early = (replace(JOB, name=name, submitted_at_ms=at) for name, at in (("a", 2), ("z", 1)))
    runs = table(run(0, job=late), run(1, job=late), run(0, job=early))
    assert start_next(runs, slots=2, now_ms=0) == [TaskId("z", 0), TaskId("a", 0)]


def test_a_task_waits_out_the_delay_before_its_next_attempt() -> None:
    runs = table(run(0, not_before_ms=100), run(1, not_before_ms=200), run(2, RunState.STARTED, not_before_ms=50))
    assert start_next(runs, slots=9, now_ms=99) == []
    assert runs.next_due_ms(now_ms=99) == 100
    assert start_next(runs, slots=9, now_ms=100) == [A0]
    assert runs.next_due_ms(now_ms=100) == 200
    assert runs.next_due_ms(now_ms=200) is None


CHANGES = st.lists(
    st.tuples(st.integers(-1, 4), st.sampled_from([*RunState, None]), st.integers(0, 3), st.sampled_from([1, 1, 2, 9])),
    max_size=40,
)
BATCH, STREAM = [
    [replace(JOB, submitted_at_ms=at, kind=kind) for at in range(4)] for kind in (TaskKind.BATCH, TaskKind.STREAMING)
]


@given(CHANGES)
def test_whatever_became_of_the_tasks_it_starts_what_a_look_at_all_of_them_would(
    changes: list[tuple[int, RunState | None, int, int]],
) -> None:
    """A time goes by with each change; every third time what can start is started."""
    runs = RunTable()
    for now, (index, state, number, wants) in enumerate(changes):
        task = TaskId("a", index)
        if state is None:
            runs.pop(task, None)
        else:
            job = (STREAM if index == 4 else BATCH)[number]
            runs[task] = run(index, state, job=job, wants=wants, not_before_ms=number * now)
        runs.validate()
        resting = (RunState.WAITING, RunState.PAUSED, RunState.FAILED)
        assert runs.active == {each.task for each in runs.values() if each.state not in resting}
        later = [each.not_before_ms for each in runs.values() if each.state is RunState.WAITING]
        assert runs.next_due_ms(now_ms=now) == min((at_ms for at_ms in later if at_ms > now), default=None)
        if now % 3 == 0:
            before = dict(runs)
            due = [run for run in runs.values() if run.state is RunState.WAITING and run.not_before_ms <= now]
            planners = [run.task for run in due if run.task.is_planner]
            others = sorted((run.work.definition.submitted_at_ms, run.task) for run in due if not run.task.is_planner)
            assert start_next(runs, slots=3, now_ms=now) == planners + started_of([task for _, task in others], before)


def started_of(waiting: list[TaskId], runs: dict[TaskId, TaskRun]) -> list[TaskId]:
    """The first of these, as far as each has its slots of three; of what streams hold nobody gets any."""
    there = list(runs.values())
    taken = sum(run.taken_slots for run in there)
    endless = sum(run.taken_slots for run in there if run.work.definition.kind is TaskKind.STREAMING)
    for number, task in enumerate(waiting):
        given = min(runs[task].work.slots, max(1, 3 - endless))
        if taken + given > 3:
            return waiting[:number]
        taken += given
        endless += given if runs[task].work.definition.kind is TaskKind.STREAMING else 0
    return waiting


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12), st.integers(1, 4), st.randoms())
def test_each_task_that_ends_has_its_turn_before_any_that_was_submitted_later(
    tasks: list[tuple[int, bool]], slots: int, random: Random
) -> None:
    """Unless streams take all slots for ever; what runs ends in any order, and is never stopped."""
    runs = table(
        *(
            run(index, job=replace((STREAM if endless else BATCH)[0], submitted_at_ms=index), wants=wants)
            for index, (wants, endless) in enumerate(tasks)
        )
    )
    order: list[TaskId] = []
    while True:
        order += start_next(runs, slots=slots, now_ms=0)
        runs.validate()
        assert runs.busy <= slots
        ending = [each.task for each in runs.values() if each.taken_slots and not each.is_endless]
        if not ending:
            break
        del runs[random.choice(sorted(ending))]
    assert order == sorted(order)
    assert len(order) == len(tasks) or sum(each.taken_slots for each in runs.values() if each.is_endless) == slots


def test_a_next_attempt_counts_on_and_knows_why_the_last_one_failed() -> None:
    why = TaskFailure.of("boom")
    waiting = run(state=RunState.STARTED, started_at_ms=5).failed(why).next_attempt(4, now_ms=5, wall_ms=1_000)
    assert (waiting.state, waiting.attempt, waiting.failures) == (RunState.WAITING, 2, 1)
    assert (waiting.error, waiting.not_before_ms, waiting.started_at_ms) == (why, 9, None)


def test_it_is_other_work_when_the_run_or_what_is_to_run_is_another() -> None:
    assert run().is_of(work())
    assert not run().is_of(replace(work(), fingerprint="other"))
    assert not run().is_of(replace(work(), definition=replace(JOB, run_key="r2")))
    assert run().is_of(replace(work(), definition=replace(JOB, retries=9))), "a policy is not what runs"


def status(state: TaskState, task: TaskId = A0, **more: Any) -> TaskStatus:
    return TaskStatus(task=task, state=state, worker=ME, **{"epoch": Epoch(1), "run_key": "r", **more})


def test_a_tasks_kind_is_its_jobs_a_planners_is_batch() -> None:
    streaming = replace(JOB, kind=TaskKind.STREAMING)
    assert first_run(work(0, streaming), Epoch(1), None, now_ms=0, wall_ms=0).kind is TaskKind.STREAMING
    assert first_run(work(-1, streaming), Epoch(1), None, now_ms=0, wall_ms=0).kind is TaskKind.BATCH


@pytest.mark.parametrize(
    ("last", "attempt"),
    [
        (None, 1),
        (status(TaskState.RUNNING, attempt=2, started_at_ms=1), 3),
        (status(TaskState.PENDING, attempt=2), 2),
        (status(TaskState.RUNNING, attempt=2, started_at_ms=1, run_key="other"), 1),
        (status(TaskState.RUNNING, attempt=2, started_at_ms=1, fingerprint="other"), 1),
    ],
)
def test_an_attempt_that_somebody_began_counts(last: TaskStatus | None, attempt: int) -> None:
    assert first_run(work(), Epoch(1), last, now_ms=0, wall_ms=0).attempt == attempt


@pytest.mark.parametrize(
    ("retry_at_ms", "waits_ms"),
    [(None, 0), (900, 0), (1_400, 400), (99_000, 500)],
    ids=["nothing", "over", "some more", "by a clock that is ahead"],
)
def test_who_takes_over_a_task_waits_what_is_left_of_the_delay(retry_at_ms: int | None, waits_ms: int) -> None:
    waiting = replaced(run(), retry_at_ms=retry_at_ms, failures=1).status(TaskState.STOPPED, ME)
    patient = replace(JOB, retries=3, retry_delay_ms=500)
    taken = first_run(work(0, patient), Epoch(2), waiting, now_ms=50, wall_ms=1_000)
    assert taken.not_before_ms == (50 + waits_ms if waits_ms else 0)
    assert taken.retry_at_ms == (1_000 + waits_ms if waits_ms else None), "the next one, too, may lose it"
    assert taken.start(1).retry_at_ms is None


@pytest.mark.parametrize(
    ("told", "own", "attempt"),
    [
        ({"attempt": 1}, None, 1),
        (None, {"attempt": 1}, 1),
        ({"attempt": 1}, {"attempt": 2}, 2),
        ({"attempt": 3}, {"attempt": 2}, 3),
        ({"attempt": 3, "epoch": Epoch(1)}, {"attempt": 2, "epoch": Epoch(2)}, 2),
        ({"attempt": 2, "epoch": Epoch(9)}, {"attempt": 3, "epoch": Epoch(2)}, 2),
        ({"attempt": 3, "fingerprint": "of an older plan"}, {"attempt": 2}, 2),
    ],
)
def test_the_newer_word_counts_the_topics_or_its_own(
    told: dict[str, Any] | None, own: dict[str, Any] | None, attempt: int
) -> None:
    said = [None if word is None else status(TaskState.STOPPED, **word) for word in (told, own)]
    last = last_word(*said)
    assert last is not None
    assert last.attempt == attempt


PLANNED = JobsSnapshot(jobs={"a": JOB}, plans={"a": PLAN})
UNPLANNED = JobsSnapshot(jobs={"a": JOB})
WATCHING = JobsSnapshot(jobs={"a": replace(JOB, replan_interval_ms=5)}, plans={"a": PLAN})


@pytest.mark.parametrize(
    ("task", "jobs", "last", "needed"),
    [
        (A0, PLANNED, None, True),
        (A0, PLANNED, TaskState.RUNNING, True),
        (A0, PLANNED, TaskState.STOPPED, True),
        (A0, PLANNED, TaskState.FINISHED, False),
        (A0, PLANNED, TaskState.FAILED, False),
        (A0, UNPLANNED, None, False),
        (TaskId("a", 5), PLANNED, None, False),
        (TaskId("b", 0), PLANNED, None, False),
        (PLANNER, UNPLANNED, None, True),
        (PLANNER, UNPLANNED, TaskState.FAILED, False),
        (PLANNER, UNPLANNED, TaskState.FINISHED, True),
        (PLANNER, PLANNED, None, False),
        (PLANNER, WATCHING, None, True),
        (PLANNER, WATCHING, TaskState.FINISHED, True),
        (PLANNER, WATCHING, TaskState.FAILED, False),
    ],
)
def test_what_was_assigned_need_not_be_needed_any_more(
    task: TaskId, jobs: JobsSnapshot, last: TaskState | None, needed: bool
) -> None:
    assert needs_running(task, jobs, {task: status(last, task)} if last else {}) is needed
