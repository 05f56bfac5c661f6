"""A task that ends the process of its worker, or its Spark, again and again is found, and fails alone."""

from __future__ import annotations

import pytest
from simulation.culprits import MAX_DEATHS, most_deaths
from simulation.world import World

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import ConnectProtocol, TaskId, WorkerId, planner_of

HOUR_MS = 3_600_000
SOON_BACK, LOST = (100, 5_000), (60_000, 90_000)
"""Within its session, a worker has its tasks again; after that, others may have them."""
ONLY_SPARK = None


def group(tasks: int, workers: int, *, seed: int, back_ms: tuple[int, int] | None) -> World:
    """:param back_ms: None: the culprits end only Spark"""
    settings = MemberSettings(group_id="g", worker=WorkerId("template"), protocol=ConnectProtocol.SESSIONED)
    world = World(seed, policy=Deferred(max_delay_ms=20_000), settings=settings)
    world.culprits.max_deaths, world.culprits.end_spark = MAX_DEATHS, back_ms is None
    world.culprits.back_ms = back_ms or (0, 0)
    world.configure({TaskId("a", index) for index in range(tasks)})
    for number in range(workers):
        world.start(f"w{number}")
    return world


def failed(world: World) -> set[TaskId]:
    return {task for task, word in world.status.tasks.items() if word.status.state is TaskState.FAILED}


def running(world: World) -> set[TaskId]:
    return {task for worker in world.live for task in world.running(worker)}


@pytest.mark.parametrize("back_ms", [SOON_BACK, LOST, ONLY_SPARK], ids=["soon back", "lost", "only Spark"])
@pytest.mark.parametrize(("tasks", "workers"), [(12, 2), (40, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_the_culprit_is_found_and_nobody_else_fails(
    tasks: int, workers: int, back_ms: tuple[int, int] | None, seed: int
) -> None:
    world = group(tasks, workers, seed=seed, back_ms=back_ms)
    everybody = {TaskId("a", index) for index in range(tasks)}
    culprit = TaskId("a", seed * 7 % tasks)
    world.culprits.after_ms[culprit] = (0, 700, 20_000)[seed]
    world.run_until(lambda: bool(failed(world)), within_ms=4 * HOUR_MS)
    assert failed(world) == {culprit}
    assert world.culprits.deaths <= most_deaths(tasks, workers)
    world.run_until(lambda: running(world) == everybody - {culprit}, within_ms=HOUR_MS)
    world.run(HOUR_MS)
    assert failed(world) == {culprit}
    assert not any(word.status.deaths for task, word in world.status.tasks.items() if task != culprit and word.running)


@pytest.mark.parametrize("back_ms", [SOON_BACK, LOST, ONLY_SPARK], ids=["soon back", "lost", "only Spark"])
def test_nobody_else_fails_for_one_that_ends_it_late(back_ms: tuple[int, int] | None) -> None:
    """It is acquitted each time, and ends it during the trials of the others, which begin when it has run for long. At
    other times, and in other groups: ``tests/unit/worker/tasks/runs/spark_deaths/test_late_culprits.py``.
    """
    world = group(5, 2, seed=1, back_ms=back_ms)
    for _ in range(2):
        world.run(20_000)
        for process in list(world.members):
            process.tasks.spark.end() if back_ms is None else world.bounce(process.worker, 1_000)
    culprit = TaskId("a", 0)
    world.culprits.after_ms[culprit] = 90_000
    world.run_until(lambda: bool(failed(world)) or world.culprits.deaths > 20, within_ms=8 * HOUR_MS)
    assert failed(world) <= {culprit}


@pytest.mark.parametrize("back_ms", [SOON_BACK, ONLY_SPARK], ids=["the process", "only Spark"])
def test_two_culprits_are_found(back_ms: tuple[int, int] | None) -> None:
    world = group(12, 2, seed=1, back_ms=back_ms)
    culprits = {TaskId("a", 3), TaskId("a", 8)}
    world.culprits.after_ms.update(dict.fromkeys(culprits, 500))
    world.run_until(lambda: failed(world) == culprits, within_ms=8 * HOUR_MS)
    assert world.culprits.deaths <= 2 * most_deaths(12, 2)


@pytest.mark.parametrize("back_ms", [SOON_BACK, ONLY_SPARK], ids=["the process", "only Spark"])
def test_a_planner_is_found_like_a_task(back_ms: tuple[int, int] | None) -> None:
    world = group(3, 1, seed=1, back_ms=back_ms)
    planner = planner_of("p")
    world.configure({*(TaskId("a", index) for index in range(3)), planner})
    world.culprits.after_ms[planner] = 100
    world.run_until(lambda: failed(world) == {planner}, within_ms=HOUR_MS)
    assert world.culprits.deaths <= most_deaths(4, 1)


def test_a_planner_that_waits_for_its_trial_is_at_large() -> None:
    """It may fail long after the others have come to rest, and no round follows when a planner has ended."""
    world = group(3, 1, seed=1, back_ms=ONLY_SPARK)
    tasks, planner = {TaskId("a", index) for index in range(3)}, planner_of("p")
    world.configure({*tasks, planner})
    world.culprits.after_ms[planner] = 100
    world.run_until(lambda: world.culprits.deaths > 0 and world.settled and running(world) == tasks, within_ms=HOUR_MS)
    assert world.culprits.at_large
    world.run_until(lambda: failed(world) == {planner}, within_ms=HOUR_MS)
    assert not world.culprits.at_large


def test_people_who_kill_processes_fail_nobody() -> None:
    """Each kill comes in the middle of a trial."""
    world = group(8, 1, seed=2, back_ms=SOON_BACK)
    for _ in range(40):
        world.run(world.processes["w0"].rng.randint(60_000, 400_000))
        world.bounce("w0", 1_000)
        world.run(2_000)
    world.run(2 * HOUR_MS)
    assert not failed(world)
    assert len(running(world)) == 8


def test_a_spark_that_ends_now_and_then_fails_nobody_and_starts_again_without_a_round() -> None:
    world = group(8, 2, seed=2, back_ms=ONLY_SPARK)
    world.run_until(lambda: len(running(world)) == 8)
    rounds = len(world.coordinator.rounds)
    for number in range(8):
        world.run(world.processes["w0"].rng.randint(400_000, 900_000))
        assert world.processes[f"w{number % 2}"].tasks.spark.end()
    world.run(10_000)
    assert not failed(world)
    assert len(running(world)) == 8
    assert len(world.coordinator.rounds) == rounds
