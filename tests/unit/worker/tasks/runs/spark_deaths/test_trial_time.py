"""How much of its trial a stream has stood: its time begins when it first moves."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.state.records import JobDefinition, TaskKind, TaskWork
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.liveness import UNMOVED, Liveness
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.trials import FIRST_BATCH_MS, TRIAL_MS, TrialTime, is_young

BEGAN_MS = 1_000
A_BATCH_LATER_MS = BEGAN_MS + 200_000


def running(liveness: Liveness = UNMOVED) -> TaskRun:
    task = TaskId("a", 0)
    work = TaskWork(definition=JobDefinition(name="a", entry_point="m:f"), task=task, config={}, fingerprint="f")
    kind = TaskKind.BATCH if liveness is UNMOVED else TaskKind.STREAMING
    return TaskRun(
        work=work,
        epoch=Epoch(1),
        kind=kind,
        state=RunState.STARTED,
        began_ms=BEGAN_MS,
        spark_deaths=2,
        liveness=liveness,
    )


QUERY = Liveness().begun(BEGAN_MS)


def table(*runs: TaskRun) -> RunTable:
    made = RunTable()
    made.update({run.task: run for run in runs})
    return made


def stood_ms(run: TaskRun, now_ms: int) -> int:
    return TrialTime().stood_ms(run, now_ms)


def test_a_stream_whose_first_batch_has_not_ended_has_stood_nothing() -> None:
    """A busy server may take minutes until that. Who ends it by this batch would be acquitted each time."""
    run = running(QUERY)
    assert stood_ms(run, A_BATCH_LATER_MS) == 0
    assert is_young(run, A_BATCH_LATER_MS)


def test_its_time_begins_with_the_end_of_its_first_batch() -> None:
    run = running(QUERY.moved(A_BATCH_LATER_MS, 5).moved(A_BATCH_LATER_MS + 30_000, 5))
    assert stood_ms(run, A_BATCH_LATER_MS + 40_000) == 40_000
    assert is_young(run, A_BATCH_LATER_MS + TRIAL_MS - 1)
    assert not is_young(run, A_BATCH_LATER_MS + TRIAL_MS)


def test_a_stream_that_never_moves_is_not_waited_for_without_end() -> None:
    """What it reads from may be gone."""
    run, late_ms = running(QUERY), BEGAN_MS + FIRST_BATCH_MS
    assert stood_ms(run, late_ms + 5) == 5
    assert not is_young(run, late_ms + TRIAL_MS)
    assert stood_ms(replaced(run, liveness=QUERY.moved(late_ms + 50)), late_ms + 60) == 60, "nothing is taken back"


def test_its_time_begins_again_while_others_beside_it_come_to_their_first_batch() -> None:
    """One that ends a busy Spark by its second batch would be acquitted before."""
    time, moved, second_ms = TrialTime(), running(QUERY.moved(BEGAN_MS + 10, 5)), BEGAN_MS + 90_000
    starts = replaced(running(QUERY), work=replace(moved.work, task=TaskId("a", 1)))
    time.look(table(moved, starts), second_ms)
    assert time.stood_ms(moved, second_ms) == 0
    time.look(table(moved, replaced(starts, liveness=QUERY.moved(second_ms, 5))), second_ms + 20)
    assert time.stood_ms(moved, second_ms + 20) == 20
    late_ms = BEGAN_MS + FIRST_BATCH_MS + TRIAL_MS
    begins = replaced(starts, began_ms=late_ms, liveness=Liveness().begun(late_ms))
    time.look(table(moved, begins), late_ms)
    assert time.stood_ms(moved, late_ms) == TRIAL_MS, "something may begin all the time"
    time.look(table(moved, starts), late_ms)
    assert time.stood_ms(moved, late_ms) > TRIAL_MS, "and something may never move"


def test_the_next_attempt_has_to_move_too() -> None:
    moved = QUERY.moved(A_BATCH_LATER_MS, 5)
    again = replaced(running(moved.ended().begun(BEGAN_MS + 500_000)), began_ms=BEGAN_MS + 500_000)
    assert stood_ms(again, BEGAN_MS + 600_000) == 0


def test_the_time_of_a_stream_whose_query_waits_for_its_start_has_not_begun() -> None:
    stream = replace(running().work.definition, kind=TaskKind.STREAMING)
    run = replaced(running(), work=replace(running().work, definition=stream), runs_on="sc://a")
    assert stood_ms(run, A_BATCH_LATER_MS) == 0
    assert stood_ms(run, BEGAN_MS + FIRST_BATCH_MS + 5) == 5


def test_the_time_of_a_task_without_a_query_begins_with_its_start() -> None:
    assert stood_ms(running(), BEGAN_MS + 7) == 7
    assert not is_young(running(), BEGAN_MS + TRIAL_MS)
