"""Searches a scope with a mutation of the product, in a process of its own: ``python -m explore.mutant "name" scope``.

Prints what noticed it: the rule or the exception, and the story. Exits with 1 if nothing did.
"""

from __future__ import annotations

import sys

from simulation.mutant import mutate
from simulation.mutations import MUTATIONS

LIMIT = 100_000
"""The most worlds that are searched."""


def main() -> int:
    name, scope = sys.argv[1:]
    mutate(next(mutation for mutation in MUTATIONS if mutation.name == name))
    from explore.rules import kind_of
    from explore.run import report
    from explore.scopes import SCOPES
    from explore.search import explore

    found = explore(SCOPES[scope], limit=LIMIT)
    if found.broken is None:
        print(f"nothing notices it in {found.worlds} worlds")
        return 1
    print(kind_of(found.broken))
    print(report(SCOPES[scope], found, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
