"""Searches scopes to the end: ``make explore`` (all small ones), ``make explore SCOPE=pause``.

A search is deterministic: the same command finds the same. A broken rule is shown as the shortest story that leads
there, with times in steps.
"""

from __future__ import annotations

import argparse
import sys
import time

from explore.scopes import IN_A_MINUTE, SCOPES
from explore.search import Found, explore
from explore.story import tell
from explore.values import Scope


def report(scope: Scope, found: Found, took_s: float) -> str:
    """One line; if a rule is broken, its story."""
    pace = found.worlds / max(took_s, 0.1)
    size = f"{found.worlds:,} worlds, {found.moves:,} moves, {took_s:.0f} s ({pace:,.0f} a second)"
    if found.broken is not None:
        story = tell(found)
        return f"{scope.name}: broken after {size}\n{story}\n\nAgain: make explore SCOPE={scope.name}"
    return f"{scope.name}: {'searched to the end' if found.complete else 'not searched to the end'}: {size}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scope", choices=SCOPES, help="only this one (default: those that take a minute)")
    parser.add_argument("--limit", type=int, default=0, help="give up at so many worlds (0: never)")
    chosen = parser.parse_args()
    broken = False
    for name in [chosen.scope] if chosen.scope else IN_A_MINUTE:
        scope, began = SCOPES[name], time.monotonic()
        found = explore(scope, limit=chosen.limit, progress=_say)
        print(report(scope, found, time.monotonic() - began), flush=True)
        broken |= found.broken is not None
    return int(broken)


def _say(done: int, known: int) -> None:
    print(f"\r{done:,} of {known:,} known worlds ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
