"""Seeded random histories of declarative groups: whatever happens, every rule of ``declarative.invariants`` holds at
every step, and after the faults the group converges. Each run has seeds of its own.

For many more: ``make simulate PLAN=declarative-everything SEEDS=n``, ``make simulate-long``.
"""

from __future__ import annotations

import pytest
from simulation.declarative.histories import PLANS, play
from simulation.run import Tally, play_batch, report
from simulation.seeds import fresh

SEEDS = 3
LEAST_STEPS = 50


@pytest.mark.parametrize("plan", PLANS)
def test_history(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    seeds, tally = fresh(SEEDS), Tally()
    tally.add(play_batch(plan, seeds))
    assert not tally.failed, report(plan, tally.failed[0])
    assert tally.least_steps >= LEAST_STEPS
    with capsys.disabled():
        print(f"\n{plan} from seed {seeds.start}: {tally}")


def test_a_seed_is_always_the_same_history() -> None:
    plan = PLANS["declarative-everything"]
    one, same = play(11, plan), play(11, plan)
    assert one.actions == same.actions
    assert [str(line() if callable(line) else line) for _, line in one.world.told] == [
        str(line() if callable(line) else line) for _, line in same.world.told
    ]


def test_its_actions_play_the_same_without_their_author() -> None:
    plan = PLANS["declarative-everything"]
    one = play(11, plan)
    same = play(11, plan, one.actions)
    assert (one.steps, one.rounds, one.struck) == (same.steps, same.rounds, same.struck)
