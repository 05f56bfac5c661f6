"""A worker is missed, and what its record says of its absence can only be read later."""

from __future__ import annotations

import pytest
from simulation.declarative.world import STARTS_WITHIN_MS, World

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.declarative.assignors.remembered import decode_remembered
from airflow_provider.values.model import MemberId

MAX_DELAY_MS = 60_000
LONG_MS = 30_000


class Group:
    """Three workers with nine tasks. The last one dies, and a target that does not know why is under way."""

    def __init__(self) -> None:
        self.world = World(5, policy=Deferred(max_delay_ms=MAX_DELAY_MS))
        self.world.jobs.set_job("a", 9)
        self.world.jobs_changed()
        workers = [self.world.start(name) for name in ("w1", "w2", "w3")]
        self.rest()
        self.lost = workers[-1]
        self.world.kill(self.lost)
        missed = self.world.checks.group.epoch + 1
        assert self.world.comes_to(lambda: missed in self.world.checks.read, within_ms=LONG_MS)
        assert self.world.checks.group.target.epoch < missed

    def rest(self) -> None:
        assert self.world.comes_to(lambda: not self.world.why_not_at_rest(), within_ms=LONG_MS), (
            self.world.why_not_at_rest()
        )

    def comes_to_target(self) -> None:
        """A target of the group's present epoch is installed."""
        group = self.world.checks.group
        assert self.world.comes_to(lambda: group.target.epoch >= group.epoch, within_ms=LONG_MS)

    def wait_of(self, member: MemberId) -> int:
        """How many milliseconds its tasks still wait."""
        waits = self.world.checks.group.target.delayed[member]
        return decode_remembered(waits.metadata).until_ms - self.world.wall


@pytest.fixture
def group() -> Group:
    return Group()


def test_what_it_writes_while_a_target_is_under_way_is_not_expected_of_that_target(group: Group) -> None:
    group.world.hold_back(group.lost)
    group.comes_to_target()
    assert group.wait_of(group.lost.member_id) > STARTS_WITHIN_MS


def test_the_next_target_waits_no_longer_than_it_says(group: Group) -> None:
    group.world.hold_back(group.lost)
    group.comes_to_target()
    group.world.start("w4")
    group.world.run(1_000)
    group.comes_to_target()
    assert 0 < group.wait_of(group.lost.member_id) <= STARTS_WITHIN_MS
    group.rest()
