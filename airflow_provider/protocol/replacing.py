"""``dataclasses.replace`` in a third of its time, for frozen classes with slots: each event makes some new values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

T = TypeVar("T")


def replacer(kind: type[T]) -> Callable[[T, Mapping[str, object]], T]:
    """Make a function that copies a ``kind`` with some fields changed. It checks nothing: neither names nor values, nor
    does it call ``__post_init__``.
    """
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]  # mypy can't say: a dataclass
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
