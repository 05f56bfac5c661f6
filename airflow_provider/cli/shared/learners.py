"""The options that say how tasks are learned before they move."""

from __future__ import annotations

import argparse
from typing import Final

from airflow_provider.assignment.learners.model import DEFAULT_LIMITS, Limits, LimitsError
from airflow_provider.values.group_protocol.learned_rule import LearnedRule

_OPTIONS: Final = {
    "per_worker": "--max-learners",
    "per_group": "--max-group-learners",
    "ready_from": "--ready-from",
    "longest_ms": "--learner-timeout-ms",
}


def add_learner_arguments(parser: argparse.ArgumentParser) -> None:
    learners = parser.add_argument_group("how tasks are learned before they move, with --connect-protocol extensible")
    learners.add_argument(
        "--learned",
        choices=[rule.value for rule in LearnedRule],
        default=LearnedRule.WHEN_READY.value,
        help="when this worker stops a task that another one learns: when it hears that the other one is ready, or at"
        " the start of every rebalance (default: %(default)s)",
    )
    learners.add_argument(
        "--max-learners",
        type=int,
        default=DEFAULT_LIMITS.per_worker,
        metavar="N",
        help="how many tasks a worker learns at a time, while this one leads the group (default: %(default)s)",
    )
    learners.add_argument(
        "--max-group-learners",
        type=int,
        default=DEFAULT_LIMITS.per_group,
        metavar="N",
        help="the same for the whole group (default: %(default)s)",
    )
    learners.add_argument(
        "--ready-from",
        type=float,
        default=DEFAULT_LIMITS.ready_from,
        metavar="PROGRESS",
        help="a task may move here when its warm-up has this progress, above 0 and at most 1 (default: %(default)s)",
    )
    learners.add_argument(
        "--learner-timeout-ms",
        type=int,
        default=DEFAULT_LIMITS.longest_ms,
        metavar="MS",
        help="a warm-up that takes longer is given up, and the task stays where it is (default: %(default)s)",
    )


def learner_limits_of(args: argparse.Namespace) -> Limits:
    """Make the limits from the options of :func:`add_learner_arguments`.

    :raises ValueError: naming the option that is wrong
    """
    try:
        return Limits(
            per_worker=args.max_learners,
            per_group=args.max_group_learners,
            ready_from=args.ready_from,
            longest_ms=args.learner_timeout_ms,
        )
    except LimitsError as wrong:
        raise ValueError(f"{_OPTIONS[wrong.limit]} {wrong.problem}") from wrong
