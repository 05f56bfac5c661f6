"""What follows from values that never change is worked out once, for all in a process who ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Remembers the last answer, and the one value that it was the answer for. Safe for threads: at worst they work
    something out twice.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[K, V] | None = None

    @property
    def known(self) -> V | None:
        """The last answer, for whatever it was; None if there is none yet."""
        last = self._last
        return None if last is None else last[1]

    def get(self, about: K, work_out: Callable[[], V]) -> V:
        """The answer for ``about``, which is known again by its identity."""
        last = self._last
        if last is None or last[0] is not about:
            last = self._last = about, work_out()
        return last[1]
