"""What in a group's topics is of nobody any more, and what only seems to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of

from airflow_provider.assignment.model import Memory
from airflow_provider.state.records import (
    ALL_WORKERS,
    CheckpointClaim,
    ControlAction,
    ControlRecord,
    Halt,
    HaltRecord,
    JobDefinition,
    LevelsRecord,
    LogLevel,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.leftovers import leftovers
from airflow_provider.state.views.placed import Placed, Restart
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

DAY_MS = 24 * 60 * 60 * 1_000
NOW_MS = 10 * DAY_MS
GONE = WorkerStatus(worker=WorkerId("gone"), state=WorkerPhase.STABLE, epoch=Epoch(5), slots=1, at_ms=NOW_MS - DAY_MS)
ROUND = record_of({WorkerId("w1"): frozenset()}, epoch=5)


def swept(status: StatusSnapshot, jobs: JobsSnapshot | None = None) -> set[str]:
    left = leftovers(jobs or JobsSnapshot(), status, wall_ms=NOW_MS)
    return {*left.jobs, *left.status}


@pytest.mark.parametrize("state", WorkerPhase)
def test_a_worker_is_gone_that_is_not_in_the_group_and_was_silent_for_a_day(state: WorkerPhase) -> None:
    gone = replace(GONE, state=state)
    assert swept(StatusSnapshot(group=ROUND, workers={gone.worker: gone})) == {"worker:gone"}


WAITING = Memory(deadline_ms=NOW_MS + 1, assignment={WorkerId("gone"): frozenset({TaskId("a", 0)})})


@pytest.mark.parametrize(
    ("record", "worker"),
    [
        ({"members": {WorkerId("gone"): "m"}}, {}),
        ({"delay_ms": 1_000}, {}),
        ({"memory": WAITING}, {}),
        ({}, {"at_ms": NOW_MS - DAY_MS + 1}),
        ({}, {"at_ms": NOW_MS + DAY_MS}),
        ({}, {"epoch": Epoch(6)}),
    ],
    ids=["a member", "a delay runs", "it is waited for", "spoke of late", "a clock that is ahead", "of a later epoch"],
)
def test_a_worker_is_kept_that(record: dict[str, Any], worker: dict[str, Any]) -> None:
    kept = replace(GONE, **worker)
    assert swept(StatusSnapshot(group=replace(ROUND, **record), workers={kept.worker: kept})) == set()


def test_nobody_is_gone_from_a_group_that_has_not_met() -> None:
    assert swept(StatusSnapshot(workers={GONE.worker: GONE})) == set()


def test_what_was_asked_of_a_job_goes_with_it_and_levels_go_with_their_worker() -> None:
    job = JobDefinition(name="here", entry_point="m:f")
    halts = {
        name: Placed(HaltRecord(job=name, halt=Halt.PAUSED, by="", at_ms=1), offset=1) for name in ("here", "removed")
    }
    asked = Restart(by="", offset=1)
    levels = {
        worker: LevelsRecord(worker=worker, levels={"m": LogLevel.DEBUG}, by="", at_ms=NOW_MS - DAY_MS)
        for worker in (ALL_WORKERS, "gone", "w1")
    }
    jobs = JobsSnapshot(
        jobs={"here": job},
        halts=halts,
        restarts={"here": asked, "removed": asked},
        task_restarts={TaskId("here", 1): asked, TaskId("removed", 1): asked},
        levels=levels,
    )
    assert swept(StatusSnapshot(group=ROUND), jobs) == {
        "halt:removed",
        "restart:removed",
        "restart-task:removed:1",
        "levels:gone",
    }


def test_a_wish_to_a_worker_that_is_gone_goes_too() -> None:
    wish = ControlRecord(worker=GONE.worker, action=ControlAction.STOP, at_ms=NOW_MS - DAY_MS)
    late = replace(wish, worker=WorkerId("late"), at_ms=NOW_MS)
    jobs = JobsSnapshot(controls={wish.worker: wish, late.worker: late})
    assert swept(StatusSnapshot(group=ROUND), jobs) == {"control:gone"}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ({}, set()),
        ({"claim": None}, {"task:a:0"}),
        ({"state": TaskState.STOPPED}, {"task:a:0"}),
        ({"worker": GONE.worker, "epoch": Epoch(4)}, {"task:a:0"}),
        ({"worker": GONE.worker, "epoch": Epoch(5)}, set()),
    ],
    ids=["it holds one", "it holds none", "it has stopped", "its worker is lost", "its worker may be there"],
)
def test_what_holds_a_checkpoint_is_kept_though_its_job_is_gone(said: dict[str, Any], left: set[str]) -> None:
    """A job that is submitted again under the name waits for it."""
    claim = CheckpointClaim(key="orders", process="p", number=1, lease_ms=60_000)
    task, worker = TaskId("a", 0), WorkerId("w1")
    told = TaskStatus(task=task, state=TaskState.RUNNING, epoch=Epoch(4), worker=worker, claim=claim)
    assert swept(StatusSnapshot(group=ROUND, tasks={task: replaced(told, **said)})) == left
