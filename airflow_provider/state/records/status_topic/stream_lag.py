"""How far a running stream is behind its sources now, as far as anybody knows.

Spark asks the sources when a batch begins and says what they had when it has ended. What waited then waits until the
next batch has ended, and more has come since: an old number is the least that waits now. If nothing waited then, this
says nothing about now, unless it is quite new.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from airflow_provider.state.records.status_topic.stream_progress import StreamProgress, asked_in_words
from airflow_provider.values.lag import NOTHING_SAID, Lag

CURRENT_MS: Final = 120_000
"""For how long what the sources had counts as what they have. Workers write of a stream with nothing to read more often
than this.
"""


class Known(str, Enum):
    """What is known of a lag."""

    EXACTLY = "exactly"
    AT_LEAST = "at least"
    """More may wait."""
    UNKNOWN = "unknown"
    """Nothing may wait, or anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLag:
    """The lag of a running stream.

    :param lag: what its sources had when they were asked
    :param asked_at_ms: when that was (wall clock, milliseconds since 1970); None: unknown
    :param stalled: whether it is
    """

    lag: Lag = NOTHING_SAID
    asked_at_ms: int | None = None
    stalled: bool = False

    @classmethod
    def of(cls, progress: StreamProgress | None, *, stalled: bool = False) -> StreamLag:
        """:param progress: its last batch; None: it has not ended one"""
        if progress is None:
            return cls(stalled=stalled)
        return cls(lag=progress.known_lag, asked_at_ms=progress.asked_at_ms, stalled=stalled)

    @property
    def current_until_ms(self) -> int:
        """Until when it is exactly known; 0: it is not."""
        if self.stalled or self.asked_at_ms is None or not self.lag.whole:
            return 0
        return self.asked_at_ms + CURRENT_MS

    @property
    def once_old(self) -> Known:
        """What is known of it after that."""
        return Known.AT_LEAST if self.lag.waits else Known.UNKNOWN

    def known(self, now_ms: int) -> Known:
        """:param now_ms: wall clock, milliseconds since 1970"""
        return Known.EXACTLY if now_ms <= self.current_until_ms else self.once_old

    def units(self, now_ms: int) -> dict[str, int]:
        """How much waits at least in each unit of which something is known now."""
        known = self.known(now_ms)
        return {unit: amount for unit, amount in self.lag.units.items() if known is Known.EXACTLY or amount}

    def how_much(self, known: Known) -> str:
        """As in "57 offsets behind", "at least 57 offsets behind", "not behind" or "lag unknown"."""
        if known is Known.UNKNOWN:
            return "lag unknown"
        least = "at least " if known is Known.AT_LEAST else ""
        return f"{least}{self.lag.in_words()}"

    def in_words(self, now_ms: int) -> str:
        """How much waits, and when the sources were asked.

        :param now_ms: wall clock, milliseconds since 1970
        """
        known = self.known(now_ms)
        words = self.how_much(known)
        if not self.lag.units:
            return words
        if known is Known.UNKNOWN:
            words += f", {self.lag.in_words()}"
        return f"{words} {asked_in_words(self.asked_at_ms, now_ms)}"

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """What is known now, for other programs: how much in each unit, and how well that is known.

        :param now_ms: wall clock, milliseconds since 1970
        """
        return {"known": self.known(now_ms).value, **self.units(now_ms)}
