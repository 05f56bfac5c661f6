"""Many times at which something is to be done, nearly all of which are put off before they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush

from airflow_provider.protocol.model import MemberId


class Kind(Enum):
    """What is to be done when the time has come."""

    SESSION = "session"
    """A member has been silent for too long: it is removed."""
    REBALANCE = "rebalance"
    """A member did not stop in time what it was asked to stop: it is removed."""
    LINGERING = "lingering"
    """Who was removed runs nothing any more: what it held is free."""
    HELD = "held"
    """A heartbeat was held for as long as may be: it is answered."""
    COMPUTE = "compute"
    """The chosen member did not hand in an assignment in time: another one is chosen."""
    DUE = "due"
    """An assignor that is run here wants another assignment. It is of no member in particular."""


@dataclass(frozen=True, slots=True)
class Timer:
    kind: Kind
    group_id: str
    member_id: MemberId


class Timers:
    """Putting off costs no more than a dictionary: an entry of the heap that comes too early is put in again."""

    __slots__ = ("_at", "_count", "_heap", "_queued")

    def __init__(self) -> None:
        self._at: dict[Timer, int] = {}
        self._queued: dict[Timer, int] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0

    def set(self, timer: Timer, at_ms: int) -> None:
        """At this time, and not when it was set to before."""
        self._at[timer] = at_ms
        queued = self._queued.get(timer)
        if queued is None or queued > at_ms:
            self._push(timer, at_ms)

    def cancel(self, timer: Timer) -> None:
        self._at.pop(timer, None)

    def at(self, timer: Timer) -> int | None:
        return self._at.get(timer)

    def due(self, now_ms: int) -> Iterator[Timer]:
        """Those whose time has come, and then they are set no more. Some may be set or cancelled meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued, _, timer = heappop(self._heap)
            if self._queued.get(timer) != queued:
                continue
            del self._queued[timer]
            at = self._at.get(timer)
            if at is None:
                continue
            if at > now_ms:
                self._push(timer, at)
            else:
                del self._at[timer]
                yield timer

    @property
    def next_ms(self) -> int | None:
        """Not after the first one."""
        return self._heap[0][0] if self._heap else None

    def _push(self, timer: Timer, at_ms: int) -> None:
        self._queued[timer] = at_ms
        self._count += 1
        heappush(self._heap, (at_ms, self._count, timer))
