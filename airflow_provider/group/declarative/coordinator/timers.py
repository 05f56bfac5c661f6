"""Timers for many members. Nearly all of them are set to a later time before they fire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush

from airflow_provider.values.model import MemberId


class Kind(Enum):
    """What happens when a timer fires."""

    SESSION = "session"
    """A member was silent for a session: it is removed."""
    REBALANCE = "rebalance"
    """A member has not stopped its revoked tasks in time: it is removed."""
    LINGERING = "lingering"
    """The session of a removed member would have ended: its tasks are free."""
    HELD = "held"
    """A heartbeat was held for the heartbeat interval: it is answered."""
    COMPUTE = "compute"
    """The chosen member has not installed an assignment in time: another one is chosen."""
    DUE = "due"
    """Another assignment is due (``computing.set_due_timer``). This timer belongs to no member."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer of one member. It is set at most once at a time.

    :param member_id: empty for :attr:`Kind.DUE`
    """

    kind: Kind
    group_id: str
    member_id: MemberId


class Timers:
    """Timers in a heap. To set one to a later time only changes a dictionary: its entry in the heap stays, and is put
    in again when it comes up too early.
    """

    __slots__ = ("_at", "_count", "_heap", "_queued")

    def __init__(self) -> None:
        self._at: dict[Timer, int] = {}
        self._queued: dict[Timer, int] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0

    def set(self, timer: Timer, at_ms: int) -> None:
        """Set a timer to this time, in place of an earlier setting."""
        self._at[timer] = at_ms
        queued = self._queued.get(timer)
        if queued is None or queued > at_ms:
            self._push(timer, at_ms)

    def cancel(self, timer: Timer) -> None:
        self._at.pop(timer, None)

    def at(self, timer: Timer) -> int | None:
        """When a timer fires, in milliseconds; None: it is not set."""
        return self._at.get(timer)

    def due(self, now_ms: int) -> Iterator[Timer]:
        """Take out the timers whose time has come. Timers may be set and cancelled during the iteration."""
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
        """When to ask for :meth:`due` again, in milliseconds: at the next timer or earlier. None: no timer is set."""
        return self._heap[0][0] if self._heap else None

    def _push(self, timer: Timer, at_ms: int) -> None:
        self._queued[timer] = at_ms
        self._count += 1
        heappush(self._heap, (at_ms, self._count, timer))
