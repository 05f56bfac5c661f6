"""A task that is told to stop may end the batch that it is in, as long as its worker's lease holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import DEADLINE_S

from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.job import FencedError
from airflow_provider.spark.job.fencing import AttemptGuard
from airflow_provider.spark.local.errors import SparkGoneError
from airflow_provider.spark.runner import (
    LastEvent,
    QueryDetached,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStopped,
)
from airflow_provider.spark.runners.attached_tasks import attached_attempt
from airflow_provider.spark.runners.attached_tasks.attached_attempt import AttachedAttempt
from airflow_provider.values.model import Epoch, TaskId

ORDER = TaskOrder(task=TaskId("job", 0), entry_point="job:run", epoch=Epoch(1))
LONG_S = 10 * DEADLINE_S


class Session:
    """A query in a batch; what else is asked of a session ends its attempt."""

    def __init__(self) -> None:
        self.batch_ended = threading.Event()
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self.end: Callable[[], None] = lambda: None

    def await_batch(self, limit_s: float, may_go_on: Callable[[], bool]) -> None:
        while may_go_on() and not self.batch_ended.is_set():
            self.waiting.set()

    def give_up(self) -> None:
        self.end()

    def cancel(self) -> None:
        self.end()
        self.cancelled.set()


class Lease:
    grant = 0

    def __init__(self) -> None:
        self.over = False

    def check(self, grant: int) -> None:
        if self.over:
            raise FencedError("the lease is over")

    def left_s(self, _grant: int) -> float:
        return 0.0 if self.over else LONG_S


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(attached_attempt, "BATCH_S", LONG_S)
    loop, session, lease = asyncio.new_event_loop(), Session(), Lease()
    attempt = AttachedAttempt(ORDER, AttemptGuard(lease), session, loop.create_future())  # type: ignore[arg-type]
    session.end = attempt.thread_ended.set
    beginning = threading.Thread(target=attempt.guard.begin)  # so the test's own thread is that of a batch
    beginning.start()
    beginning.join()
    yield SimpleNamespace(attempt=attempt, session=session, lease=lease)
    attempt.thread_ended.set()
    loop.close()


def test_it_is_cancelled_when_its_batch_has_ended_which_may_be_written(parts: Any) -> None:
    assert parts.attempt.stop("moved")
    assert parts.session.waiting.wait(DEADLINE_S)
    assert parts.attempt.guard.stopping
    parts.attempt.guard.check()
    assert not parts.session.cancelled.is_set()
    parts.session.batch_ended.set()
    assert parts.session.cancelled.wait(DEADLINE_S)
    with pytest.raises(FencedError, match="told to stop: moved"):
        parts.attempt.guard.check()


def test_what_is_in_no_batch_is_refused_from_the_moment_of_the_stop_on(parts: Any) -> None:
    guard = AttemptGuard(parts.lease)
    guard.begin()
    assert guard.stop_soon("moved")
    with pytest.raises(FencedError, match="told to stop: moved"):
        guard.check()


def test_no_batch_is_waited_for_when_the_lease_is_over(parts: Any) -> None:
    parts.lease.over = True
    assert parts.attempt.stop("lease over")
    assert parts.session.cancelled.wait(DEADLINE_S)
    assert not parts.session.waiting.is_set()


def test_a_batch_is_broken_off_when_the_lease_ends_in_it(parts: Any) -> None:
    assert parts.attempt.stop("moved")
    assert parts.session.waiting.wait(DEADLINE_S)
    parts.lease.over = True
    assert parts.session.cancelled.wait(DEADLINE_S)


def test_a_long_batch_is_broken_off(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_attempt, "BATCH_S", 0.05)
    assert parts.attempt.stop("moved")
    assert parts.session.cancelled.wait(DEADLINE_S)
    with pytest.raises(FencedError):
        parts.attempt.guard.check()


def test_what_has_not_begun_never_will(parts: Any) -> None:
    guard = AttemptGuard(parts.lease)
    assert not guard.stop_soon("moved")
    with pytest.raises(FencedError):
        guard.begin()


@pytest.mark.parametrize("over", [True, False], ids=["with its lease", "before its lease"])
def test_an_attempt_whose_spark_ends_with_its_lease_has_stopped_and_nobody_is_to_blame(parts: Any, over: bool) -> None:
    parts.lease.over = over
    parts.session.batch_ended.set()
    parts.attempt.lose(SparkGoneError("this worker's Spark has ended", spark=1))
    assert parts.session.cancelled.wait(DEADLINE_S)
    stopped = TaskStopped(order=ORDER, reason=parts.attempt.guard.reason)
    last = parts.attempt.last_word(stopped, nothing_secret)
    assert last == TaskStopped(order=ORDER, reason="the lease is over") if over else isinstance(last, SparkLost)
    left = QueryDetached(order=ORDER, handle="h", otherwise=stopped)
    assert parts.attempt.last_word(left, nothing_secret) == replace(left, otherwise=last)


@pytest.mark.parametrize(
    "said",
    [
        TaskFailed(order=ORDER, error="Py4JError: no answer", traceback="", retryable=True),
        TaskConflicted(order=ORDER, error="another writer uses the checkpoint"),
    ],
    ids=["an error", "a conflict"],
)
def test_whatever_the_code_says_when_its_spark_has_ended_that_is_the_reason(parts: Any, said: LastEvent) -> None:
    parts.attempt.lose(SparkGoneError("this worker's Spark has ended", spark=1))
    assert isinstance(parts.attempt.last_word(said, nothing_secret), SparkLost)


def test_a_result_counts_though_its_spark_has_ended_since(parts: Any) -> None:
    parts.attempt.lose(SparkGoneError("this worker's Spark has ended", spark=1))
    finished = TaskFinished(order=ORDER, result=1)
    assert parts.attempt.last_word(finished, nothing_secret) is finished
