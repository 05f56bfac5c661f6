"""Seeded random histories of groups: whatever happens, every rule of module ``invariants`` holds at every step, and
after the faults the group converges.

Each run plays a few seeds of each plan, drawn from the commit, and ``make thorough`` many. For more of them:
``make simulate SEEDS=n``, ``make simulate-long``. Module ``histories`` defines a step.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulation.histories import PLANS
from simulation.run import Crew, Tally, report
from simulation.seeds import fresh

FEW, MANY = 2, 60
LEAST_STEPS = 60


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(processes=2)
    yield crew
    crew.close()


@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("plan", PLANS)
def test_history(plan: str, number: int, crew: Crew, capsys: pytest.CaptureFixture[str]) -> None:
    seeds, tally = fresh(number), Tally()
    for tally in crew.play(plan, seeds):
        assert not tally.failed, report(plan, tally.failed[0])
    assert tally.histories == len(seeds)
    assert tally.least_steps >= LEAST_STEPS
    with capsys.disabled():
        print(f"\n{plan} from seed {seeds.start}: {tally}")
