"""When streams have had their batches: each one's end has a file in the checkpoint, which is written then."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path


def ends_of_batches(root: Path) -> Mapping[str, list[float]]:
    """Seconds since 1970, in order, by checkpoint; each must keep its files for as long as is measured."""
    return {
        str(folder): sorted(file.stat().st_mtime for file in folder.iterdir() if file.name.isdigit())
        for folder in root.rglob("commits")
    }


def batches(root: Path) -> Mapping[str, list[int]]:
    """The numbers of those that have come to their end, in order, by checkpoint."""
    return {
        str(folder): sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        for folder in root.rglob("commits")
    }


def longest_gap(ends: list[float], began: float, ended: float) -> float:
    """The longest time without a batch, of which at least a part is within these times."""
    return max(later - sooner for sooner, later in pairwise(ends) if later > began and sooner < ended)
