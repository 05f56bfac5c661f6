"""Runs a benchmark of a whole group, with an option for each part of its load."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

L = TypeVar("L", bound="DataclassInstance")


def measure(name: str, description: str | None, load: type[L], run: Callable[[Path, L], Any]) -> None:
    """Run the benchmark, and write its figures.

    :param load: each field has a default, from which its option has its type
    :param run: gets a folder of its own and the load; returns the figures
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    for field in fields(load):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    args = parser.parse_args()
    folder: Path = args.output.absolute() / name
    folder.mkdir(parents=True, exist_ok=True)
    figures = run(folder, load(**{field.name: getattr(args, field.name) for field in fields(load)}))
    (folder.parent / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
