"""What a test may put in the place of something."""

from __future__ import annotations

from typing import Any

import pytest


class Real:
    def method(self, one: int, *, two: int = 2) -> int:
        return one + two

    @classmethod
    def of_class(cls, one: int) -> int:
        return one

    @staticmethod
    def alone(*many: int) -> int:
        return sum(many)


def anything(*_arguments: Any) -> None: ...


def any_keyword(_self: Any, _one: int, **_keywords: Any) -> None: ...


def another_keyword(_self: Any, _one: int, *, three: int) -> None: ...


def one_more(_self: Any, _one: int, _two: int) -> None: ...


@pytest.mark.parametrize(
    ("stand_in", "excess"),
    [
        (anything, "any arguments"),
        (any_keyword, "any keyword"),
        (another_keyword, "three"),
        (one_more, "more arguments"),
    ],
)
def test_what_takes_more_than_the_real_one_is_refused(
    stand_in: Any, excess: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError, match=f"what stands in for method takes {excess}, which the real one does not"):
        monkeypatch.setattr(Real, "method", stand_in)
    assert Real().method(1) == 3


def test_what_takes_the_same_or_less_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Real, "method", lambda _self, one, *, two=5: one * two)
    monkeypatch.setattr(Real, "of_class", lambda _self, one: -one)
    monkeypatch.setattr(Real, "alone", lambda *many: len(many))
    assert (Real().method(2), Real().of_class(2), Real.alone(2, 2)) == (10, -2, 2)
