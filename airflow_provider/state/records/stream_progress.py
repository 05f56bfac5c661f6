"""The progress of a stream, in the record of its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.state.records.envelope import COUNT, convert
from airflow_provider.state.records.times import ago_in_words

_FASTEST: Final = 1e15
"""The highest rate that is accepted, in rows per second."""
_RATE: Final = msgspec.Meta(ge=0, le=_FASTEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """The last batch of a stream. A field is None if Spark or the source does not report it.

    :param batch: the number of the batch
    :param rows_per_second: how many rows of the batch were processed per second
    :param at_ms: when this was reported (wall clock, milliseconds since 1970)
    :param rows: how many rows the batch had
    :param rows_per_second_in: how many rows per second came in since the batch before
    :param batch_ms: how long the batch took, in milliseconds
    :param behind: how many offsets its slowest partition was still to read after this batch, of those that were there
        when the batch began
    :param asked_at_ms: when the batch began, and its sources were asked how far they are (Spark's wall clock,
        milliseconds since 1970); None: unknown, as releases before 0.2 do not write it
    """

    batch: Annotated[int, COUNT]
    rows_per_second: Annotated[float, _RATE]
    at_ms: Annotated[int, COUNT]
    rows: Annotated[int, COUNT] | None = None
    rows_per_second_in: Annotated[float, _RATE] | None = None
    batch_ms: Annotated[int, COUNT] | None = None
    behind: Annotated[int, COUNT] | None = None
    asked_at_ms: Annotated[int, COUNT] | None = None

    def in_words(self, now_ms: int | None = None) -> str:
        """How far it is behind is never said without its time: much may have come since.

        :param now_ms: wall clock, to say how old this is; None: say of when it is
        """
        words = [f"batch {self.batch}, {_rate(self.rows_per_second)}"]
        if self.rows_per_second_in is not None:
            words.append(f"{_rate(self.rows_per_second_in)} come in")
        if self.behind is not None:
            known = "when it began" if self.asked_at_ms is None else ago_in_words(self.asked_at_ms, now_ms)
            words.append(f"{self.behind:,} offsets behind {known}" if self.behind else f"not behind {known}")
        return ", ".join(words)

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
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamProgress:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        return convert(data, cls)


def _rate(rows_per_second: float) -> str:
    """The rate for people, rounded."""
    return f"{rows_per_second:,.0f} rows/s" if rows_per_second >= 100 else f"{rows_per_second:.3g} rows/s"
