"""Seeded random histories of groups: whatever happens, every rule of module ``invariants`` holds at every step; and in
peace everything comes right.

Many more: ``make simulate SEEDS=n``. What is counted as a step: see module ``histories``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulation.histories import PLANS
from simulation.run import Crew, Tally, report

SEEDS = 260
LEAST_STEPS = 60


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(processes=2)
    yield crew
    crew.close()


@pytest.mark.parametrize("plan", PLANS)
def test_history(plan: str, crew: Crew, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for tally in crew.play(plan, SEEDS):
        assert not tally.failed, report(plan, tally.failed[0])
    assert tally.histories == SEEDS
    assert tally.least_steps >= LEAST_STEPS
    with capsys.disabled():
        print(f"\n{plan}: {tally}")


def test_there_are_enough_of_them() -> None:
    assert SEEDS * len(PLANS) >= 2_000
