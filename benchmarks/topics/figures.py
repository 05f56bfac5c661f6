"""What was measured of one side, and how it is printed next to the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """The largest lags of one phase, in rows.

    :param one: of one topic
    :param all: of all topics together
    :param told: of one stream, as its status says; None: it says nothing
    """

    one: int = 0
    all: int = 0
    told: int | None = None

    def with_(self, rows: Mapping[str, int], told: Mapping[str, int]) -> Lags:
        """:param rows: the lag of each topic; ``told``: of each stream, as its status says"""
        values, said = rows.values(), max(told.values(), default=self.told)
        return Lags(
            one=max(self.one, *values),
            all=max(self.all, sum(values)),
            told=said if self.told is None or said is None else max(self.told, said),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What a SIGKILL has cost: how long streams had no batch, in seconds.

    :param over_s: until all rows that were there at the kill were in their tables
    """

    what: str
    over_s: float
    median_s: float
    longest_s: float
    lags: Lags

    @classmethod
    def of(cls, what: str, over_s: float, pauses: Mapping[str, float], lags: Lags) -> Kill:
        longest = max(pauses.values())
        return cls(
            what=what,
            over_s=round(over_s, 1),
            median_s=round(statistics.median(pauses.values()), 1),
            longest_s=round(longest, 1),
            lags=lags,
        )


@dataclass(slots=True, kw_only=True)
class Figures:
    """Of one side. Times are in seconds.

    :param started_s: from its start until the last topic's first rows were in their table
    :param backlog_s: from its start until all rows of the beginning were in their tables
    :param backlog_rows_per_s: that many of these rows on average
    :param steady_rows_per_s: how many came into the tables while nothing happened
    :param pause_s: the longest time without a batch of a stream while nothing happened
    :param cores: how many cores its processes took meanwhile
    :param memory_mb: their memory at the end of this time
    :param new_topic_s: from making a topic until its first row was in its table
    :param others_pause_s: the longest time without a batch of another stream meanwhile
    :param caught_up_s: from the last row that was produced until all were in their tables
    :param ends: how often it has ended by itself, and was started again
    :param missing: rows of topics that are in no table
    :param doubled: rows that are in a table more than once
    """

    side: str
    topics: int
    started_s: float = 0.0
    backlog_s: float = 0.0
    backlog_rows_per_s: float = 0.0
    steady_rows_per_s: float = 0.0
    pause_s: float = 0.0
    cores: float = 0.0
    memory_mb: float = 0.0
    steady: Lags = field(default_factory=Lags)
    kills: list[Kill] = field(default_factory=list)
    new_topic: str = ""
    new_topic_s: float = 0.0
    others_pause_s: float = 0.0
    caught_up_s: float = 0.0
    ends: int = 0
    rows: int = 0
    missing: int = 0
    doubled: int = 0
    load: float = 0.0


_LINES: Final[Sequence[tuple[str, Callable[[Figures], str]]]] = (
    ("until each topic has rows in its table", lambda x: f"{x.started_s:.0f} s"),
    ("until all rows of the beginning are in them", lambda x: f"{x.backlog_s:.0f} s"),
    ("rows per second until then", lambda x: f"{x.backlog_rows_per_s:,.0f}"),
    ("rows per second while nothing happens", lambda x: f"{x.steady_rows_per_s:,.0f}"),
    ("largest lag then, of one topic", lambda x: _lag(x.steady)),
    ("longest time without a batch then", lambda x: f"{x.pause_s:.0f} s"),
    ("cores, and memory", lambda x: f"{x.cores:.2f}, {x.memory_mb:,.0f} MB"),
    *(
        line
        for what in ("worker", "server")
        for line in (
            (f"{what} killed: time without a batch", lambda x, w=what: _killed(x, w, _times)),
            (f"{what} killed: largest lag of one topic", lambda x, w=what: _killed(x, w, lambda kill: _lag(kill.lags))),
        )
    ),
    ("a new topic: what is done", lambda x: x.new_topic),
    ("a new topic: until its first row is there", lambda x: f"{x.new_topic_s:.0f} s"),
    ("longest time without a batch of the others", lambda x: f"{x.others_pause_s:.0f} s"),
    ("until all is there after the last row", lambda x: f"{x.caught_up_s:.0f} s"),
    ("has ended by itself", lambda x: f"{x.ends} times"),
    ("rows in the tables", lambda x: f"{x.rows:,}"),
    ("rows missing, doubled", lambda x: f"{x.missing}, {x.doubled}"),
    ("load of the machine", lambda x: f"{x.load:.0f}"),
)


def _lag(lags: Lags) -> str:
    told = "" if lags.told is None else f" (status: {lags.told:,})"
    return f"{lags.one:,} rows{told}"


def _times(kill: Kill) -> str:
    return f"{kill.longest_s:.0f} s (median {kill.median_s:.0f} s)"


def _killed(figures: Figures, what: str, say: Callable[[Kill], str]) -> str:
    return next((say(kill) for kill in figures.kills if kill.what == what), "-")


def table(sides: Sequence[Figures]) -> str:
    """All figures, a column for each side."""
    rows: list[list[Any]] = [["", *(side.side for side in sides)]]
    rows += [[name, *map(say, sides)] for name, say in _LINES]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
