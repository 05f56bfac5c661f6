"""A group changes from one setting of the embedded protocol to another, one worker at a time, with tasks running.

The world's own rules check that nothing ever runs twice.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from simulation.older import OLDER
from simulation.world import World

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.assignment.policy import Deferred
from airflow_provider.values.model import ConnectProtocol, SubProtocol, TaskId, planner_of

WORKERS = ("w1", "w2", "w3")
TASKS = {
    *(TaskId("with-state", index) for index in range(5)),
    *(TaskId("without", index) for index in range(4)),
    planner_of("with-state"),
}
AWAY_MS = 2_000


def restarts_in_order(world: World, worker: str, protocol: ConnectProtocol) -> None:
    world.leave(worker, Absence(left=LeaveReason.RESTARTING, returns_ms=10_000))
    world.run_until(lambda: worker not in world.coordinator.members)
    world.run(AWAY_MS)
    world.start(worker, protocol=protocol)


def is_killed_and_back(world: World, worker: str, protocol: ConnectProtocol) -> None:
    """It returns within its session: the group only notices its new setting."""
    world.kill(worker)
    world.run(AWAY_MS)
    world.start(worker, protocol=protocol)


def is_lost_and_back(world: World, worker: str, protocol: ConnectProtocol) -> None:
    """It returns after the group has missed it."""
    world.kill(worker)
    world.run(15_000)
    world.start(worker, protocol=protocol)


@pytest.mark.parametrize("way", [restarts_in_order, is_killed_and_back, is_lost_and_back])
@pytest.mark.parametrize(("before", "after"), tuple(permutations((*ConnectProtocol, OLDER), 2)))
def test_nothing_is_lost_and_nothing_runs_twice(
    before: ConnectProtocol, after: ConnectProtocol, way: Callable[[World, str, ConnectProtocol], None]
) -> None:
    world = World(7, policy=Deferred(max_delay_ms=20_000), stop_ms=(1, 1_200), stateful=frozenset({"with-state"}))
    world.configure(TASKS)
    for worker in WORKERS:
        world.start(worker, protocol=before)
    world.run_until(lambda: world.settled)
    assert world.coordinator.protocol is before.offered[0]
    for number, worker in enumerate(WORKERS, start=1):
        way(world, worker, after)
        world.run_until(lambda: world.settled and len(world.coordinator.members) == len(WORKERS), within_ms=120_000)
        is_at_rest(world)
        assert world.coordinator.protocol is spoken(before, after, number)
        running = [task for each in world.members for task in each.running]
        assert sorted(running) == sorted(TASKS)


def is_at_rest(world: World) -> None:
    world.run_until(lambda: all(process.has_been_heard for process in world.everybody))
    world.check_at_rest()


def spoken(before: ConnectProtocol, after: ConnectProtocol, changed: int) -> SubProtocol:
    """The protocol that most prefer among those that all support."""
    common = set(before.offered) & set(after.offered) if changed < len(WORKERS) else set(after.offered)
    return max(common, key=lambda offer: offer.version)


def test_a_group_that_learns_goes_back_in_the_middle_of_it() -> None:
    """Lessons end, and the owners still run the tasks."""
    world = World(7, stop_ms=(1, 200), stateful=frozenset({"with-state"}), warm_ms=(30_000, 30_000))
    world.configure(TASKS)
    for worker in WORKERS[:2]:
        world.start(worker, protocol=ConnectProtocol.EXTENSIBLE)
        world.run_until(lambda: world.settled)
    world.start("w3", protocol=ConnectProtocol.EXTENSIBLE)
    world.run_until(lambda: bool(world.processes["w3"].tasks.learning))
    running = {worker: world.running(worker) for worker in WORKERS[:2]}
    world.start("w4", protocol=ConnectProtocol.SESSIONED)
    world.run_until(lambda: world.settled)
    assert world.coordinator.protocol is SubProtocol.SESSIONED
    assert not world.processes["w3"].tasks.learning
    is_at_rest(world)
    assert any(running[worker] & world.running(worker) for worker in running)


def test_all_streams_run_on_where_workers_differ_in_slots() -> None:
    """Each worker has as many as it has slots. A group that begins to learn them moves none."""
    world = World(3, stateful=frozenset({"with-state"}))
    world.configure({TaskId("with-state", index) for index in range(9)})
    slots = {"w1": 1, "w2": 2, "w3": 6}
    for worker, number in slots.items():
        world.slots = (number,)
        world.start(worker, protocol=ConnectProtocol.SESSIONED)
        world.run_until(lambda: world.settled)
    for worker, number in slots.items():
        world.slots = (number,)
        restarts_in_order(world, worker, ConnectProtocol.EXTENSIBLE)
        world.run_until(lambda: world.settled and len(world.coordinator.members) == len(slots))
        assert {each: len(world.running(each)) for each in slots} == slots
    assert world.coordinator.protocol is SubProtocol.COMPRESSED
    is_at_rest(world)
