"""Each deliberate mistake of module ``mutations`` is noticed, by the check that it names.

Some of them, drawn from the commit, are run each time; ``make thorough`` runs the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from simulation import invariants, learner_invariants, spark_invariants
from simulation.declarative import invariants as declarative_invariants
from simulation.mutation import Mutation
from simulation.mutations import MUTATIONS
from simulation.seeds import one_in
from waiting import TEST_LIMIT_S

TESTS = Path(__file__).parents[1]
SHARE = 42
NAMED = {mutation.name: mutation for mutation in MUTATIONS}


def _run(mutation: Mutation) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simulation.mutant", mutation.name],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=TEST_LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """Runs all selected mutations, two at a time."""
    asked = {item.callspec.id for item in request.session.items if isinstance(item, pytest.Function) and _plays(item)}
    with ThreadPoolExecutor(2) as pool:
        yield {mutation.name: pool.submit(_run, mutation) for mutation in MUTATIONS if mutation.name in asked}
        pool.shutdown(cancel_futures=True)


def _plays(item: pytest.Function) -> bool:
    return item.originalname == test_is_noticed.__name__ and item.path == Path(__file__)


@pytest.mark.parametrize("name", list(one_in(SHARE, NAMED)))
def test_is_noticed(name: str, runs: dict[str, Future[subprocess.CompletedProcess[str]]]) -> None:
    run = runs[name].result()
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    if not NAMED[name].unit_test:
        assert run.stdout.splitlines()[0] in NAMED[name].broken


def test_each_invariant_that_is_named_exists() -> None:
    named = {name for mutation in MUTATIONS for name in mutation.broken}
    assert named <= {
        name
        for rules in (invariants, learner_invariants, spark_invariants, declarative_invariants)
        for name in vars(rules)
        if name[0] != "_"
    }


def test_each_mutation_has_a_name_of_its_own_and_something_that_notices_it() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 12
    for mutation in MUTATIONS:
        assert bool(mutation.unit_test) != bool(mutation.plan and mutation.broken)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_text_it_replaces_is_in_the_code_exactly_once(mutation: Mutation) -> None:
    """A quick check, also for mutations that are not run."""
    source = Path(TESTS.parent, *mutation.module.split(".")).with_suffix(".py").read_text()
    for before, after in mutation.edits:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
