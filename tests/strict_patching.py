"""A test's stand-in may take no arguments that the real thing does not take.

Otherwise a call that the real thing would refuse passes in the test, also after the real thing has changed.
"""

from __future__ import annotations

import inspect
from inspect import Parameter
from types import MethodType
from typing import Any

import pytest

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def be_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``monkeypatch.setattr`` refuse a stand-in that takes more than what it replaces."""
    patch = monkeypatch.setattr

    def setattr_strictly(target: Any, name: Any, *value: Any, **options: Any) -> None:
        if value and isinstance(name, str):
            excess = takes_more(value[0], _as_defined(target, name))
            if excess:
                raise TypeError(f"what stands in for {name} takes {excess}, which the real one does not")
        patch(target, name, *value, **options)

    monkeypatch.setattr = setattr_strictly  # type: ignore[method-assign]  # the test's own


def takes_more(stand_in: object, real: object) -> str:
    """What a stand-in takes and the real thing does not; empty if nothing, or if it can't be known."""
    taken, known = _signature(stand_in), _signature(real)
    if taken is None or known is None:
        return ""
    kinds = {parameter.kind for parameter in known}
    if Parameter.VAR_POSITIONAL not in kinds:
        if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in taken):
            return "any arguments"
        if _count(taken, _POSITIONAL) > _count(known, _POSITIONAL):
            return "more arguments"
    if Parameter.VAR_KEYWORD not in kinds:
        if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in taken):
            return "any keyword"
        names = {parameter.name for parameter in known if parameter.kind in _NAMED}
        unknown = {each.name for each in taken if each.kind is Parameter.KEYWORD_ONLY} - names
        return ", ".join(sorted(unknown))
    return ""


def _as_defined(target: object, name: str) -> object:
    """A method of a class as a function that takes ``self`` or ``cls``, as its stand-in does."""
    found = inspect.getattr_static(target, name, None)
    if isinstance(
        found, (classmethod, staticmethod, MethodType)
    ):  # a bound method of another object, used as a stand-in
        return found.__func__
    return getattr(target, name, None)


def _signature(thing: object) -> list[Parameter] | None:
    if not callable(thing):
        return None
    try:
        return list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return None


def _count(parameters: list[Parameter], kinds: tuple[Any, ...]) -> int:
    return sum(parameter.kind in kinds for parameter in parameters)
