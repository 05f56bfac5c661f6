"""How far a stream is, in the record of its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.ledger.records.envelope import want_number

_FASTEST: Final = 1e15
"""Rows per second: what is above is no rate, and infinity can't be written as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """The last batch of a stream.

    :param batch: its number
    :param rows_per_second: as it was processed
    :param at_ms: when that was seen: wall clock, milliseconds since 1970
    """

    batch: int
    rows_per_second: float
    at_ms: int

    def in_words(self) -> str:
        return f"batch {self.batch}, {self.rows_per_second:g} rows/s"

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "rows_per_second": self.rows_per_second, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamProgress:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        rate = data.get("rows_per_second")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= _FASTEST:
            raise ValueError("the field 'rows_per_second' must be a number that is not negative")
        return cls(batch=want_number(data, "batch"), rows_per_second=float(rate), at_ms=want_number(data, "at_ms"))
