"""``dataclasses.replace`` in half the time, for frozen classes with slots: each event makes several new values.
Also for msgspec's values, which are copied ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

__all__ = ["replaced"]

if TYPE_CHECKING:
    from dataclasses import replace as replaced  # so that mypy checks the fields' names and types
else:
    T = TypeVar("T")
    _REPLACERS: dict[type, Callable[[Any, Mapping[str, object]], Any]] = {}

    def replaced(value: T, /, **changes: object) -> T:
        """Copy a value with some fields changed. It neither checks the values nor calls ``__post_init__``.

        :raises KeyError: it has no such field (TypeError: one of msgspec's values has none)
        """
        kind = type(value)
        replace = _REPLACERS.get(kind)
        if replace is None:
            replace = _REPLACERS[kind] = _replacer(kind)
        return replace(value, changes)

    def _replacer(kind: type[T]) -> Callable[[T, Mapping[str, object]], T]:
        if issubclass(kind, Struct):
            return lambda value, changes: structs.replace(value, **changes)
        names = tuple(field.name for field in fields(kind))
        values_of = attrgetter(*names)
        put = {name: getattr(kind, name).__set__ for name in names}  # bypasses the frozen class's __setattr__
        puts = tuple(put.values())

        def replaced(value: T, changes: Mapping[str, object]) -> T:
            new = object.__new__(kind)
            for put_one, old in zip(puts, values_of(value), strict=True):
                put_one(new, old)
            for name, changed in changes.items():
                put[name](new, changed)
            return new

        return replaced
