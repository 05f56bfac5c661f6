"""``dataclasses.replace`` in half of its time, for frozen classes with slots: each event makes some new values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replaced"]

if TYPE_CHECKING:
    from dataclasses import replace as replaced  # whose names and types mypy checks, field by field
else:
    T = TypeVar("T")
    _REPLACERS: dict[type, Callable[[Any, Mapping[str, object]], Any]] = {}

    def replaced(value: T, /, **changes: object) -> T:
        """A copy of a value with some fields changed. The values are not checked, nor is ``__post_init__`` called.

        :raises KeyError: it has no such field
        """
        kind = type(value)
        replace = _REPLACERS.get(kind)
        if replace is None:
            replace = _REPLACERS[kind] = _replacer(kind)
        return replace(value, changes)

    def _replacer(kind: type[T]) -> Callable[[T, Mapping[str, object]], T]:
        names = tuple(field.name for field in fields(kind))
        values_of = attrgetter(*names)
        put = {name: getattr(kind, name).__set__ for name in names}  # past the frozen class's own __setattr__
        puts = tuple(put.values())

        def replaced(value: T, changes: Mapping[str, object]) -> T:
            new = object.__new__(kind)
            for put_one, old in zip(puts, values_of(value), strict=True):
                put_one(new, old)
            for name, changed in changes.items():
                put[name](new, changed)
            return new

        return replaced
