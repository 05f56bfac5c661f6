"""The search finds mistakes of the simulation's lists, each in the smallest scope that has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from explore import rules
from simulation.seeds import one_in
from waiting import TEST_LIMIT_S

TESTS = Path(__file__).parents[1]
NOTICED = {
    "joins again before the revoked tasks have stopped": ("calm", rules.STARTED),
    "does not join again after it has given something up": ("calm", rules.REST),
    "stops everything whenever the group rebalances": ("calm", rules.UNTOUCHED),
    "takes the bytes of the last round for news when it comes back": ("takeover", rules.STARTED),
    "says nothing of what a predecessor may still run": ("takeover", rules.STARTED),
    "does not wait for a predecessor's lease": ("takeover", rules.STARTED),
    "does not stop when its lease is over": ("loss", rules.TWO_RUN),
    "gives a lesson up whenever somebody joins": ("learners", rules.REST),
    "says nothing when it is ready": ("learners", rules.REST),
    "owns what it learns": ("learners", rules.TWO_OWN),
    "does not tell an owner what others learn": ("learners", "owners_know_what_others_learn"),
}
"""By the mutation's name in ``simulation/mutations.py``: the scope, and the rule that it breaks."""


@pytest.mark.parametrize("name", list(one_in(len(NOTICED), NOTICED)))
def test_is_noticed(name: str) -> None:
    scope, rule = NOTICED[name]
    run = subprocess.run(
        [sys.executable, "-m", "explore.mutant", name, scope],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
        timeout=TEST_LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert run.stdout.splitlines()[0] == rule, run.stdout
    assert "make explore" in run.stdout
