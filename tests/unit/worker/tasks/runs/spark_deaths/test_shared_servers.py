"""Workers that share a server put their suspects on trial one worker after the other."""

from __future__ import annotations

from typing import Any

from airflow_provider.state.records import JobDefinition, TaskKind, TaskState, TaskStatus, TaskWork
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.shared_servers import APART_MS, SharedServers
from airflow_provider.worker.tasks.runs.spark_deaths.trials import FIRST_BATCH_MS, TRIAL_MS

SERVER = "sc://h"
HOUR_MS = 3_600_000
W1, W2, W3 = (WorkerId(f"w{number}") for number in (1, 2, 3))
WAITS: dict[str, Any] = {"state": TaskState.PENDING, "spark_deaths": 2}


def said(worker: WorkerId, **fields: Any) -> TaskStatus:
    """What another worker has written about its task."""
    usual = {"state": TaskState.RUNNING, "started_at_ms": 0, "kind": TaskKind.STREAMING, "runs_on": SERVER}
    return TaskStatus(task=TaskId(worker, 0), epoch=Epoch(1), worker=worker, **{**usual, **fields})


class Waiting:
    """A worker with a suspect that waits for its turn."""

    def __init__(self, worker: WorkerId = W2, server: str = SERVER) -> None:
        self.servers = SharedServers(worker, tried_from=2)
        definition = JobDefinition(name="b", entry_point="m:f", max_tasks=1)
        work = TaskWork(task=TaskId("b", 0), definition=definition, config={}, fingerprint="f")
        self.batch = [TaskRun(work=work, epoch=Epoch(1), spark_deaths=2, runs_on=server)]

    def may_begin(self, at_ms: int, *others: TaskStatus) -> bool:
        status = StatusSnapshot(tasks={other.task: other for other in others})
        return self.servers.may_begin(self.batch, status, now_ms=at_ms, wall_ms=at_ms)

    def begins_after_ms(self, at_ms: int, *others: TaskStatus) -> int:
        """How long it waits from now on, if nothing else is written."""
        return next(ms for ms in range(0, HOUR_MS, APART_MS) if self.may_begin(at_ms + ms, *others))


def test_the_second_worker_waits_until_it_would_have_read_that_the_first_one_has_begun() -> None:
    worker = Waiting()
    assert not worker.may_begin(0, said(W1, **WAITS))
    assert not worker.may_begin(APART_MS - 1, said(W1, **WAITS))
    assert worker.may_begin(APART_MS, said(W1, **WAITS))


def test_it_waits_as_long_as_a_suspect_of_the_first_one_is_on_trial() -> None:
    """Who stands its trial is counted no more, but only its worker sees when its first batch has ended."""
    worker, on_trial = Waiting(), said(W1, spark_deaths=1)
    assert not worker.may_begin(FIRST_BATCH_MS + TRIAL_MS - 1, on_trial)
    assert worker.may_begin(FIRST_BATCH_MS + TRIAL_MS, on_trial)
    assert Waiting().may_begin(TRIAL_MS, said(W1))


def test_it_waits_as_long_as_the_server_keeps_a_suspect_of_the_first_one_waiting() -> None:
    starts = said(W1, begins_ms=0, **WAITS)
    assert Waiting().begins_after_ms(0, starts) > TRIAL_MS
    assert Waiting().begins_after_ms(HOUR_MS, starts) == APART_MS, "but not if its process has ended"


def test_the_longer_trial_of_a_batch_task_is_not_disturbed_either() -> None:
    worker, on_trial = Waiting(), said(W1, kind=TaskKind.BATCH, spark_deaths=2, acquitted=3)
    assert not worker.may_begin(8 * TRIAL_MS - 1, on_trial)
    assert worker.may_begin(8 * TRIAL_MS, on_trial)


def test_a_busy_neighbour_whose_tasks_are_no_suspects_does_not_keep_it_waiting() -> None:
    """There is always something that has just begun."""
    assert Waiting().may_begin(1_000, said(W1, kind=TaskKind.BATCH))


def test_what_is_about_to_come_back_elsewhere_without_a_trial_comes_first() -> None:
    assert Waiting(W1).begins_after_ms(0, said(W2, state=TaskState.PENDING, spark_deaths=1)) == APART_MS


def test_on_a_spark_of_its_own_and_on_another_server_it_waits_for_nobody() -> None:
    assert Waiting(server="").may_begin(0, said(W1, runs_on="", spark_deaths=2))
    assert Waiting().may_begin(0, said(W1, runs_on="sc://another", spark_deaths=2))


