"""``cospark groups rebalance``: rebalances a group now."""

from __future__ import annotations

import argparse
import asyncio

from airflow_provider.cli.shared.reading import group_opened
from airflow_provider.cli.shared.terminal import say
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.state.operations.operations import Rebalance
from airflow_provider.state.operations.words import outcome_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Rebalance a group in the classic protocol now: lost tasks no longer wait for their worker, and delayed moves"
        " happen at once. Exit status: 0 asked; 1 refused; 2 not possible."
    )


def run(args: argparse.Namespace, settings: KafkaSettings) -> int:
    """Ask for a rebalance.

    :raises OperationError: if the group can't rebalance
    :raises TopicError: if its topics can't be read or written
    """
    return asyncio.run(_ask(args.group, settings))


async def _ask(group: str, settings: KafkaSettings) -> int:
    operation = Rebalance()
    async with group_opened(settings, group) as topics:
        outcome = await topics.carry_out(operation, by=user_at_host())
    say(outcome_in_words(operation, outcome))
    return 0
