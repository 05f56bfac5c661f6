"""A host that was suspended, as its processes see it after waking: only one of the monotonic clocks has gone on."""

from __future__ import annotations

import time

import pytest


class Host:
    """This process's host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._away_ns = 0
        real = time.clock_gettime_ns

        def read(clock: int) -> int:
            return real(clock) + (self._away_ns if clock == time.CLOCK_BOOTTIME else 0)

        monkeypatch.setattr(time, "clock_gettime_ns", read)

    def was_suspended(self, ms: int) -> None:
        """From now on the clocks say that the host has just woken up."""
        self._away_ns += ms * 1_000_000
