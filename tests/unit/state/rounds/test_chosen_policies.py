"""Resolution policies as people choose them, as JSON, and in words."""

from __future__ import annotations

import json

import pytest

from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy, PolicyError, PolicyName
from airflow_provider.state.rounds.policies import (
    check_protocol,
    make_policy,
    policy_from_json,
    policy_in_words,
    policy_to_json,
)
from airflow_provider.values.model import ConnectProtocol


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


@pytest.mark.parametrize(
    ("name", "given", "setting"),
    [
        ("deferred", {"max_delay_ms": -1}, "max_delay_ms"),
        ("deferred", {"max_delay_ms": 2**31}, "max_delay_ms"),
        ("deferred", {"max_delay_ms": True}, "max_delay_ms"),
        ("deferred", {"max_moves": 3}, "max_moves"),
        ("immediate", {"max_delay_ms": 1}, "max_delay_ms"),
        ("immediate", {"move_interval_ms": 0}, "move_interval_ms"),
        ("incremental", {}, "max_moves"),
        ("incremental", {"max_moves": 0}, "max_moves"),
        ("incremental", {"max_moves": 1, "move_interval_ms": -1}, "move_interval_ms"),
    ],
)
def test_settings_that_make_no_policy_are_named(name: str, given: dict[str, int], setting: str) -> None:
    with pytest.raises(PolicyError) as refused:
        make_policy(PolicyName(name), **given)
    assert refused.value.setting == setting
    assert str(refused.value).startswith(f"{setting}: ")


def test_immediate_is_deferred_without_a_delay() -> None:
    assert make_policy(PolicyName.IMMEDIATE) == make_policy(PolicyName.DEFERRED, max_delay_ms=0) == IMMEDIATE
    assert IMMEDIATE.name is PolicyName.IMMEDIATE


def test_steps_are_nothing_for_an_eager_group() -> None:
    with pytest.raises(PolicyError, match=r"^policy: "):
        check_protocol(Incremental(max_moves=2), ConnectProtocol.EAGER)
    check_protocol(Incremental(max_moves=2), ConnectProtocol.SESSIONED)
    check_protocol(Deferred(), ConnectProtocol.EAGER)
