"""The progress of a stream, in the record of its task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.state.records.envelope import COUNT
from airflow_provider.state.records.plain import Plain
from airflow_provider.state.records.times import ago_in_words
from airflow_provider.values.lag import NOTHING_SAID, Lag

_FASTEST: Final = 1e15
"""The highest rate that is accepted, in rows per second."""
_RATE: Final = msgspec.Meta(ge=0, le=_FASTEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress(Plain):
    """The last batch of a stream. A field is None if Spark or the source does not report it.

    :param batch: the number of the batch
    :param rows_per_second: how many rows of the batch were processed per second
    :param at_ms: when this was reported, or that the stream has moved since (wall clock, milliseconds since 1970)
    :param rows: how many rows the batch had
    :param rows_per_second_in: how many rows per second came in since the batch before
    :param batch_ms: how long the batch took, in milliseconds
    :param behind: how many offsets its slowest partition was still to read after this batch, of those that were there
        when the batch began
    :param asked_at_ms: when the batch began, and its sources were asked how far they are (Spark's wall clock,
        milliseconds since 1970); None: unknown, as releases before 0.2 do not write it
    :param lag: what all its sources had then that this batch did not read; earlier releases do not write it
    """

    batch: Annotated[int, COUNT]
    rows_per_second: Annotated[float, _RATE]
    at_ms: Annotated[int, COUNT]
    rows: Annotated[int, COUNT] | None = None
    rows_per_second_in: Annotated[float, _RATE] | None = None
    batch_ms: Annotated[int, COUNT] | None = None
    behind: Annotated[int, COUNT] | None = None
    asked_at_ms: Annotated[int, COUNT] | None = None
    lag: Lag = NOTHING_SAID

    @property
    def known_lag(self) -> Lag:
        """What its sources had. A record of an earlier release has only that of the slowest partition."""
        if self.behind is None or self.lag != NOTHING_SAID:
            return self.lag
        return Lag(offsets=self.behind, silent=int(self.behind > 0))

    @property
    def batch_in_words(self) -> str:
        """As in "batch 812, 1,200 rows/s, 500 rows/s come in"."""
        words = [f"batch {self.batch}, {_rate(self.rows_per_second)}"]
        if self.rows_per_second_in is not None:
            words.append(f"{_rate(self.rows_per_second_in)} come in")
        return ", ".join(words)

    def says_as(self, before: object) -> bool:
        """Whether it says the same as another one, at another time."""
        if not isinstance(before, StreamProgress):
            return False
        return replace(self, at_ms=before.at_ms, asked_at_ms=before.asked_at_ms) == before

    def is_same(self, before: object) -> bool:
        """Whether it is about the same batch, so that the stream has not moved in between."""
        return isinstance(before, StreamProgress) and self.asked_at_ms == before.asked_at_ms and self.says_as(before)

    def in_words(self) -> str:
        """For a log. How far it was behind is never said without its time: much may have come since."""
        lag = self.known_lag.in_words()
        return ", ".join(filter(None, (self.batch_in_words, lag and f"{lag} {asked_in_words(self.asked_at_ms)}")))

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "rows_per_second": self.rows_per_second,
            "at_ms": self.at_ms,
            "rows": self.rows,
            "rows_per_second_in": self.rows_per_second_in,
            "batch_ms": self.batch_ms,
            "behind": self.behind,
            **({} if self.asked_at_ms is None else {"asked_at_ms": self.asked_at_ms}),
            **({} if self.lag == NOTHING_SAID else {"lag": self.lag.to_json()}),
        }


def asked_in_words(asked_at_ms: int | None, now_ms: int | None = None) -> str:
    """When the sources were asked, at the beginning of the last batch."""
    return "when its last batch began" if asked_at_ms is None else ago_in_words(asked_at_ms, now_ms)


def _rate(rows_per_second: float) -> str:
    """The rate for people, rounded."""
    return f"{rows_per_second:,.0f} rows/s" if rows_per_second >= 100 else f"{rows_per_second:.3g} rows/s"
