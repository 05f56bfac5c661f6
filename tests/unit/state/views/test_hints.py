"""Which records of the status topic hint at a rebalance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from view_bench import Log

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import WorkerPhase, WorkerStatus, worker_key
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import Epoch, WorkerId

WORKER = WorkerStatus(worker=WorkerId("w"), state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1, process="p1")
JOINS, HAS_LEFT = WorkerPhase.JOINING, WorkerPhase.LEFT


@pytest.fixture
def log() -> Log[StatusView]:
    return Log(StatusView(clock=wall_ms))


def hints(log: Log[StatusView], *records: WorkerStatus) -> bool:
    for record in records:
        log.write(worker_key(record.worker), record)
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
