"""Reads from checkpoints which rows streams have brought into their tables, and when.

A batch is in its table before Spark writes that it is committed. The offsets up to which it reads were written before
it began. Topics have no transactions, so an offset is a number of rows.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is in its table.

    :param at: when it was (seconds since 1970)
    :param rows: how many rows the table has from then on
    """

    at: float
    rows: int


class Arrived:
    """The batches of all streams whose checkpoints are under this folder. Checkpoints delete old files, so look
    often.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last: dict[Path, int] = {}
        self.batches: dict[str, list[Batch]] = {}

    def look(self) -> None:
        """Take in what has come since the last look."""
        for commits in self._root.rglob("commits"):
            last = self._last.get(commits, -1)
            for number in sorted(int(file.name) for file in commits.iterdir() if file.name.isdigit()):
                if number > last:
                    with suppress(FileNotFoundError):
                        self._take(commits, number)
                    self._last[commits] = number

    def _take(self, commits: Path, number: int) -> None:
        at = (commits / str(number)).stat().st_mtime
        topic, rows = _topic_of((commits.parent / "offsets" / str(number)).read_text())
        self.batches.setdefault(topic, []).append(Batch(at, rows))

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {topic: batches[-1].rows for topic, batches in self.batches.items()}


def _topic_of(offsets: str) -> tuple[str, int]:
    """The topic of a batch, and how many of its rows there are at the end."""
    (found,) = json.loads(offsets.splitlines()[-1]).items()
    return found[0], sum(found[1].values())


def rows_at(batches: Sequence[Batch], at: float) -> int:
    """How many rows the table had then."""
    index = bisect.bisect_right(batches, at, key=lambda batch: batch.at)
    return batches[index - 1].rows if index else 0


def until_rows(batches: Sequence[Batch], rows: int) -> float | None:
    """When the table had so many rows; None: not yet."""
    return next((batch.at for batch in batches if batch.rows >= rows), None)


def pauses(batches: Mapping[str, Sequence[Batch]], began: float, ended: float) -> dict[str, float]:
    """The longest time without the end of a batch that each stream had between these times, in seconds."""
    found = {}
    for topic, each in batches.items():
        ends = [began, *(batch.at for batch in each if began < batch.at < ended), ended]
        found[topic] = max(later - sooner for sooner, later in pairwise(ends))
    return found


def lag(produced: Mapping[str, int], arrived: Mapping[str, int]) -> dict[str, int]:
    """How many rows of each topic are not in its table."""
    return {topic: max(0, rows - arrived.get(topic, 0)) for topic, rows in produced.items()}
