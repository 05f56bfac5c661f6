"""Helps to log a problem when it begins, from time to time while it lasts, and when it ends."""

from __future__ import annotations

import time
from typing import Final

_AGAIN_S: Final = 30.0


class Trouble:
    """The state of something that is tried again and again. Only one thread may use it."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._since = self._told = 0.0

    @property
    def lasts_s(self) -> float:
        """How long it has not worked, in seconds; 0: it has just begun, or all is well."""
        return 0.0 if self._why is None else time.monotonic() - self._since

    def lasting(self, words: str) -> str:
        """These words, and for how long it has not worked; empty: it has just begun."""
        return f"{words} {lasts_s:.0f} s" if (lasts_s := self.lasts_s) >= 1 else ""

    def is_news(self, why: str) -> bool:
        """Note a failure, and return whether to log it: it is the first one, has another reason than the last, or
        nothing was logged for half a minute.
        """
        now = time.monotonic()
        if self._why is None:
            self._since = now
        before, self._why = self._why, why
        news = before != why or now - self._told >= _AGAIN_S
        self._told = now if news else self._told
        return news

    def over(self) -> float | None:
        """Note that it works.

        :returns: after how many seconds it works again; None: nothing was wrong
        """
        if self._why is None:
            return None
        lasted_s, self._why = self.lasts_s, None
        return lasted_s
