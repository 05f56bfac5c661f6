"""What a stream has still to read, in the units in which its sources count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

_MOST: Final = 2**53 - 1
_COUNT: Final = msgspec.Meta(ge=0, le=_MOST)

UNITS: Final = ("offsets", "files", "versions", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """What all sources of a stream had that it had not read, when they were last asked. A unit is None if no source
    counts in it.

    :param offsets: of all partitions together
    :param files: of tables and folders
    :param versions: of tables
    :param silent: how many of the sources do not say it, or not all of it
    """

    offsets: Annotated[int, _COUNT] | None = None
    files: Annotated[int, _COUNT] | None = None
    versions: Annotated[int, _COUNT] | None = None
    bytes: Annotated[int, _COUNT] | None = None
    silent: Annotated[int, _COUNT] = 0

    @classmethod
    def of_all(cls, lags: Iterable[Lag]) -> Lag:
        """The lag of a stream with these sources."""
        each = tuple(lags)
        totals = {}
        for unit in UNITS:
            known = [lag.units[unit] for lag in each if unit in lag.units]
            totals[unit] = min(sum(known), _MOST) if known else None
        return cls(**totals, silent=sum(lag.silent for lag in each))

    @property
    def units(self) -> dict[str, int]:
        """How much in each unit that is known."""
        known = ((unit, getattr(self, unit)) for unit in UNITS)
        return {unit: amount for unit, amount in known if amount is not None}

    @property
    def whole(self) -> bool:
        """Whether every source says all of it."""
        return not self.silent and bool(self.units)

    @property
    def waits(self) -> bool:
        """Whether something is known to wait."""
        return any(self.units.values())

    def in_words(self) -> str:
        """As in "57 offsets, 1 file behind", "not behind", or empty if nothing is known."""
        if not self.waits:
            return "not behind" if self.units else ""
        amounts = ((unit if amount != 1 else unit[:-1], amount) for unit, amount in self.units.items() if amount)
        return f"{', '.join(f'{amount:,} {unit}' for unit, amount in amounts)} behind"

    def to_json(self) -> dict[str, Any]:
        return {**self.units, **({"silent": self.silent} if self.silent else {})}


NOTHING_SAID: Final = Lag()
"""No source has said anything yet."""
