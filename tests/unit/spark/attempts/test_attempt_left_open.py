"""An attempt that ends while its server does not confirm that its session has ended: its query may be running."""

from __future__ import annotations

from typing import Any

import pytest
from attempt_jobs import JOBS, order
from fake_session import FakeSession

from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease
from airflow_provider.spark.local.errors import SparkGoneError
from airflow_provider.spark.runner import QueryDetached, SparkLost, TaskFailed


class LeftOpen(FakeSession):
    """:param gone: its server has ended"""

    handle = "a handle"
    left_open = True

    def __init__(self, *, gone: bool) -> None:
        super().__init__()
        self.gone = gone

    def explain(self, error: BaseException) -> BaseException:
        return SparkGoneError("it does not answer", spark=1) if self.gone else error


@pytest.mark.parametrize(("gone", "event"), [(True, SparkLost), (False, TaskFailed)])
def test_it_says_how_it_has_ended_if_its_query_was_not_started(gone: bool, event: type[Any]) -> None:
    guard = AttemptGuard(EndlessLease())
    guard.proceed()
    last = run_attempt(order("fail"), guard, LeftOpen(gone=gone), [JOBS], lambda _: None)
    assert isinstance(last, QueryDetached)
    assert isinstance(last.otherwise, event)
