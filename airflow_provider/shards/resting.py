"""How long to wait before something is tried again that went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_LONGEST_S: Final = 30.0
_GOOD_MS: Final = 60_000
"""After so long what went wrong before is over."""


class Resting:
    """Twice as long after each fault, up to half a minute.

    :param first_s: after the first one
    :param now_ms: a clock
    """

    def __init__(self, first_s: float, now_ms: Callable[[], int]) -> None:
        self._first_s = first_s
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._next_s = first_s

    def begin(self) -> None:
        """It is tried, from now on."""
        self._began_ms = self._now_ms()

    def is_well(self) -> None:
        """What went wrong before is over."""
        self._next_s = self._first_s

    def fault(self) -> float:
        """It went wrong.

        :returns: how long to rest now
        """
        if self._now_ms() - self._began_ms > _GOOD_MS:
            self.is_well()
        rest_s, self._next_s = self._next_s, min(2 * self._next_s, _LONGEST_S)
        return rest_s
