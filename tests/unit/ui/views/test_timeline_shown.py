"""Which attempts in the picture of the timeline are lost, whenever a browser asked before."""

from __future__ import annotations

from dataclasses import replace

from demo_history import A0, A1, STARTED, W1, step
from group_records import record_of

from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.timeline_view import TimelineView
from airflow_provider.ui.views.timeline import picture
from airflow_provider.values.model import Epoch, planner_of
from airflow_provider.values.replacing import replaced

BEGUN = [step(10, STARTED), step(11, STARTED, A1), step(12, STARTED, planner_of("a"))]
THERE = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2, at_ms=50)
RUNNING = StatusSnapshot(
    group=record_of({W1: frozenset({A0, A1})}),
    workers={W1: THERE},
    tasks={event.status.task: event.status for event in BEGUN},
)


def lost_tasks(status: StatusSnapshot) -> dict[str, int]:
    """For a browser that knows all events: when the workers of the lost tasks were last heard of."""
    view = TimelineView()
    for event in BEGUN:
        view.take(event)
    labels = {bar.key: bar.task for bar in picture("o", view.timeline(), JobsSnapshot(), status, reading=False).bars}
    drawn = picture("o", view.timeline(view.timeline().changed), JobsSnapshot(), status, reading=False)
    assert not drawn.bars
    return {labels[key]: heard_ms for key, heard_ms in drawn.lost.items()}


def test_none_while_the_worker_is_there() -> None:
    assert lost_tasks(RUNNING) == {}


def test_all_of_a_worker_that_is_gone() -> None:
    gone = replace(RUNNING, workers={W1: replace(THERE, state=WorkerPhase.LEFT)})
    assert lost_tasks(gone) == {"a:0": 50, "a:1": 50}


def test_one_that_is_not_known_to_run() -> None:
    last = RUNNING.tasks[A0]
    assert lost_tasks(replace(RUNNING, tasks={A0: last})) == {"a:1": 50}
    assert lost_tasks(replace(RUNNING, tasks={**RUNNING.tasks, A0: replaced(last, attempt=2)})) == {"a:0": 50}
