"""A cache of decoded and encoded bytes: in most rounds a worker sends, and is sent, the same as before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Generic, TypeVar

from airflow_provider.values.model import TaskId

K = TypeVar("K")
V = TypeVar("V")

_MOST_BYTES: Final = 2**25
"""About how much memory each half may take, in bytes: 130,000 tasks with short names."""
_OF_A_TASK: Final = 240
"""How much memory a task takes in a set, with its name, in bytes."""


class Recent(Generic[K, V]):
    """A cache of immutable values, in two halves. Safe for threads: at worst a value is made twice.

    When the newer half is full, the older one is dropped, but for entries that were used since.
    """

    __slots__ = ("_new", "_old", "_room")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._new: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._room = _MOST_BYTES

    def get(self, key: K) -> V | None:
        """The stored value; None if it is not in the cache."""
        known = self._new.get(key)
        if known is None:
            known = self._old.get(key)
            if known is None:
                return None
            self._put(key, known)
        return known[0]

    def put(self, key: K, value: V, tasks: Collection[TaskId], size: int) -> None:
        """Store a value, unless it alone would fill a half.

        :param tasks: those in it
        :param size: of the rest, in bytes
        """
        self._put(key, (value, size + _OF_A_TASK * len(tasks)))

    def _put(self, key: K, known: tuple[V, int]) -> None:
        size = known[1]
        if size > _MOST_BYTES:
            return
        if size > self._room:
            self._old, self._new, self._room = self._new, {}, _MOST_BYTES
        self._new[key] = known
        self._room -= size
