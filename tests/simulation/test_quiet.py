"""Groups without faults: what a join and a leave cost, for random numbers of tasks and workers."""

from __future__ import annotations

import random

import pytest
from simulation.seeds import fresh
from simulation.world import World

from airflow_provider.assignment.policy import Deferred
from airflow_provider.values.model import TaskId, Tasks

MAX_DELAY_MS = 20_000
SEEDS = fresh(8)


class Quiet:
    """A balanced group of W workers with N tasks, without planners, because the claims are about one kind. All clocks
    agree: the worker of a fast one would ask too early whether the delay is over.
    """

    def __init__(self, seed: int, *, fewest: int = 1) -> None:
        rng = random.Random(seed)
        self.workers, self.tasks = rng.randint(fewest, 8), rng.randint(0, 60)
        self.world = World(seed, policy=Deferred(max_delay_ms=MAX_DELAY_MS))
        self.world.configure({TaskId("abc"[index % 3], index) for index in range(self.tasks)})
        for number in range(1, self.workers + 1):
            self.world.start(f"w{number}")
            self.world.run_until(lambda: self.world.settled)
            self.world.run(2 * MAX_DELAY_MS)
        self.before = self.running()
        self.rounds = len(self.world.coordinator.rounds)

    def running(self) -> dict[str, Tasks]:
        return {worker: self.world.running(worker) for worker in self.world.live}

    def rest(self) -> None:
        """Let enough time pass for a session, a delay, and all rounds that may follow."""
        self.world.run(3 * MAX_DELAY_MS)
        assert self.world.settled
        self.world.check_at_rest()

    @property
    def rounds_since(self) -> int:
        return len(self.world.coordinator.rounds) - self.rounds

    @property
    def stopped_since(self) -> dict[str, Tasks]:
        """The tasks that the former workers no longer run."""
        after = self.running()
        return {worker: tasks - after[worker] for worker, tasks in self.before.items() if worker in after}


@pytest.fixture(params=SEEDS)
def quiet(request: pytest.FixtureRequest) -> Quiet:
    return Quiet(request.param)


def test_a_join_into_a_balanced_group_takes_two_rebalances_and_moves_one_share(quiet: Quiet) -> None:
    share = quiet.tasks // (quiet.workers + 1)
    quiet.world.start("new")
    quiet.rest()
    assert quiet.rounds_since == (2 if share else 1)
    stopped = quiet.stopped_since
    assert sum(map(len, stopped.values())) == share
    assert quiet.world.running("new") == frozenset().union(*stopped.values())


def test_a_join_waits_for_no_turn_of_a_heartbeat(quiet: Quiet) -> None:
    world, share = quiet.world, quiet.tasks // (quiet.workers + 1)

    def balanced() -> bool:
        record = world.record
        joined = record is not None and record.members.keys() == {*quiet.before, "new"}
        return joined and world.settled and len(world.running("new")) == share

    world.start("new")
    world.run_until(balanced, within_ms=300)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", ["leaves", "dies"])
def test_a_leave_moves_only_what_was_lost_after_the_delay(seed: int, way: str) -> None:
    quiet = Quiet(seed, fewest=2)
    world, leader = quiet.world, quiet.world.coordinator.leader
    gone = sorted(quiet.before)[0 if way == "leaves" else -1]
    lost = quiet.before[gone]
    world.leave(gone) if way == "leaves" else world.kill(gone)
    quiet.rest()
    assert not any(quiet.stopped_since.values()), "the remaining workers stop nothing"
    assert frozenset().union(*quiet.running().values()) == frozenset().union(*quiet.before.values())
    assert quiet.rounds_since == (2 if lost else 1), f"{gone} of {quiet.workers}, led by {leader}"


def test_a_bounce_within_the_session_moves_nothing_and_rebalances_nothing(quiet: Quiet) -> None:
    gone = max(quiet.before)
    quiet.world.kill(gone)
    quiet.world.run(4_000)
    quiet.world.start(gone)
    quiet.rest()
    assert quiet.running() == quiet.before
    assert quiet.rounds_since == 0


def test_a_bounce_within_the_delay_gives_back_exactly_what_was_lost(quiet: Quiet) -> None:
    gone = max(quiet.before)
    quiet.world.kill(gone)
    quiet.world.run(15_000)
    quiet.world.start(gone)
    quiet.rest()
    assert quiet.running() == quiet.before
