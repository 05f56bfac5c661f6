"""A history can be replayed from its seed and from its actions; a failing one is cut down to the necessary actions."""

from __future__ import annotations

import pytest
from simulation.actions import Kill
from simulation.histories import PLANS, play
from simulation.invariants import BrokenError
from simulation.run import report
from simulation.shrink import ddmin, shrink
from simulation.world import World

EVERYTHING = 1_000_000


@pytest.mark.parametrize("plan", ["wild", "mixed"])
def test_a_seed_plays_the_same_again(plan: str) -> None:
    first, again = play(7, PLANS[plan]), play(7, PLANS[plan])
    assert first.actions == again.actions
    assert first.world.story(EVERYTHING) == again.world.story(EVERYTHING)


def test_its_actions_play_the_same_without_the_author() -> None:
    first = play(7, PLANS["wild"])
    again = play(7, PLANS["wild"], first.actions)
    assert first.world.story(EVERYTHING) == again.world.story(EVERYTHING)


def test_cutting_down_keeps_all_that_the_failure_needs() -> None:
    assert ddmin(range(100), lambda items: {3, 50, 97} <= set(items)) == [3, 50, 97]


@pytest.fixture
def nobody_may_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that histories break."""

    def refuse(action: Kill, world: World, process: object) -> bool:
        raise BrokenError("nobody_is_killed", action.worker)

    monkeypatch.setattr(Kill, "befall", refuse)


@pytest.mark.usefixtures("nobody_may_be_killed")
def test_a_failure_is_cut_down_and_its_report_says_how_to_play_it_again() -> None:
    seed = next(seed for seed in range(50) if play(seed, PLANS["calm"]).failure)
    told = play(seed, PLANS["calm"])
    short = shrink(lambda actions: play(seed, PLANS["calm"], actions), told)
    assert short.kind == told.kind == "nobody_is_killed"
    assert len(short.actions) == 2, "a worker must be started before it is killed"
    words = report("calm", seed)
    assert "BrokenError: broken: nobody_is_killed" in words
    assert f"make simulate PLAN=calm SEED={seed}" in words
