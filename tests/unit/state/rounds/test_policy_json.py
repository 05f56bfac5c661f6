"""Resolution policies as JSON, and in words."""

from __future__ import annotations

import json

import pytest

from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy
from airflow_provider.state.rounds.policy_json import policy_from_json, policy_in_words, policy_to_json


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (IMMEDIATE, "immediate (lost tasks do not wait)"),
        (Deferred(), "deferred (lost tasks wait up to 300 s)"),
        (
            Incremental(max_moves=50, move_interval_ms=1_500, max_delay_ms=0),
            "incremental (at most 50 moves a round, 1.5 s apart; lost tasks do not wait)",
        ),
    ],
)
def test_it_goes_through_json_and_is_told(policy: Policy, words: str) -> None:
    assert policy_from_json(json.loads(json.dumps(policy_to_json(policy)))) == policy
    assert policy_in_words(policy) == words


@pytest.mark.parametrize(
    "data",
    [{"name": "eventual"}, {"name": "deferred", "patience": 1}, {"name": "deferred", "max_delay_ms": "soon"}],
)
def test_json_of_something_else_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"eventual|patience|max_delay_ms"):
        policy_from_json(data)
