"""A mapping that changes all the time, and of which others keep snapshots.

There may be a hundred thousand entries, and dozens of snapshots a second. So these share what has not changed lately,
and only what has is copied for each.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from math import isqrt
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_LEAST_LATELY: Final = 64
_SPREAD: Final = 16
"""Of n entries, at most ``sqrt(16 n)`` are copied for a snapshot, and all of them once in so many changes."""


class MappingSnapshot(Mapping[K, V]):
    """The state of a mapping at some moment. Never changes. May be read in any thread.

    Looking up some entries costs nothing more. Whoever looks at all of them makes one dict of them first, once.

    :param shared: entries that other snapshots have, too
    :param lately: those that are different here; None: there is none of this key
    """

    __slots__ = ("_lately", "_shared")

    def __init__(self, shared: Mapping[K, V], lately: Mapping[K, V | None]) -> None:
        self._shared = shared
        self._lately = lately

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]  # its overloads
        lately = self._lately  # read before the rest, which it may have become a part of by then
        value = lately[key] if key in lately else self._shared.get(key)
        return default if value is None else value

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]  # any key may be asked for

    def __iter__(self) -> Iterator[K]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def keys(self) -> KeysView[K]:
        return self._whole().keys()

    def values(self) -> ValuesView[V]:
        return self._whole().values()

    def items(self) -> ItemsView[K, V]:
        return self._whole().items()

    def __repr__(self) -> str:
        return f"MappingSnapshot({self._whole()!r})"

    def _whole(self) -> Mapping[K, V]:
        """All entries in one. What is merged twice stays the same, so other threads may read meanwhile."""
        lately = self._lately
        if lately:
            self._shared = _merged(self._shared, lately)
            self._lately = {}
        return self._shared


class ChangingMapping(Generic[K, V]):
    """The mapping itself, without values that are None. For one thread at a time."""

    def __init__(self) -> None:
        self._shared: Mapping[K, V] = {}
        self._lately: dict[K, V | None] = {}
        self._room = _LEAST_LATELY

    def get(self, key: K) -> V | None:
        return self._lately[key] if key in self._lately else self._shared.get(key)

    def put(self, key: K, value: V | None) -> None:
        """:param value: None removes the key"""
        self._lately[key] = value
        if len(self._lately) > self._room:
            self._shared, self._lately = _merged(self._shared, self._lately), {}
            self._room = max(_LEAST_LATELY, isqrt(_SPREAD * len(self._shared)))

    def snapshot(self) -> MappingSnapshot[K, V]:
        """The present state."""
        return MappingSnapshot(self._shared, dict(self._lately))


def _merged(shared: Mapping[K, V], lately: Mapping[K, V | None]) -> dict[K, V]:
    """All entries; see :class:`MappingSnapshot`."""
    gone = [key for key, value in lately.items() if value is None]
    whole: dict[K, V | None] = {**shared, **lately}
    for key in gone:
        del whole[key]
    return whole  # type: ignore[return-value]  # those without a value are gone
