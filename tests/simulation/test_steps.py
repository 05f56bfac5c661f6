"""Random histories with the incremental policy: steps keep their limits, and the group comes to rest in balance."""

from __future__ import annotations

import random

from simulation.designs.costs import in_balance
from simulation.seeds import fresh
from simulation.world import World

from airflow_provider.assignment.model import MoveReason
from airflow_provider.assignment.policy import Incremental
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import TaskId

MAX_MOVES, INTERVAL_MS, MAX_DELAY_MS = 2, 4_000, 20_000
IN_TWOS = Incremental(max_moves=MAX_MOVES, move_interval_ms=INTERVAL_MS, max_delay_ms=MAX_DELAY_MS)
WORKERS = [f"w{number}" for number in range(1, 7)]


def balancing_stops(record: ClassicRecord) -> int:
    return sum(len(move.tasks) for move in record.moves if move.reason is MoveReason.BALANCE and move.target is None)


def configure(world: World, rng: random.Random) -> None:
    jobs = {job: rng.randint(0, 8) for job in "abc"}
    world.configure({TaskId(job, index) for job, number in jobs.items() for index in range(-1, number)})


def play(seed: int) -> World:
    """Workers join, are killed and come back, or leave; jobs change; then the group is left alone."""
    world, rng = World(seed, policy=IN_TWOS, stop_ms=(1, 1_200)), random.Random(f"{seed}/policies")
    configure(world, rng)
    world.start("w1")
    for _ in range(20):
        world.run(rng.randint(0, 6_000))
        absent = sorted(set(WORKERS) - world.live.keys())
        present = sorted(world.live)
        action = rng.choice(["join", "join", "kill", "leave", "configure"])
        if action == "join" and absent:
            world.start(rng.choice(absent))
        elif action == "kill" and len(present) > 1:
            world.kill(rng.choice(present))
        elif action == "leave" and len(present) > 1:
            world.leave(rng.choice(present))
        elif action == "configure":
            configure(world, rng)
    return world


def test_steps_are_kept_and_it_comes_to_rest() -> None:
    steps = 0
    for seed in fresh(12):
        world = play(seed)
        world.run(40_000)
        if not world.live:  # two may have left at the same time
            world.start("w1")
        settled, within_ms = lambda world=world: world.settled, 3 * MAX_DELAY_MS + 40 * INTERVAL_MS
        world.run_until(settled, within_ms=within_ms)
        world.configure(world.jobs.written | {TaskId("last", 0)})  # a removal causes no rebalance
        world.run_until(settled, within_ms=within_ms)
        assert in_balance(world), world.story()
        given_at = float("-inf")
        for before, record in zip(world.records, world.records[1:], strict=False):
            taken = balancing_stops(record)
            steps += taken > 0
            assert taken <= MAX_MOVES, f"epoch {record.epoch}\n{world.story()}"
            if balancing_stops(before):
                given_at = record.at_ms
            if taken:
                assert record.at_ms >= given_at + INTERVAL_MS, f"epoch {record.epoch}\n{world.story()}"
                assert not record.waiting, f"epoch {record.epoch}\n{world.story()}"
    assert steps > 20, "there was something to pace"


def test_a_crowd_is_taken_in_step_by_step() -> None:
    world = World(7, policy=IN_TWOS)
    world.configure({TaskId("a", index) for index in range(12)})
    world.start("w1")
    world.run_until(lambda: world.settled)
    rounds = len(world.records)
    for worker in WORKERS[1:4]:
        world.start(worker)
    world.run_until(lambda: in_balance(world), within_ms=120_000)
    taken = [balancing_stops(record) for record in world.records[rounds:]]
    assert [stops for stops in taken if stops] == [2, 2, 2, 2, 1]


def test_the_interval_outlives_the_leader() -> None:
    world = World(3, policy=IN_TWOS)
    world.configure({TaskId("a", index) for index in range(12)})
    world.start("w1")
    world.run_until(lambda: world.settled)
    world.start("w2")
    world.run_until(lambda: world.record is not None and world.record.delay_ms > 0)
    assert world.record is not None
    over_ms = world.record.deadline_ms
    world.leave("w1")
    world.start("w3")
    world.start("w4")
    world.run_until(lambda: in_balance(world), within_ms=120_000)
    after = [record for record in world.records if record.leader != "w1" and balancing_stops(record)]
    assert all(record.at_ms >= over_ms for record in after)
