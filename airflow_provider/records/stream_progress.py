"""How far a stream is, in the record of its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.records.envelope import COUNT

_FASTEST: Final = 1e15
"""Rows per second: what is above is no rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """The last batch of a stream.

    :param batch: its number
    :param rows_per_second: as it was processed
    :param at_ms: when that was seen: wall clock, milliseconds since 1970
    """

    batch: Annotated[int, COUNT]
    rows_per_second: Annotated[float, msgspec.Meta(ge=0, le=_FASTEST)]
    at_ms: Annotated[int, COUNT]

    def in_words(self) -> str:
        return f"batch {self.batch}, {self.rows_per_second:g} rows/s"

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "rows_per_second": self.rows_per_second, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamProgress:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        return msgspec.convert(data, cls)
