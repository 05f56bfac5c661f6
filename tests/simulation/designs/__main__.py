"""``make compare-designs``: the table on the terminal, table and picture into ``build/designs``."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from simulation.designs.costs import compare
from simulation.designs.learners import compare_learners
from simulation.designs.report import LEARNERS, as_markdown, as_text, draw, written_into

_DOCS: Final = Path(__file__).parents[3] / "docs"
_PAGE: Final = _DOCS / "policies.md"
_PICTURE: Final = _DOCS / "diagrams" / "designs.svg"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m simulation.designs", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="histories of each kind (default: 5)")
    parser.add_argument("--output", type=Path, default=Path("build/designs"), metavar="DIR")
    parser.add_argument("--docs", action="store_true", help="write table and picture into docs/, too")
    args = parser.parse_args()
    began = time.perf_counter()
    costs, learners = compare(args.seeds), compare_learners(args.seeds)
    output: Path = args.output
    output.mkdir(parents=True, exist_ok=True)
    picture = draw(costs)
    (output / "designs.svg").write_text(picture)
    (output / "designs.md").write_text(f"{as_markdown(costs)}\n\n{as_markdown(learners, LEARNERS)}\n")
    values = [
        {"history": history, "design": design, **asdict(cost)}
        for which in (costs, learners)
        for (history, design), cost in which.items()
    ]
    (output / "designs.json").write_text(json.dumps(values, indent=2) + "\n")
    if args.docs:
        _PAGE.write_text(written_into(written_into(_PAGE.read_text(), costs), learners, LEARNERS))
        _PICTURE.write_text(picture)
    print(f"{as_text(costs)}\n\nTasks that warm up for 20 s:\n\n{as_text(learners, LEARNERS)}")
    print(
        f"\nMeans of {args.seeds} histories each, {time.perf_counter() - began:.0f} s."
        f" How many tasks ran when: {output / 'designs.svg'}"
    )


if __name__ == "__main__":
    main()
