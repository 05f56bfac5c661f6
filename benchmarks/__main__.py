"""``python -m benchmarks [NAME ...]``: benchmarks, mostly against peers; writes the figures to
``build/bench/NAME.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import (
    assignor,
    cost,
    declarative,
    declarative_crowd,
    declarative_large,
    declarative_stop,
    detached_culprit,
    detached_kill,
    detached_watch,
    first_batch,
    hundred_topics,
    large_round,
    looks,
    lost,
    many,
    memberships,
    overload,
    page,
    rebalance,
    short_tasks,
    skew,
    triggerer,
    unequal_rounds,
    unequal_workers,
    viewers,
    warm_move,
    whole_targets,
)

BENCHMARKS: Final[Mapping[str, Callable[[Path], Mapping[str, Any]]]] = {
    "assignor": assignor.run,
    "cost": cost.run,
    "declarative": declarative.run,
    "looks": looks.run,
    "lost": lost.run,
    "many": many.run,
    "memberships": memberships.run,
    "overload": overload.run,
    "page": page.run,
    "rebalance": rebalance.run,
    "short_tasks": short_tasks.run,
    "skew": skew.run,
    "triggerer": triggerer.run,
    "unequal_rounds": unequal_rounds.run,
    "viewers": viewers.run,
    "warm_move": warm_move.run,
    "whole_targets": whole_targets.run,
}
"""Each measures, prints, and returns its figures; it gets a folder for its files."""

LONG: Final[Mapping[str, Callable[[Path], Mapping[str, Any]]]] = {
    "declarative_crowd": declarative_crowd.run,
    "declarative_large": declarative_large.run,
    "declarative_stop": declarative_stop.run,
    "detached_culprit": detached_culprit.run,
    "detached_kill": detached_kill.run,
    "detached_watch": detached_watch.run,
    "first_batch": first_batch.run,
    "hundred_topics": hundred_topics.run,
    "large_round": large_round.run,
    "unequal_workers": unequal_workers.run,
}
"""Benchmarks that take minutes, and run only when they are named."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(BENCHMARKS)} (default: all of these), {', '.join(LONG)}",
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    args = parser.parse_args()
    known = {**BENCHMARKS, **LONG}
    unknown = set(args.names) - known.keys()
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    output: Path = args.output.absolute()
    for name in args.names or BENCHMARKS:
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        print(f"\n--- {name}", flush=True)
        figures = known[name](folder)
        (output / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
