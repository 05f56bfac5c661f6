"""Hints at rebalances: whatever they are, they change when heartbeats are sent, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from simulation.network import Faults
from simulation.seeds import fresh
from simulation.world import World

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.assignment.policy import Deferred
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, TaskId, Tasks, WorkerId, planner_of

DELAY_MS = 20_000
SEEDS = fresh(1)
GONE = Absence(left=LeaveReason.STOPPED, returns_ms=0)


def settled(seed: int, hints: Faults) -> World:
    world = World(seed, policy=Deferred(max_delay_ms=DELAY_MS))
    world.network.faults = hints
    world.configure([planner_of("a"), *(TaskId("a", index) for index in range(12))])
    for worker in ("w1", "w2", "w3"):
        world.start(worker)
        rest(world)
    return world


def rest(world: World) -> None:
    """Let a session, a delay, and the rounds after them pass."""
    world.run(3 * DELAY_MS)
    assert world.settled, world.story()


def flood(world: World, *, every_ms: int) -> None:
    """From now on, all members read hints all the time."""
    for process in world.members:
        process.hear_hint()
    world.clock.after(every_ms, lambda: flood(world, every_ms=every_ms))


def test_a_flood_makes_each_member_heartbeat_every_100_ms_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    world = settled(5, Faults(latency_ms=(1, 1)))
    heard: defaultdict[MemberId, list[int]] = defaultdict(list)
    heartbeat = world.coordinator.heartbeat

    def hear(member_id: MemberId, instance_id: str | None, generation: GenerationId) -> KafkaErrorCode:
        heard[member_id].append(world.clock.now)
        return heartbeat(member_id, instance_id, generation)

    monkeypatch.setattr(world.coordinator, "heartbeat", hear)
    flood(world, every_ms=3)
    world.run(10_000)
    assert len(heard) == 3
    for times in heard.values():
        assert min(after - before for before, after in pairwise(times)) >= 100
        assert len(times) > 90, "they do heed hints"


def test_a_task_that_takes_long_to_stop_keeps_nobody_waiting_when_it_has() -> None:
    """By then, heartbeats have become rare again."""
    world = World(5, stop_ms=(1_800, 1_800))
    world.configure(TaskId("a", index) for index in range(4))
    world.start("w1")
    world.run(20_000)
    world.start("w2")
    world.run_until(lambda: len(world.running("w1")) == 2)
    world.run_until(lambda: world.settled and len(world.running("w2")) == 2, within_ms=150)


Story = list[tuple[dict[WorkerId, Tasks], dict[WorkerId, Tasks], dict[WorkerId, Tasks]]]


def story(seed: int, hints: Faults, *, false_ms: int | None = None) -> Story:
    """What members reported and were told in each round, while a worker joins, one leaves, and one dies."""
    world = settled(seed, hints)
    if false_ms is not None:
        flood(world, every_ms=false_ms)
    world.start("w4")
    rest(world)
    world.leave("w2", GONE)
    rest(world)
    world.kill("w3")
    rest(world)
    return [(dict(each.owned), dict(each.assigned), dict(each.revoked)) for each in world.rounds]


@pytest.mark.parametrize("seed", SEEDS)
def test_hints_that_are_lost_doubled_or_false_change_no_round(seed: int) -> None:
    as_they_are = story(seed, Faults())
    assert story(seed, Faults(lose_hint=1.0)) == as_they_are
    assert story(seed, Faults(lose_hint=0.5, double_hint=0.5)) == as_they_are
    assert story(seed, Faults(), false_ms=70) == as_they_are
