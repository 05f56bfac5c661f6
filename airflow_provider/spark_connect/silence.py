"""Whether a server says nothing any more, and how seldom it is asked then."""

from __future__ import annotations

from typing import Final

SILENT_S: Final = 5.0
"""So long nothing may come of what is asked until it is told."""
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 15.0


class Silence:
    """Of one server. Times are monotonic."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._waits_s = _FIRST_WAIT_S
        self.why = ""
        """Why it is silent; empty: it is not, as far as has been told."""

    @property
    def doubtful(self) -> bool:
        """Whether the last that was asked has come to nothing."""
        return self._since is not None

    def answered(self) -> bool:
        """It has answered.

        :return: whether it had been told that it is silent
        """
        was_told = bool(self.why)
        self._since, self._waits_s, self.why = None, _FIRST_WAIT_S, ""
        return was_told

    def failed(self, why: str, *, asked_at: float, now: float) -> bool:
        """Nothing has come of a question.

        :return: whether it is to be told now that it is silent: once
        """
        self._since = asked_at if self._since is None else min(self._since, asked_at)
        if self.why or now - self._since < SILENT_S:
            return False
        self.why = why
        return True

    def wait_s(self) -> float:
        """How long to wait until the next question: longer each time."""
        waits_s = self._waits_s
        self._waits_s = min(2 * waits_s, _LONGEST_WAIT_S)
        return waits_s