def test_who_has_had_a_turn_lets_all_go_first_that_have_had_none_since() -> None:
    """Otherwise a worker with many suspects keeps all others waiting."""
    worker = Waiting(W1)
    assert worker.may_begin(0, said(W2, **WAITS), said(W3, **WAITS))
    assert worker.begins_after_ms(1_000, said(W2, **WAITS), said(W3, **WAITS)) == 3 * APART_MS, "but not for ever"
    assert not worker.may_begin(HOUR_MS, said(W2, started_at_ms=HOUR_MS, **{**WAITS, "state": TaskState.RUNNING}))
    assert worker.begins_after_ms(HOUR_MS + 1_000, said(W2, **WAITS), said(W3, **WAITS)) == 3 * APART_MS
    for other in (W2, W3):
        assert not worker.may_begin(HOUR_MS, said(other, started_at_ms=HOUR_MS, spark_deaths=2))
    assert worker.begins_after_ms(2 * HOUR_MS, said(W2, **WAITS), said(W3, **WAITS)) == 0


def test_a_quiet_time_before_an_earlier_death_of_the_server_does_not_count() -> None:
    """Both would begin at the same time, and the task of one would be blamed for that of the other."""
    worker = Waiting()
    assert not worker.may_begin(0, said(W1, **WAITS))
    assert not worker.may_begin(HOUR_MS, said(W1, **WAITS))
    assert worker.may_begin(HOUR_MS + APART_MS, said(W1, **WAITS))


# ---- what starts again without a trial


class Again:
    """A worker whose tasks start again, each time for another reason than the end of their server."""

    def __init__(self) -> None:
        self.servers = SharedServers(W2, tried_from=2)
        self.servers.have_come_again()

    def waits(self, at_ms: int, *there: TaskStatus, server: str = SERVER) -> bool:
        status = StatusSnapshot(tasks={each.task: each for each in there})
        return self.servers.let_others_go_first(server, status, now_ms=at_ms, wall_ms=at_ms)

    def waits_ms(self, at_ms: int, *there: TaskStatus) -> int:
        """How long it waits from now on, if nothing else is written."""
        return next(ms for ms in range(0, HOUR_MS, APART_MS) if not self.waits(at_ms + ms, *there))


def test_what_starts_again_lets_a_worker_go_first_that_waits_for_its_trial() -> None:
    """With pauses of a few seconds, the other one would never begin."""
    worker, other = Again(), Waiting(W1)
    again = said(W2, spark_deaths=1, state=TaskState.PENDING)
    assert worker.waits_ms(0, said(W1, **WAITS)) > other.begins_after_ms(0, again) + APART_MS, "but not for ever"
    worker.servers.have_come_again()
    assert worker.waits(HOUR_MS, said(W1, **WAITS)), "each time"


def test_it_starts_again_when_the_trial_of_the_other_one_is_over() -> None:
    worker, on_trial = Again(), said(W1, spark_deaths=2, started_at_ms=1_000)
    assert worker.waits(1_000, on_trial)
    assert worker.waits(TRIAL_MS, on_trial)
    assert not worker.waits(TRIAL_MS + 1_000, on_trial), "however long the trial of a batch task takes"
    assert not worker.waits(TRIAL_MS + 2_000, said(W1, **WAITS)), "that one has had its turn"


def test_it_waits_until_a_suspect_would_be_tried_beside_no_other_suspect() -> None:
    """Only then the other one begins."""
    worker, neighbour = Again(), said(W2, spark_deaths=1)
    assert worker.waits(TRIAL_MS - 1, said(W1, **WAITS), neighbour)
    assert worker.waits_ms(TRIAL_MS + FIRST_BATCH_MS, said(W1, **WAITS), neighbour) == 3 * APART_MS


def test_a_long_trial_of_a_task_beside_it_does_not_keep_it_waiting() -> None:
    """Until this is over, the other one does not begin."""
    neighbour = said(W3, kind=TaskKind.BATCH, spark_deaths=1, acquitted=3)
    assert Again().waits_ms(0, said(W1, **WAITS), neighbour) == TRIAL_MS


def test_it_waits_for_nobody_else() -> None:
    worker = Again()
    assert not worker.waits(0, server="")
    assert not worker.waits(0, said(W2, **WAITS)), "a task of its own worker"
    assert not worker.waits(0, said(W1, runs_on="sc://another", **WAITS))
    assert not worker.waits(0, said(W1, spark_deaths=1)), "no trial is wanted"
    assert not worker.waits(0, said(W1, retry_at_ms=HOUR_MS, **WAITS)), "it waits for something else"


def test_when_their_server_has_ended_what_starts_again_does_so_at_once() -> None:
    """No trial begins before all others have come back."""
    worker = Again()
    worker.servers.come_again_at_once()
    assert not worker.waits(0, said(W1, **WAITS))


# ---- its record


def test_a_record_says_on_which_server_its_task_runs_and_says_nothing_of_a_spark_of_its_own() -> None:
    there, own = said(W1), said(W1, runs_on="")
    assert there.to_json()["runs_on"] == SERVER
    assert "runs_on" not in own.to_json(), "records of those who share nothing are as they were"
    assert [TaskStatus.from_json(each.to_json()) for each in (there, own)] == [there, own]
