"""What is said of something that does not work: once that it does not, and once that it does again."""

from __future__ import annotations

import time


class Trouble:
    """Of one thing that is tried again and again. One thread uses it."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._since = 0.0

    def is_news(self, why: str) -> bool:
        """It does not work. Another reason than the last one is news, too."""
        if self._why is None:
            self._since = time.monotonic()
        before, self._why = self._why, why
        return before != why

    def over(self) -> float | None:
        """It works.

        :returns: after how many seconds; None: nothing was wrong, or that was said
        """
        if self._why is None:
            return None
        self._why = None
        return time.monotonic() - self._since
