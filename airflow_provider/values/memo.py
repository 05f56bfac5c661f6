"""Remembers what was computed from an immutable value, for all users in a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Remembers the last result and the value that it was computed from. Thread-safe: at worst something is computed
    twice.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[K, V] | None = None

    @property
    def known(self) -> V | None:
        """The last result, of whatever value; None: there is none yet."""
        last = self._last
        return None if last is None else last[1]

    def get(self, about: K, work_out: Callable[[], V]) -> V:
        """The result for ``about``, which is recognized by its identity."""
        last = self._last
        if last is None or last[0] is not about:
            last = self._last = about, work_out()
        return last[1]
