"""A leader's policy as JSON, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from airflow_provider.assignment.policy import Incremental, Policy, PolicyName, make_policy


def policy_to_json(policy: Policy) -> dict[str, Any]:
    return {"name": policy.name.value, **asdict(policy)}


def policy_from_json(data: Mapping[str, Any]) -> Policy:
    """The inverse of :func:`policy_to_json`.

    :raises KeyError, ValueError: for anything else
    """
    settings = {setting: value for setting, value in data.items() if setting != "name"}
    try:
        return make_policy(PolicyName(data["name"]), **settings)
    except TypeError as wrong:
        raise ValueError(f"not a policy: {wrong}") from wrong


def policy_in_words(policy: Policy) -> str:
    """Describe a policy in one line."""
    wait = (
        f"lost tasks wait up to {policy.max_delay_ms / 1000:g} s" if policy.max_delay_ms else "lost tasks do not wait"
    )
    if isinstance(policy, Incremental):
        steps = f"at most {policy.max_moves} moves a round, {policy.move_interval_ms / 1000:g} s apart"
        return f"{policy.name.value} ({steps}; {wait})"
    return f"{policy.name.value} ({wait})"
