"""``python -m benchmarks``: all benchmarks, side by side with their peers; figures go to ``build/bench``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks import cost


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of what is quick (default: 3)")
    args = parser.parse_args()
    output: Path = args.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    figures = cost.run(output / "cost", repeats=args.repeats)
    (output / "cost.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
