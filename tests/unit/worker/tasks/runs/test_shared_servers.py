"""Workers that share a server put their suspects on trial one worker after the other."""

from __future__ import annotations

from typing import Any

from airflow_provider.state.records import JobDefinition, TaskState, TaskStatus, TaskWork
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.shared_servers import APART_MS, SharedServers
from airflow_provider.worker.tasks.runs.suspects import TRIAL_MS

A0, B0 = TaskId("a", 0), TaskId("b", 0)
QUERY = {"server": "sc://h", "session_id": "s"}
HOUR_MS = 3_600_000


class Second:
    """The second of two workers, each of which has a suspect."""

    def __init__(self) -> None:
        self.servers = SharedServers(WorkerId("w2"), tried_from=2, trial_ms=TRIAL_MS)
        work = TaskWork(
            task=B0, definition=JobDefinition(name="b", entry_point="m:f", max_tasks=1), config={}, fingerprint="f"
        )
        self.batch = [TaskRun(work=work, epoch=Epoch(1), spark_deaths=2, after=QUERY)]

    def may_begin(self, at_ms: int, **first: Any) -> bool:
        """:param first: what the first worker has written"""
        waits = {"state": TaskState.PENDING, "spark_deaths": 2, "after": QUERY}
        said = TaskStatus(task=A0, epoch=Epoch(1), worker=WorkerId("w1"), **(first or waits))
        return self.servers.may_begin(self.batch, StatusSnapshot(tasks={A0: said}), now_ms=at_ms, wall_ms=at_ms)


def test_the_second_worker_waits_until_it_would_have_read_that_the_first_one_has_begun() -> None:
    worker = Second()
    assert not worker.may_begin(0)
    assert not worker.may_begin(APART_MS - 1)
    assert worker.may_begin(APART_MS)


def test_it_waits_as_long_as_something_of_the_first_one_is_young() -> None:
    worker = Second()
    runs = {"state": TaskState.RUNNING, "handle": QUERY, "started_at_ms": 0}
    assert not worker.may_begin(TRIAL_MS - 1, **runs)
    assert worker.may_begin(TRIAL_MS, **runs)


def test_after_a_batch_of_its_own_it_is_the_turn_of_the_first_one_again() -> None:
    worker = Second()
    worker.may_begin(0)
    assert worker.may_begin(APART_MS)
    assert not worker.may_begin(APART_MS + 1)
    assert worker.may_begin(2 * APART_MS + 1)


def test_a_quiet_time_before_an_earlier_death_of_the_server_does_not_count() -> None:
    """Both would begin at the same time, and the task of one would be blamed for that of the other."""
    worker = Second()
    assert not worker.may_begin(0)
    assert not worker.may_begin(HOUR_MS)
    assert worker.may_begin(HOUR_MS + APART_MS)
