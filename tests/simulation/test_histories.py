"""Seeded random histories of groups: whatever happens, every rule of module ``invariants`` holds at every step, and
after the faults the group converges.

Some seeds are fixed, so that what was found once is found again; others are drawn from the commit. For many more:
``make simulate SEEDS=n``, ``make simulate-long``. Module ``histories`` defines a step.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulation.histories import PLANS
from simulation.run import Crew, Tally, report
from simulation.seeds import fresh

FIXED = range(28)
FRESH = 26
LEAST_STEPS = 60


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(processes=2)
    yield crew
    crew.close()


@pytest.mark.parametrize("plan", PLANS)
def test_history(plan: str, crew: Crew, capsys: pytest.CaptureFixture[str]) -> None:
    for seeds in (FIXED, fresh(FRESH)):
        tally = Tally()
        for tally in crew.play(plan, seeds):
            assert not tally.failed, report(plan, tally.failed[0])
        assert tally.histories == len(seeds)
        assert tally.least_steps >= LEAST_STEPS
        with capsys.disabled():
            print(f"\n{plan} from seed {seeds.start}: {tally}")


def test_there_are_enough_of_them() -> None:
    assert (len(FIXED) + FRESH) * len(PLANS) >= 1_000, "in all"
