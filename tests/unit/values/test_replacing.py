"""What copies a value with some fields changed does it as ``dataclasses.replace`` does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from msgspec import Struct

from airflow_provider.values.replacing import replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str
    at: Point


class Place(Struct, frozen=True, kw_only=True):
    x: int
    y: int = 0


def test_it_is_another_value_with_these_fields_changed() -> None:
    here = Point(x=1, y=2)
    named = Named(name="here", at=here)
    assert replaced(here, y=3) == replace(here, y=3) == Point(x=1, y=3)
    assert replaced(named, name="there") == Named(name="there", at=here)
    assert replaced(here) == here
    assert here == Point(x=1, y=2)


def test_msgspecs_values_are_copied_as_well() -> None:
    here = Place(x=1, y=2)
    assert replaced(here, y=3) == Place(x=1, y=3)
    assert here == Place(x=1, y=2)
    with pytest.raises(TypeError):
        replaced(here, z=3)  # type: ignore[call-arg]


def test_a_field_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError):
        replaced(Point(x=1), z=3)  # type: ignore[call-arg]
