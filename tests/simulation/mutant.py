"""Runs one mutated package, in a process of its own: ``python -m simulation.mutant "name of a mutation"``.

Prints what noticed the mutation, first the name of the invariant or ``unit test``. Ends with 1 if nothing did.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from simulation.mutations import MUTATIONS, Mutation

SEEDS = 150
"""As many histories as a mutation may take to be noticed."""


def mutate(mutation: Mutation) -> None:
    """Load the module as it would be with the mistake in it, before anything else has loaded it.

    :raises ValueError: if a text that it replaces does not stand there just once: the code has moved on
    """
    assert mutation.module not in sys.modules, f"{mutation.module} was imported before it could be mutated"
    spec = importlib.util.find_spec(mutation.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    for before, after in mutation.edits:
        if source.count(before) != 1:
            raise ValueError(f"{mutation.module} has {source.count(before)} times, not once:\n{before}")
        source = source.replace(before, after)
    module = importlib.util.module_from_spec(spec)
    sys.modules[mutation.module] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    parent, _, name = mutation.module.rpartition(".")
    setattr(importlib.import_module(parent), name, module)


def notice(mutation: Mutation) -> str | None:
    """What notices the mutation; None: nothing does."""
    if mutation.unit_test:
        import pytest

        quiet = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly"]
        return "unit test" if pytest.main([*quiet, mutation.unit_test]) == pytest.ExitCode.TESTS_FAILED else None
    from simulation.histories import PLANS, play

    for seed in range(SEEDS):
        told = play(seed, PLANS[mutation.plan])
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
