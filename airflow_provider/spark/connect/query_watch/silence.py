"""Whether a server has stopped answering, and how long to wait before the next call then."""

from __future__ import annotations

from typing import Final

SILENT_S: Final = 5.0
"""A server counts as silent when its calls have failed for this long."""
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 15.0


class Silence:
    """The silence of one server. Times are monotonic."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._waits_s = _FIRST_WAIT_S
        self.why = ""
        """Why it is silent; empty: it has not been reported as silent."""

    @property
    def doubtful(self) -> bool:
        """Whether the last call has failed."""
        return self._since is not None

    def answered(self) -> bool:
        """A call has been answered.

        :return: whether the server had been reported as silent
        """
        was_told = bool(self.why)
        self._since, self._waits_s, self.why = None, _FIRST_WAIT_S, ""
        return was_told

    def nobody_asks(self) -> None:
        """Calls that failed long ago say nothing about the next one. A silence that was reported stays known."""
        if not self.why:
            self._since, self._waits_s = None, _FIRST_WAIT_S

    def failed(self, why: str, *, asked_at: float, now: float) -> bool:
        """A call has failed.

        :return: whether to report the server as silent now: True once for each silence
        """
        self._since = asked_at if self._since is None else min(self._since, asked_at)
        if self.why or now - self._since < SILENT_S:
            return False
        self.why = why
        return True

    def wait_s(self) -> float:
        """How long to wait until the next call: longer each time."""
        waits_s = self._waits_s
        self._waits_s = min(2 * waits_s, _LONGEST_WAIT_S)
        return waits_s
