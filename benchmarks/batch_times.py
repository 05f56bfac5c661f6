"""Reads from checkpoints when streams completed their batches: each completed batch has a file with that time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path


def ends_of_batches(root: Path) -> Mapping[str, list[float]]:
    """The times of completed batches by checkpoint (seconds since 1970), sorted. Checkpoints must not delete files
    meanwhile.
    """
    return {
        str(folder): sorted(file.stat().st_mtime for file in folder.iterdir() if file.name.isdigit())
        for folder in root.rglob("commits")
    }


def batches(root: Path) -> Mapping[str, list[int]]:
    """The numbers of completed batches by checkpoint, sorted."""
    return {
        str(folder): sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        for folder in root.rglob("commits")
    }


def longest_gap(ends: list[float], began: float, ended: float) -> float:
    """The longest time without a batch that overlaps this period."""
    return max(later - sooner for sooner, later in pairwise(ends) if later > began and sooner < ended)
