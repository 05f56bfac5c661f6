"""Names of many, in few words."""

from __future__ import annotations

import pytest

from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId


@pytest.mark.parametrize(
    ("names", "words"),
    [("", ""), ("a", "a"), ("abc", "a, b, c"), ("abcd", "a, b, c and 1 more"), ("abcde", "a, b, c and 2 more")],
)
def test_three_are_named_and_the_others_counted(names: str, words: str) -> None:
    assert in_short(list(names)) == words


def test_how_many_are_named_is_up_to_who_asks() -> None:
    assert in_short(["a", "b", "c"], most=2) == "a, b and 1 more"
    assert in_short(["a", "b", "c", "d"], most=4) == "a, b, c, d"


def test_who_has_only_the_first_ones_says_how_many_there_are() -> None:
    assert in_short(["a", "b", "c"], of=40) == "a, b, c and 37 more"
    assert in_short(["a", "b"], of=2) == "a, b"


def test_tasks_have_their_own_names() -> None:
    assert in_short([TaskId("a", 0), TaskId("a", 1)], most=1) == f"{TaskId('a', 0)} and 1 more"
