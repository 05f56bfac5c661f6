"""Workers with fewer slots than tasks: a waiting task starts as soon as any worker has a free slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from simulation.world import SETTINGS, World

from airflow_provider.values.model import ConnectProtocol, TaskId

SLOTS = 2
WORKERS = ("w1", "w2", "w3")


def crowded(tasks: int = 18) -> World:
    world = World(3, slots=(SLOTS,))
    world.configure({TaskId("a", index) for index in range(tasks)})
    for worker in WORKERS:
        world.start(worker)
        world.run_until(lambda: world.settled)
    world.run(10_000)
    assert world.settled
    return world


def finish_all_of(worker: str, world: World) -> None:
    """Finish tasks until nothing is left to start there, unless it is assigned more."""
    for _ in range(3):
        for task in world.running(worker):
            world.finish(task)
        world.run(50)


def test_no_more_run_than_there_are_slots() -> None:
    world = crowded()
    assert [len(world.running(worker)) for worker in WORKERS] == [SLOTS] * 3


def test_the_next_starts_when_one_has_ended_without_a_rebalance() -> None:
    world = crowded()
    rounds, before = len(world.records), world.running("w2")
    world.finish(min(before))
    world.run(1_000)
    assert len(world.running("w2") - before) == 1
    assert len(world.records) == rounds


def test_a_free_slot_is_filled_with_what_waits_elsewhere() -> None:
    world = crowded()
    others = {worker: world.running(worker) for worker in WORKERS[1:]}
    finish_all_of("w1", world)
    world.run(10_000)
    assert world.settled, world.story()
    assert len(world.running("w1")) == SLOTS
    assert {worker: world.running(worker) for worker in WORKERS[1:]} == others, "nothing that ran was stopped"


def test_a_free_slot_is_filled_although_an_even_spread_would_need_a_stop() -> None:
    """The remaining worker has three tasks: two run and stay, the third goes to a worker without tasks."""
    world = crowded(9)
    stays = world.running("w1")
    for worker in WORKERS[1:]:
        finish_all_of(worker, world)
    world.run(10_000)
    assert world.settled, world.story()
    assert world.running("w1") == stays
    assert sorted(len(world.running(worker)) for worker in WORKERS[1:]) == [0, 1]


def learners(workers: int, *more: Mapping[str, int]) -> World:
    """A group in which tasks of s have state.

    :param more: the numbers of tasks of jobs, configured one after the other
    """
    settings = replace(SETTINGS, protocol=ConnectProtocol.EXTENSIBLE)
    world = World(3, slots=(SLOTS,), settings=settings, stateful=frozenset("s"))
    for number in range(1, workers + 1):
        world.start(f"w{number}")
    for jobs in more:
        wanted = {TaskId(job, index) for job, number in jobs.items() for index in range(number)}
        world.configure(world.jobs.written | wanted)
        world.run_until(lambda: world.settled)
    return world


def with_state(workers: int, tasks: Sequence[int]) -> World:
    """A group in which a task with state waits at w1, and one without has ended at the last worker.

    :param tasks: how many there were without state, and with
    """
    b, s = tasks
    world = learners(workers, {"b": b}, {"s": s})
    (waits,) = world.processes["w1"].tasks.held - world.running("w1")
    assert waits.job == "s"
    (ends,) = (task for task in world.running(WORKERS[workers - 1]) if task.job == "b")
    world.finish(ends)
    world.run(10_000)
    assert world.settled, world.story()
    return world


def test_a_free_slot_is_filled_with_a_task_with_state_of_which_another_worker_has_more() -> None:
    world = with_state(2, (2, 3))
    assert [len(world.running(worker)) for worker in WORKERS[:2]] == [SLOTS, SLOTS]


def test_a_task_with_state_waits_for_a_slot_if_it_would_be_one_too_many_elsewhere() -> None:
    """Each worker has a task of s, and what runs is not stopped for a free slot. The next round spreads the others."""
    world = with_state(3, (4, 3))
    assert [len(world.running(worker)) for worker in WORKERS] == [SLOTS, SLOTS, SLOTS - 1]
    world.configure(world.jobs.written | {TaskId("b", 4)})
    world.run(10_000)
    assert world.settled, world.story()
    assert [len(world.running(worker)) for worker in WORKERS] == [SLOTS] * 3


def test_a_free_slot_is_filled_with_a_task_with_state_that_waits_although_another_worker_has_as_many() -> None:
    """Of s, w1 runs two tasks, w2 runs one and has one that waits, and the only one of w3 ends: w2 gives its own up."""
    world = learners(4, {"s": 5}, {"b": 4}, {"s": 6})
    runs = world.running("w1")
    (waits,) = world.processes["w2"].tasks.held - world.running("w2")
    assert [waits.job, *(task.job for task in runs)] == ["s"] * 3
    (ends,) = (task for task in world.running("w3") if task.job == "s")
    world.finish(ends)
    world.run(10_000)
    assert world.settled, world.story()
    assert world.running("w1") == runs
    assert waits in world.running("w3")


def test_a_task_that_waits_behind_tasks_with_state_starts_when_the_worker_with_a_free_slot_has_learned_one() -> None:
    """w1 runs two tasks of s, and one of b waits there. When the only task of s of w2 has ended, w2 is to have one."""
    world = learners(4, {"s": 5}, {"b": 4})
    (waits,) = world.processes["w1"].tasks.held - world.running("w1")
    assert waits.job == "b"
    (ends,) = (task for task in world.running("w2") if task.job == "s")
    world.finish(ends)
    world.run(30_000)
    assert world.settled, world.story()
    assert waits in world.running("w1")


def test_all_tasks_finish() -> None:
    world = crowded()
    while world.configured:
        for worker in WORKERS:
            for task in world.running(worker):
                world.finish(task)
        world.run(2_000)
    assert world.settled
    assert world.clock.now < 120_000
