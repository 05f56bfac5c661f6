"""Runs one mutated package, in a process of its own: ``python -m simulation.mutant "name of a mutation"``.

Prints what noticed the mutation, first the name of the invariant or ``unit test``. Exits with 1 if nothing did.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from simulation.mutation import Mutation
from simulation.mutations import MUTATIONS

SEEDS = 150
"""A mutation must be noticed within this number of histories."""
_NEEDLESS = ("cacheprovider", "randomly", "hypothesispytest", "anyio", "pytest_cov")
"""Plugins that take longer to load than the unit test to run."""
_CLASSIC, _DECLARATIVE = "simulation.histories", "simulation.declarative.histories"
"""Importing both takes longer than playing a history."""


class _Mistaken(MetaPathFinder, Loader):
    """Imports one module with the mistake in it, also when its package imports it."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self._module = module
        self._path = path
        self._source = source

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._path, loader=self) if name == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, self._path, "exec"), module.__dict__)


def mutate(mutation: Mutation) -> None:
    """Load the module with the mistake in it; nothing may have loaded it yet.

    :raises ValueError: if a text to replace is not there exactly once: the code has changed
    """
    assert mutation.module not in sys.modules, f"{mutation.module} was imported before it could be mutated"
    package, *names = mutation.module.split(".")
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0], *names).with_suffix(".py")
    source = path.read_text()
    for before, after in mutation.edits:
        if source.count(before) != 1:
            raise ValueError(f"{mutation.module} has {source.count(before)} times, not once:\n{before}")
        source = source.replace(before, after)
    sys.meta_path.insert(0, _Mistaken(mutation.module, path, source))


def notice(mutation: Mutation) -> str | None:
    """What notices the mutation; None if nothing does."""
    if mutation.unit_test:
        import pytest

        quiet = ["-q", "-x", "--no-header", "--tb=no", *(f"-pno:{plugin}" for plugin in _NEEDLESS)]
        return "unit test" if pytest.main([*quiet, mutation.unit_test]) == pytest.ExitCode.TESTS_FAILED else None
    histories = import_module(_DECLARATIVE if mutation.plan.startswith("declarative-") else _CLASSIC)
    for seed in range(mutation.seed, mutation.seed + SEEDS):
        told = histories.play(seed, histories.PLANS[mutation.plan])
        if told.failure is not None:
            return f"{told.kind}\nseed {seed}: {told.failure.failure}"
    return None


def main() -> int:
    mutation = next(mutation for mutation in MUTATIONS if mutation.name == sys.argv[1])
    mutate(mutation)
    noticed = notice(mutation)
    print(noticed or "nothing notices it")
    return 0 if noticed else 1


if __name__ == "__main__":
    sys.exit(main())
