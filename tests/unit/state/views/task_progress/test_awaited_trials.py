"""A suspect that waits for its trial says so, and how many are tried before it."""

from __future__ import annotations

import pytest

from airflow_provider.state.records import TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import kept_waiting_by
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")


def waits(index: int, *, deaths: int = 2, worker: WorkerId = W1) -> TaskStatus:
    return TaskStatus(
        task=TaskId("a", index),
        state=TaskState.PENDING,
        epoch=Epoch(1),
        worker=worker,
        spark_deaths=deaths,
        waits_for_trial=True,
    )


def snapshot(*tasks: TaskStatus, condition: str = "") -> StatusSnapshot:
    workers = {
        name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2, condition=condition)
        for name in (W1, W2)
    }
    return StatusSnapshot(tasks={said.task: said for said in tasks}, workers=workers)


ALL = (waits(0, deaths=3), waits(1), waits(2), waits(3, worker=W2), waits(4))


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (0, "waits for its trial: 3 tasks before it"),
        (1, "waits for its trial"),
        (2, "waits for its trial: 1 task before it"),
        (3, "waits for its trial"),
        (4, "waits for its trial: 2 tasks before it"),
    ],
)
def test_those_of_its_worker_that_were_counted_less_come_before_it(index: int, words: str) -> None:
    assert kept_waiting_by(ALL[index], snapshot(*ALL)) == words
    assert kept_waiting_by(ALL[index], snapshot(*ALL), alike=True) == "waits for its trial"


def test_who_is_tried_now_waits_no_more_and_no_longer_counts() -> None:
    begins, runs = replaced(ALL[1], waits_for_trial=False), replaced(ALL[2], state=TaskState.RUNNING)
    status = snapshot(ALL[0], begins, runs, ALL[4])
    assert [kept_waiting_by(said, status) for said in (begins, runs)] == ["", ""]
    assert kept_waiting_by(ALL[4], status) == "waits for its trial"


def test_what_keeps_all_tasks_of_its_worker_waiting_is_told_instead() -> None:
    assert kept_waiting_by(ALL[4], snapshot(*ALL, condition="starting Spark")) == "starting Spark"


def test_a_record_says_so_only_if_it_does() -> None:
    assert TaskStatus.from_json(ALL[0].to_json()) == ALL[0]
    assert "waits_for_trial" not in replaced(ALL[0], waits_for_trial=False).to_json()
