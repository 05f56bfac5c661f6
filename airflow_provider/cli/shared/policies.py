"""The options that choose a resolution policy, for every command that leads a group or simulates one that does."""

from __future__ import annotations

import argparse

from airflow_provider.assignment.policy import Incremental, Policy, PolicyError, PolicyName
from airflow_provider.state.rounds.policies import make_policy


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    policy = parser.add_argument_group("how an imbalance is resolved (docs/policies.md)")
    policy.add_argument(
        "--policy",
        choices=[name.value for name in PolicyName],
        default=PolicyName.DEFERRED.value,
        help="immediate: lost tasks go to other workers at once; deferred: they wait for their worker; incremental:"
        " they wait, and tasks that move for balance do so in steps (default: %(default)s)",
    )
    policy.add_argument(
        "--max-delay-ms",
        "--max-delay",
        type=int,
        metavar="MS",
        help="how long lost tasks wait for their worker at most; 0: not at all (default: 300000; immediate: 0)",
    )
    policy.add_argument(
        "--max-moves", type=int, metavar="N", help="incremental: how many tasks move in a round at most"
    )
    policy.add_argument(
        "--move-interval-ms",
        type=int,
        metavar="MS",
        help="incremental: time from a round that moved tasks to the next one that moves any"
        f" (default: {Incremental.__dataclass_fields__['move_interval_ms'].default})",
    )


def policy_of(args: argparse.Namespace) -> Policy:
    """Make the policy from the options of :func:`add_policy_arguments`.

    :raises ValueError: naming the option that is wrong
    """
    try:
        return make_policy(
            PolicyName(args.policy),
            max_delay_ms=args.max_delay_ms,
            max_moves=args.max_moves,
            move_interval_ms=args.move_interval_ms,
        )
    except PolicyError as wrong:
        raise ValueError(f"--{wrong.setting.replace('_', '-')}: {wrong.problem}") from wrong
