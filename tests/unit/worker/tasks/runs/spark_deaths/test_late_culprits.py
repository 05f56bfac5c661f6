"""Whenever tasks end their Spark, or their process, no other task fails for it; and who does so early is found."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Final

import pytest
from doomed_group import Doomed, Ends
from how_many import examples

from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import TaskId

HOUR_MS: Final = 3_600_000
LATE: Final = (60_500, 90_000, 119_000)
GROUPS: Final = ((2, 1), (3, 1), (5, 2))


def most_deaths(tasks: int, ends: Ends) -> int:
    """Twice with all tasks together, then as often as halves the tasks of a worker, and twice alone. What ran beside it
    on one worker may be there again on its next one.
    """
    return 4 + math.ceil(math.log2(tasks)) + (ends is Ends.LOST)


def of(index: int) -> TaskId:
    return TaskId("a", index)


@pytest.mark.parametrize("ends", Ends)
@pytest.mark.parametrize(("tasks", "workers"), GROUPS)
@pytest.mark.parametrize("after_ms", LATE)
def test_nobody_fails_for_one_that_ends_it_late(after_ms: int, tasks: int, workers: int, ends: Ends) -> None:
    """It is acquitted each time, and ends it during the trials of the others, which begin when it has run for long."""
    for culprit in {of(0), of(tasks - 1)}:
        group = Doomed(tasks, workers, {}, ends=ends)
        for _ in range(2):
            group.run(20_000)
            for process in list(group.processes.values()):
                group.end(process)
        group.culprits[culprit] = (after_ms, after_ms)
        group.run(HOUR_MS)
        assert group.failed <= {culprit}


@pytest.mark.parametrize("ends", Ends)
@pytest.mark.parametrize("seed", range(examples(8)))
def test_nobody_fails_for_what_others_do_at_any_time(seed: int, ends: Ends) -> None:
    """One or two do so early, late, or now and then. Some tasks take long to stop, or to notice that Spark ended."""
    rng = random.Random(seed)
    tasks, workers = rng.choice([(2, 1), (3, 1), (4, 1), (4, 2), (6, 3)])
    times = [(after_ms, after_ms) for after_ms in (1_000, 30_000, *LATE, 150_000, 180_000)]
    everybody = [of(index) for index in range(tasks)]
    group = Doomed(
        tasks,
        workers,
        {},
        ends=ends,
        seed=seed,
        kind=rng.choice(list(TaskKind)),
        slots=rng.choice([None, max(1, tasks // 2)]),
        stops_ms={task: rng.choice([3_000, 70_000, 200_000]) for task in everybody if rng.random() < 0.2},
        hangs_ms={task: rng.choice([5_000, 70_000, 200_000]) for task in everybody if rng.random() < 0.2},
    )
    for _ in range(rng.randrange(3)):
        group.run(rng.choice([5_000, 20_000, 50_000]))
        for process in list(group.processes.values()):
            group.end(process)
    guilty = rng.sample(everybody, rng.randint(1, min(2, tasks - 1)))
    group.culprits.update({task: rng.choice([*times, (1_000, 180_000), (60_000, 130_000)]) for task in guilty})
    group.run(HOUR_MS)
    assert group.failed <= set(guilty)


@pytest.mark.parametrize("ends", Ends)
@pytest.mark.parametrize(("tasks", "workers"), [(1, 1), (3, 1), (8, 1), (6, 2)])
@pytest.mark.parametrize("after_ms", [0, 45_000, 59_000])
def test_who_ends_it_within_the_time_of_a_trial_is_found(after_ms: int, tasks: int, workers: int, ends: Ends) -> None:
    for culprit in {of(0), of(tasks - 1)}:
        group = Doomed(tasks, workers, {culprit: (after_ms, after_ms)}, ends=ends)
        group.run(4 * HOUR_MS, until=partial(bool, group.failed))
        assert group.failed == {culprit}
        assert group.deaths <= most_deaths(tasks, ends)
        group.run(30 * 60_000)
        assert group.running == {*group.tasks} - {culprit}


@pytest.mark.parametrize("hangs_ms", [70_000, 600_000])
@pytest.mark.parametrize("stops_ms", [500, 600_000])
def test_who_hangs_long_after_it_has_ended_spark_is_found(hangs_ms: int, stops_ms: int) -> None:
    """Meanwhile others run, and take long to stop: its trials wait for twice as long each time."""
    group = Doomed(
        3, 1, {of(1): (1_000, 1_000)}, ends=Ends.SPARK, hangs_ms={of(1): hangs_ms}, stops_ms={of(0): stops_ms}
    )
    group.run(12 * HOUR_MS, until=lambda: bool(group.failed))
    assert group.failed == {of(1)}
    assert group.deaths <= most_deaths(3, Ends.SPARK) + (3 if stops_ms > 500 else 0)


@pytest.mark.parametrize("ends", Ends)
def test_nobody_fails_for_a_warm_up(ends: Ends) -> None:
    learned = of(1)
    group = Doomed(4, 2, {}, ends=ends, warm_ups={learned: 20_000})
    for minute in range(30):
        group.run(50_000)
        learners = [each for each in group.processes.values() if learned not in each.machine.runs]
        for process in learners[:1]:
            group.learn(process.worker, learned)
            if minute == 0:
                group.run(5_000)
                group.end(process)
    assert group.deaths > 4
    assert not group.failed


@pytest.mark.parametrize("ends", Ends)
def test_all_come_back_when_it_is_over(ends: Ends) -> None:
    group = Doomed(5, 2, {of(0): (61_000, 130_000), of(3): (1_000, 180_000)}, ends=ends, stops_ms={of(1): 300_000})
    group.run(HOUR_MS)
    group.culprits.clear()
    group.run(HOUR_MS)
    assert group.running == {*group.tasks} - group.failed
