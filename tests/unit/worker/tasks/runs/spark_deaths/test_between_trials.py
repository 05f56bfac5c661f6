"""What needs no trial, and has met something else, starts again between the trials of others."""

from __future__ import annotations

import math

import pytest
from doomed_group import Doomed, Ends, Process
from suspected_runs import knowing, run_of, running, table, tasks

from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.spark_deaths.between_trials import TURN_MS
from airflow_provider.worker.tasks.runs.spark_deaths.suspects import Turn
from airflow_provider.worker.tasks.runs.spark_deaths.trials import TRIAL_MS

HOUR_MS = 3_600_000
MANY = 8


class Worker:
    """Two tasks wait for their trials, and two others run."""

    def __init__(self) -> None:
        self.runs = table(run_of(0, deaths=2), run_of(1, deaths=2), running(2, 0, 0), running(3, 0, 0))
        self.suspects = knowing(self.runs)
        self.now = HOUR_MS

    def turn(self, *, slots: int = 9) -> Turn:
        return self.suspects.turn(self.runs, slots=slots, now_ms=self.now)

    def starts(self, turn: Turn) -> None:
        for task in turn.only or ():
            self.suspects.started(self.runs[task], turn, now_ms=self.now)
            self.runs[task] = running(task.index, self.runs[task].deaths, self.now)
        self.suspects.begun(turn, self.runs)

    def fails(self, index: int, *, pause_ms: int = 0) -> None:
        self.runs[TaskId("a", index)] = run_of(index, not_before_ms=self.now + pause_ms)
        self.suspects.between.waits_again(TaskId("a", index))


def again(*indexes: int, blocked: tuple[int, ...] = (1,)) -> Turn:
    return Turn(tasks(*blocked), tasks(*indexes), on_trial=False)


def test_it_starts_again_between_two_trials() -> None:
    worker = Worker()
    worker.starts(worker.turn())
    worker.fails(2)
    assert worker.turn() == Turn(tasks(1), tasks()), "not beside the first one"
    worker.now += TRIAL_MS
    assert worker.turn() == again(2)
    worker.starts(again(2))
    assert worker.turn().only == tasks(), "the second trial begins when it has run for as long as a trial"
    worker.now += TRIAL_MS
    assert worker.turn() == Turn(tasks(), tasks(1))


def test_what_fails_again_and_again_puts_off_each_trial_once() -> None:
    worker = Worker()
    worker.starts(worker.turn())
    worker.now += TRIAL_MS
    worker.fails(2)
    worker.starts(again(2))
    worker.now += TURN_MS
    worker.fails(2)
    assert worker.turn() == Turn(tasks(), tasks(1))


def test_those_that_fail_together_start_again_together_though_one_is_ready_a_moment_later() -> None:
    worker = Worker()
    worker.starts(worker.turn())
    worker.now += TRIAL_MS
    worker.fails(2)
    worker.fails(3, pause_ms=TURN_MS - 1)
    worker.starts(again(2))
    worker.now += TURN_MS - 1
    assert worker.turn() == again(3)


def test_before_the_first_trial_it_starts_again_too() -> None:
    """What comes back after an end of Spark has to run for as long as a trial anyway."""
    worker = Worker()
    worker.fails(2)
    assert worker.turn() == again(2, blocked=(0, 1))


def test_what_has_not_run_here_lately_and_what_has_no_slot_put_off_no_trial() -> None:
    worker = Worker()
    worker.runs[TaskId("a", 4)] = run_of(4)
    assert worker.turn().only == tasks(0)
    worker.starts(worker.turn())
    worker.now += TRIAL_MS
    worker.fails(2)
    assert worker.turn(slots=2) == Turn(), "nor does anything wait for a trial without a slot"
    assert worker.turn(slots=3) == again(2)


# ---- in a group


def has_waited_ms(process: Process, task: TaskId, now_ms: int) -> int:
    run = process.machine.runs[task]
    waits = run.state is RunState.WAITING and run.not_before_ms <= now_ms
    return now_ms - run.not_before_ms if waits else 0


@pytest.mark.parametrize("faults_after_ms", [1_000, 20_000, 50_000])
def test_it_never_waits_for_more_than_a_trial_and_a_turn(faults_after_ms: int) -> None:
    failing = {TaskId("a", MANY - 1): faults_after_ms, TaskId("a", MANY - 2): faults_after_ms}
    group = Doomed(MANY, 1, {}, ends=Ends.SPARK, faults=failing)
    (process,) = group.processes.values()
    for _ in range(2):
        group.run(HOUR_MS, until=lambda: len(group.running) == MANY)
        group.run(HOUR_MS, until=lambda: not failing.keys() & group.running)
        group.end(process)
        group.run(500)
    longest_ms = 0
    while any(run.deaths for run in process.machine.runs.values()):
        group.run(1_000)
        longest_ms = max(longest_ms, *(has_waited_ms(process, task, group.now) for task in failing))
        assert group.now < HOUR_MS, "the trials come to an end"
    assert longest_ms <= 2 * TRIAL_MS + 2 * TURN_MS


@pytest.mark.parametrize("ends", Ends)
@pytest.mark.parametrize("after_ms", [0, 45_000])
def test_who_is_to_blame_is_found_as_soon_beside_what_fails_again_and_again(after_ms: int, ends: Ends) -> None:
    found = TaskId("a", 2)
    failing = {TaskId("a", index): 1_000 * index * index for index in (3, 4, 5)}
    group = Doomed(MANY, 1, {found: (after_ms, after_ms)}, ends=ends, faults=failing)
    group.run(4 * HOUR_MS, until=lambda: bool(group.failed))
    assert group.failed == {found}
    assert group.deaths <= 4 + math.ceil(math.log2(MANY)) + (ends is Ends.LOST)
