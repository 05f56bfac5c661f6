"""The coordinator forgets the group, or moves: epochs still grow, and nothing is mixed up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation.world import SETTINGS, World

from airflow_provider.values.model import ConnectProtocol, TaskId, planner_of

TASKS = [planner_of("a"), *(TaskId("a", index) for index in range(4))]


@pytest.fixture
def world() -> World:
    return settled_group(World(5))


def settled_group(world: World) -> World:
    world.configure(TASKS)
    for worker in ("w1", "w2", "w3"):
        world.start(worker)
        world.run(5_000)
    world.run(10_000)
    assert world.settled
    return world


def die_and_be_forgotten(world: World) -> None:
    """The workers are killed: the coordinator must notice that first."""
    for worker in ("w1", "w2", "w3"):
        world.kill(worker)
    world.run(40_000)
    world.coordinator.forget()


def epochs(world: World) -> list[int]:
    return [record.epoch for record in world.records]


def test_deleted_and_formed_again(world: World) -> None:
    before = epochs(world)
    for worker in ("w1", "w2", "w3"):
        world.leave(worker)
    world.run(20_000)
    assert not world.coordinator.members
    world.coordinator.forget()
    for worker in ("w3", "w1"):
        world.start(worker)
    world.run_until(lambda: world.settled, within_ms=30_000)

    assert world.coordinator.generation < max(before)
    after = epochs(world)[len(before) :]
    assert after == sorted(set(after))
    assert after[0] > max(before)


def test_forgotten_again_and_again(world: World) -> None:
    for _ in range(4):
        die_and_be_forgotten(world)
        for worker in ("w1", "w2", "w3"):
            world.start(worker)
            world.run(200)
        world.run_until(lambda: world.settled, within_ms=30_000)
    seen = epochs(world)
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("protocol", [ConnectProtocol.SESSIONED, ConnectProtocol.EXTENSIBLE])
def test_a_round_is_above_those_that_its_leader_was_in_though_no_record_tells(protocol: ConnectProtocol) -> None:
    """All records since the coordinator began to count again are stuck. When it has passed the generation of the last
    record, that looks as if it had never begun again; but the leader has been in later rounds.
    """
    world = settled_group(World(5, settings=replace(SETTINGS, protocol=protocol)))
    assert world.record is not None
    generation = world.record.generation
    die_and_be_forgotten(world)
    for worker in ("w1", "w2", "w3"):
        world.start(worker).hush(600_000)
        world.run(5_000)
    assert world.coordinator.generation <= generation
    assert world.coordinator.leader == "w1"
    world.kill("w1")
    world.run_until(lambda: world.coordinator.generation > generation, within_ms=60_000)
    world.run(1_000)
    assert world.rounds[-1].seen.generation > generation
    seen = [each.record.epoch for each in world.rounds]
    assert seen == sorted(set(seen))


def test_an_epoch_that_the_worker_reports_is_that_of_the_record(world: World) -> None:
    die_and_be_forgotten(world)
    for worker in ("w1", "w2", "w3"):
        world.start(worker)
    world.run_until(lambda: world.settled, within_ms=30_000)
    assert world.record is not None
    assert {process.state.epoch for process in world.members} == {world.record.epoch}


def test_no_member_notices_when_the_coordinator_of_a_stable_group_moves(world: World) -> None:
    rounds, had = len(world.coordinator.rounds), {worker: world.running(worker) for worker in world.live}
    world.coordinator.move()
    world.run(30_000)
    assert len(world.coordinator.rounds) == rounds
    assert {worker: world.running(worker) for worker in world.live} == had


@pytest.mark.parametrize("after_ms", [1, 3, 5, 40, 60])
def test_the_group_settles_when_the_coordinator_moves_in_the_middle_of_a_rebalance(world: World, after_ms: int) -> None:
    world.start("w4")
    world.run(after_ms)
    world.coordinator.move()
    world.run_until(lambda: world.settled and "w4" in world.coordinator.members, within_ms=30_000)


@pytest.mark.parametrize("after_ms", range(0, SETTINGS.heartbeat_interval_ms, 250))
def test_an_outage_shorter_than_the_lease_stops_nothing(world: World, after_ms: int) -> None:
    """Wherever it begins between two heartbeats, the one that is lost is given up in time for another."""
    world.run(after_ms)
    began = world.clock.now
    world.coordinator_away = True
    world.run(4_000)
    world.coordinator_away = False
    world.run(30_000)
    assert world.settled
    assert all(started < began for process in world.members for started in process.running.values())


def test_a_longer_outage_stops_everything_until_the_coordinator_is_back() -> None:
    """The coordinator has expelled all members. It waits a while for more members of an empty group (3 s by default),
    so they come back in one round and none is missing; without that wait, each would seem to bounce.
    """
    world = settled_group(World(5, initial_delay_ms=3_000))
    world.coordinator_away = True
    world.run(20_000)
    assert not any(process.running for process in world.members)
    assert not world.coordinator.members
    world.coordinator_away = False
    world.run_until(lambda: world.settled, within_ms=15_000)
