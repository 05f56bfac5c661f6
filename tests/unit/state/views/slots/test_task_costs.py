"""What tasks cost, by their plan or by the times of earlier runs, and which of them starts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.assignment.costs import Costs
from airflow_provider.state.records import (
    JobDefinition,
    JobError,
    PlanRecord,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    cost_of,
    decode,
    encode,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.costs import costs_of
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.replanning import in_known_order
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.taking_over import first_run

W1 = WorkerId("w1")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=9, run_key="r2")
A0, A1, A2 = WANTED = tuple(TaskId("a", index) for index in range(3))


def plan_of(*weights: float | None) -> PlanRecord:
    configs = [{"i": i, **({} if weight is None else {"weight": weight})} for i, weight in enumerate(weights)]
    return PlanRecord.of(JOB, configs, planned_by=W1, at_ms=0)


def said(task: TaskId, state: TaskState, **more: Any) -> TaskStatus:
    return TaskStatus(task=task, state=state, epoch=Epoch(1), worker=W1, **more)


def took(task: TaskId, ms: int, **more: Any) -> TaskStatus:
    return said(task, TaskState.FINISHED, started_at_ms=1_000, finished_at_ms=1_000 + ms, **more)


def jobs(plan: PlanRecord, job: JobDefinition = JOB) -> JobsSnapshot:
    return JobsSnapshot(offset=ConfigOffset(2), jobs={"a": job}, plans={"a": plan})


def status(*words: TaskStatus) -> StatusSnapshot:
    slots = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2)
    return StatusSnapshot(tasks={word.task: word for word in words}, workers={W1: slots})


@pytest.mark.parametrize(
    ("weight", "times_ms", "cost"),
    [(7, (1_000,), 7), (None, (1_000, 90_000, 3_000), 3), (None, (0,), 0.001), (None, (), 1)],
    ids=["as its plan says", "the median of what it took", "never nothing", "unknown"],
)
def test_a_task_costs(weight: float | None, times_ms: Sequence[int], cost: float) -> None:
    assert cost_of(weight, times_ms) == cost


def test_a_weight_is_not_part_of_the_configuration() -> None:
    plan, heavier = plan_of(5, None, 0.5), plan_of(50, 1, 0.5)
    assert plan.fingerprints == heavier.fingerprints
    assert not plan.says_the_same(heavier)
    assert [plan.weight_of(index) for index in range(4)] == [5, None, 0.5, None]
    assert plan.config_of(0) == {"i": 0, "weight": 5}
    assert PlanRecord.from_json(decode(encode(plan.to_json()))) == plan
    assert "weights" not in plan_of(None, None).to_json()


@pytest.mark.parametrize("weight", [0, -1, "heavy", True, 1e16, 5e-324, [1]])
def test_an_invalid_weight_is_refused(weight: Any) -> None:
    with pytest.raises(JobError, match=r"job 'a', plan\(\)\[1\]: has the weight .*must be a number from 1e-15"):
        PlanRecord.of(JOB, [{}, {"weight": weight}], planned_by=W1, at_ms=0)


def test_a_weight_stays_with_its_task_if_a_new_plan_has_another_order() -> None:
    def named(*tasks: tuple[str, float]) -> PlanRecord:
        configs = [{"checkpoint_key": name, "weight": weight} for name, weight in tasks]
        return PlanRecord.of(JOB, configs, planned_by=W1, at_ms=0)

    again = in_known_order(named(("y", 3), ("x", 2)), named(("x", 1), ("y", 1)))
    assert [(config["checkpoint_key"], again.weight_of(i)) for i, config in enumerate(again.configs)] == [
        ("x", 2),
        ("y", 3),
    ]


def test_the_times_of_the_last_five_runs_are_known() -> None:
    last = took(A0, 6_000, took_before_ms=(1, 2, 3, 4, 5))
    assert last.times_ms == (2, 3, 4, 5, 6_000)
    assert said(A0, TaskState.FAILED, took_before_ms=(1,)).times_ms == (1,)
    assert TaskStatus.from_json(decode(encode(last.to_json()))).took_before_ms == last.took_before_ms


def test_there_are_no_costs_if_nothing_is_known() -> None:
    assert costs_of(jobs(plan_of(None, None, None)), status(), WANTED, wall_ms=0) == Costs(slots={W1: 2})


def test_the_slots_of_tasks_are_known_before_their_costs() -> None:
    def planned(job: JobDefinition) -> Costs:
        plan = PlanRecord.of(job, [{}, {"slots": 4}, {"slots": 2}], planned_by=W1, at_ms=0)
        return costs_of(jobs(plan, job), status(), WANTED, wall_ms=0)

    known = planned(JOB)
    assert known.of == dict.fromkeys(WANTED, 1)
    assert known.large == {4: {A1}, 2: {A2}}
    assert known.among(frozenset(WANTED)) == frozenset(WANTED), "they are not alike"
    streams = planned(replace(JOB, kind=TaskKind.STREAMING))
    assert (streams.of, streams.large) == ({}, known.large), "they have no end, and others have not what they take"


def test_a_running_task_has_its_rest_left_and_an_overdue_one_half_of_its_time() -> None:
    running = [
        said(task, TaskState.RUNNING, started_at_ms=1_000, took_before_ms=(ms,))
        for task, ms in ((A0, 9_000), (A1, 2_000))
    ]
    known = costs_of(jobs(plan_of(None, None, None)), status(*running), WANTED, wall_ms=5_000)
    assert known.of == {A0: 9, A1: 2, A2: 1}
    assert known.left == {A0: 5, A1: 2}
    assert known.slots == {W1: 2}


def test_weights_are_converted_to_seconds_once_a_task_has_finished() -> None:
    plan = plan_of(100, 300, 500)
    before = costs_of(jobs(plan), status(), WANTED, wall_ms=0)
    assert before.of == {A0: 100, A1: 300, A2: 500}
    told = took(A0, 10_000, run_key="r2")
    assert costs_of(jobs(plan), status(told), (A1, A2), wall_ms=0).of == {A1: 30, A2: 50}
    of_another_run = replaced(told, run_key="r1")
    assert costs_of(jobs(plan), status(of_another_run), (A1, A2), wall_ms=0).of == {A1: 300, A2: 500}


def test_a_stream_has_no_cost() -> None:
    plan = plan_of(5, 6, 7)
    streams = status(said(A1, TaskState.RUNNING, kind=TaskKind.STREAMING))
    assert costs_of(jobs(plan), streams, WANTED, wall_ms=0).of.keys() == {A0, A2}
    assert not costs_of(jobs(plan, replace(JOB, kind=TaskKind.STREAMING)), status(), WANTED, wall_ms=0).of


def test_the_longest_task_of_a_job_starts_first() -> None:
    table, known = RunTable(), jobs(plan_of(1, 30, None))
    for task in WANTED:
        work = known.work_of(task)
        assert work is not None
        last = took(task, 7_000, run_key="r1") if task == A2 else None
        table[task] = first_run(work, Epoch(1), last, now_ms=0, wall_ms=0)
    order = []
    for task in table.startable(slots=9, now_ms=0):
        order.append(task)
        del table[task]
    assert order == [A1, A2, A0]


def test_a_leader_does_not_compute_with_a_billion_slots() -> None:
    """A worker of an earlier release may say so; the leader would need gigabytes for them."""
    boundless = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=10**9)
    known = costs_of(jobs(plan_of(1, 2, 3)), replace(status(), workers={W1: boundless}), WANTED, wall_ms=0)
    assert known.slots == {W1: 10_000}
