"""How long to wait after an error before the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_LONGEST_S: Final = 30.0
_GOOD_MS: Final = 60_000
"""After this time without an error, the pauses start over."""


class Resting:
    """Pauses that double with each error, up to half a minute.

    :param first_s: the first pause
    :param now_ms: a clock
    """

    def __init__(self, first_s: float, now_ms: Callable[[], int]) -> None:
        self._first_s = first_s
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._next_s = first_s

    def begin(self) -> None:
        """Note the start of a try."""
        self._began_ms = self._now_ms()

    def is_well(self) -> None:
        """Start over with the first pause."""
        self._next_s = self._first_s

    def fault(self, most_s: float = _LONGEST_S) -> float:
        """Note an error.

        :param most_s: the longest pause that those who depend on it can bear
        :returns: how long to wait now, in seconds
        """
        if self._now_ms() - self._began_ms > _GOOD_MS:
            self.is_well()
        rest_s, self._next_s = min(self._next_s, most_s), min(2 * self._next_s, _LONGEST_S)
        return rest_s
