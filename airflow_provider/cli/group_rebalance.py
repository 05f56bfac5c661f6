"""``cospark groups rebalance``: has a group go through a round now."""

from __future__ import annotations

import argparse
import asyncio

from airflow_provider.cli.reading import group_opened
from airflow_provider.cli.terminal import complain, say
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.operations.operations import OperationError, Rebalance
from airflow_provider.operations.words import outcome_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Has a group rebalance now: lost tasks wait for their worker no longer, and the next moves not for their time."
        " Exit status: 0 asked; 1 refused, and why; 2 not possible."
    )


def run(args: argparse.Namespace, settings: KafkaSettings) -> int:
    """:raises TopicError: it is not possible"""
    return asyncio.run(_ask(args.group, settings))


async def _ask(group: str, settings: KafkaSettings) -> int:
    operation = Rebalance()
    async with group_opened(settings, group) as topics:
        try:
            outcome = await topics.carry_out(operation, by=user_at_host())
        except OperationError as refused:
            complain(f"cospark groups rebalance: group {group!r}: {refused}")
            return 1
    say(outcome_in_words(operation, outcome))
    return 0
