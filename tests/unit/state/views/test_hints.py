"""Which records of the status topic hint at a rebalance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow_values import group_record
from view_bench import Log

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import (
    GROUP_KEY,
    Lesson,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    task_key,
    worker_key,
)
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

WORKER = WorkerStatus(worker=WorkerId("w"), state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1, process="p1")
TASK = TaskStatus(task=TaskId("a", 0), state=TaskState.RUNNING, epoch=Epoch(1), worker=WorkerId("w"), started_at_ms=1)
JOINS, HAS_LEFT = WorkerPhase.JOINING, WorkerPhase.LEFT


@pytest.fixture
def log() -> Log[StatusView]:
    return Log(StatusView(clock=wall_ms))


def hints(log: Log[StatusView], *records: WorkerStatus | TaskStatus) -> bool:
    for record in records:
        log.write(worker_key(record.worker) if isinstance(record, WorkerStatus) else task_key(record.task), record)
    return bool(log.view.take_news() & About.HINTS)


def test_a_worker_that_joins_or_has_left_hints_once(log: Log[StatusView]) -> None:
    assert hints(log, replace(WORKER, state=JOINS))
    assert not hints(log, replace(WORKER, state=JOINS, condition="its Spark starts"))
    assert not hints(log, WORKER)
    assert not hints(log, replace(WORKER, state=WorkerPhase.DEFERRED, process=""))
    assert not hints(log, replace(WORKER, state=WorkerPhase.STOPPING)), "it leaves when its tasks have stopped"
    assert hints(log, replace(WORKER, state=HAS_LEFT))
    assert not hints(log, replace(WORKER, state=HAS_LEFT))
    assert hints(log, replace(WORKER, state=JOINS, process="p2"))
    assert hints(log, replace(WORKER, state=JOINS, process="p3")), "another process, as that one has died"


def test_a_worker_that_is_ready_for_a_task_hints_once(log: Log[StatusView]) -> None:
    learner = replace(WORKER, learning=(Lesson(TaskId("a", 0), 0.5, ready=False),))
    assert not hints(log, learner)
    assert hints(log, replace(learner, learning=(Lesson(TaskId("a", 0), 1.0, ready=True),)))
    assert not hints(log, replace(learner, learning=(Lesson(TaskId("a", 0), 1.0, ready=True),)))
    assert hints(log, replace(learner, learning=tuple(Lesson(TaskId("a", index), 1.0, ready=True) for index in (0, 1))))
    assert not hints(log, WORKER)


def test_a_task_that_has_stopped_hints_once_if_it_was_revoked(log: Log[StatusView]) -> None:
    stopped = replaced(TASK, state=TaskState.STOPPED)
    assert not hints(log, TASK, stopped), "it stops for something else"
    log.write(GROUP_KEY, group_record(1, revoked={TASK.worker: frozenset({TASK.task})}))
    assert not hints(log, replaced(TASK, epoch=Epoch(2)))
    assert hints(log, replaced(stopped, epoch=Epoch(2)))
    assert not hints(log, replaced(stopped, epoch=Epoch(3)))
    assert not hints(log, replaced(TASK, epoch=Epoch(4)))
    assert not hints(log, replaced(TASK, epoch=Epoch(4), state=TaskState.FINISHED)), "that moves no other task"
    assert not hints(log, replaced(TASK, epoch=Epoch(5), worker=WorkerId("other")))
    assert not hints(log, replaced(stopped, epoch=Epoch(5), worker=WorkerId("other")))


def test_a_hint_is_heard_among_other_news(log: Log[StatusView]) -> None:
    log.write(worker_key(WORKER.worker), replace(WORKER, state=JOINS))
    log.write("nonsense", b"")
    assert hints(log, WORKER)


def test_a_record_that_comes_too_late_hints_at_nothing(log: Log[StatusView]) -> None:
    hints(log, replace(WORKER, epoch=Epoch(2)))
    assert not hints(log, replace(WORKER, state=HAS_LEFT))


def test_records_that_are_read_again_hint_at_nothing(log: Log[StatusView]) -> None:
    log.write(worker_key(WORKER.worker), replace(WORKER, state=JOINS))
    log.view.all_is_news()
    assert not hints(log)
