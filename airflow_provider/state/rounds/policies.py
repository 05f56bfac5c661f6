"""A leader's policy as people choose it, as JSON, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy, PolicyError, PolicyName
from airflow_provider.values.model import ConnectProtocol


def make_policy(
    name: PolicyName,
    *,
    max_delay_ms: int | None = None,
    max_moves: int | None = None,
    move_interval_ms: int | None = None,
) -> Policy:
    """Make the policy that a user asked for, with defaults for what is None.

    :raises PolicyError: for a setting that is out of range, missing, or has no meaning under that policy
    """
    if name is PolicyName.INCREMENTAL:
        if max_moves is None:
            raise PolicyError("max_moves", "the policy 'incremental' needs to know how many tasks may move in a round")
        return Incremental(max_moves=max_moves, **_given(move_interval_ms=move_interval_ms, max_delay_ms=max_delay_ms))
    for setting, value in (("max_moves", max_moves), ("move_interval_ms", move_interval_ms)):
        if value is not None:
            raise PolicyError(setting, f"does not apply to the policy '{name.value}', only to 'incremental'")
    if name is PolicyName.DEFERRED:
        return Deferred(**_given(max_delay_ms=max_delay_ms))
    if max_delay_ms:
        raise PolicyError("max_delay_ms", "does not apply to the policy 'immediate', under which nothing waits")
    return IMMEDIATE


def _given(**settings: int | None) -> dict[str, int]:
    """The settings without those that have defaults."""
    return {setting: value for setting, value in settings.items() if value is not None}


def check_protocol(policy: Policy, protocol: ConnectProtocol) -> None:
    """Refuse a policy of steps where every round stops everything.

    :raises PolicyError: for an incremental policy with a worker that only uses the eager protocol
    """
    if isinstance(policy, Incremental) and protocol is ConnectProtocol.EAGER:
        raise PolicyError(
            "policy", "'incremental' can't be kept with connect.protocol=eager: each round stops all tasks"
        )


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
