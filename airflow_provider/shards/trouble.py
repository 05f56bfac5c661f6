"""Helps to log a problem once, and its end once."""

from __future__ import annotations

import time


class Trouble:
    """The state of something that is tried again and again. Only one thread may use it."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._since = 0.0

    def is_news(self, why: str) -> bool:
        """Note a failure, and return whether to log it: it is the first one, or has another reason than the last."""
        if self._why is None:
            self._since = time.monotonic()
        before, self._why = self._why, why
        return before != why

    def over(self) -> float | None:
        """Note that it works.

        :returns: after how many seconds it works again; None: nothing was wrong
        """
        if self._why is None:
            return None
        self._why = None
        return time.monotonic() - self._since
