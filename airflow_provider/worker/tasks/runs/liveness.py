"""Whether a running stream moves on, or stalls: then it has not moved for longer than its own batches lead one to
expect.

A batch that has ended moves a stream on, and so does the time between two batches: a stream with nothing to read is not
stalled. A batch may take ten times as long as the longest of the last ones, and ten minutes in any case.

Another process that watches a query from now on counts from when it last moved, as its record says: otherwise, a stream
whose watchers change again and again would never be stalled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.values.replacing import replaced

LEAST_PATIENCE_MS: Final = 600_000
_TIMES: Final = 10
_FORGOTTEN: Final = 10
"""With each batch, a tenth of what the longest one took is forgotten."""
FIRST_LOOK_MS: Final = 45_000
"""By then a new watch has looked at its query. If it is between two batches, it moves, whatever its record says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """What is known about the movement of a task's stream.

    :param moved_ms: when it last moved, as far as it is known (monotonic milliseconds); None: it is not running
    :param seen_ms: since when its movement has been seen in this process (monotonic milliseconds); None: it is not
    :param first_ms: when it first moved since then (monotonic milliseconds); None: it has not yet
    :param longest_ms: how long the longest of its last batches took
    :param stalled_since_ms: when it had last moved, if it is stalled (wall clock, milliseconds since 1970)
    """

    moved_ms: int | None = None
    seen_ms: int | None = None
    first_ms: int | None = None
    longest_ms: int = 0
    stalled_since_ms: int | None = None

    def begun(self, now_ms: int) -> Liveness:
        """It runs, or still does, and is seen. If it was stalled, it still is."""
        if self.stalled_since_ms is not None:
            return self
        moved_ms = now_ms if self.moved_ms is None else self.moved_ms
        return replaced(self, moved_ms=moved_ms, seen_ms=self._seen_ms(now_ms))

    def unseen(self) -> Liveness:
        """It may still run, and nobody sees whether it moves."""
        return replaced(self, seen_ms=None, first_ms=None)

    def moved(self, now_ms: int, batch_ms: int | None = None) -> Liveness:
        """:param batch_ms: how long the batch that has ended took; None: it is between two batches"""
        longest_ms = self.longest_ms
        if batch_ms is not None:
            longest_ms = max(batch_ms, longest_ms - longest_ms // _FORGOTTEN)
        first_ms = now_ms if self.first_ms is None else self.first_ms
        return Liveness(moved_ms=now_ms, seen_ms=self._seen_ms(now_ms), first_ms=first_ms, longest_ms=longest_ms)

    def stalled(self, now_ms: int, wall_ms: int) -> Liveness:
        assert self.moved_ms is not None, "only what runs stalls"
        return replaced(self, stalled_since_ms=max(0, wall_ms - (now_ms - self.moved_ms)))

    def ended(self) -> Liveness:
        """What the next attempt begins with."""
        return Liveness(longest_ms=self.longest_ms)

    def moving_ms(self) -> int | None:
        """For how long it has moved on, as far as this process has seen; None: nobody sees whether it moves."""
        if self.moved_ms is None and self.stalled_since_ms is None:
            return None
        if self.moved_ms is None or self.seen_ms is None:
            return 0
        return max(0, self.moved_ms - self.seen_ms)

    def _seen_ms(self, now_ms: int) -> int:
        return now_ms if self.seen_ms is None else self.seen_ms

    def stalls_at_ms(self, stall_after_ms: int | None) -> int | None:
        """When it counts as stalled if it does not move (monotonic milliseconds); None: never, or it does already.

        :param stall_after_ms: after how long, as its job says; None: its job does not say
        """
        if self.moved_ms is None or self.seen_ms is None or self.stalled_since_ms is not None:
            return None
        stalls_at_ms = self.moved_ms + self.patience_ms(stall_after_ms)
        return stalls_at_ms if self.moved_ms >= self.seen_ms else max(stalls_at_ms, self.seen_ms + FIRST_LOOK_MS)

    def patience_ms(self, stall_after_ms: int | None) -> int:
        """How long it may take to move."""
        return max(LEAST_PATIENCE_MS, _TIMES * self.longest_ms) if stall_after_ms is None else stall_after_ms


UNMOVED: Final = Liveness()
"""A stream that has not run yet."""
