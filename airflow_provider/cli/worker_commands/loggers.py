"""``cospark loggers``: the log levels of the jobs' code."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Final

from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened, group_read
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.integration.operator_parameters.parameters import worker_name
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.state.operations.operations import OperationError, SetLogLevel
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import LogLevel
from airflow_provider.values.model import WorkerId

_ACTIONS: Final = {
    "list": "show the levels that are set",
    "set": "set the level of a logger of the jobs' code, in workers that run and that start later",
    "reset": "reset the level of a logger",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, meaning in _ACTIONS.items():
        asking = add_command(actions, action, meaning)
        add_group_argument(asking)
        if action == "list":
            asking.add_argument("--json", action="store_true", help="as one JSON object, by worker (*: all) and logger")
        else:
            asking.add_argument("logger", help="as in logging.getLogger(...), of code that workers may import")
            if action == "set":
                asking.add_argument("level", choices=[level.value for level in LogLevel], help="the new level")
            asking.add_argument("--worker", metavar="NAME", help="in this worker only (default: in all)")
        add_connection_arguments(asking)


def run(args: argparse.Namespace) -> int:
    """Run the action; 0: done; 1: no such group, or not a logger's name; 2: not possible."""
    try:
        return asyncio.run((_list if args.action == "list" else _set)(args, settings_of(args)))
    except (NoTopicError, OperationError) as wrong:
        return _refuse(args, wrong, 1)
    except (SettingsError, TopicError, TransportError, ValueError) as wrong:
        return _refuse(args, wrong, 2)


def _refuse(args: argparse.Namespace, wrong: object, status: int) -> int:
    complain(f"cospark loggers {args.action}: {wrong}")
    return status


async def _list(args: argparse.Namespace, settings: KafkaSettings) -> int:
    async with group_read(settings, args.group) as topics:
        records = topics.jobs.levels
    if args.json:
        say(json.dumps({worker: record.to_json()["levels"] for worker, record in sorted(records.items())}))
        return 0
    lines = [
        f"{logger}: {level.value}, in {record.worker if record.worker != '*' else 'all workers'}"
        for _, record in sorted(records.items())
        for logger, level in sorted(record.levels.items())
    ]
    say(*(lines or [f"group {args.group}: no level is set"]))
    return 0


async def _set(args: argparse.Namespace, settings: KafkaSettings) -> int:
    worker = None if args.worker is None else WorkerId(worker_name(args.worker))
    level = LogLevel(args.level) if args.action == "set" else None
    operation = SetLogLevel(logger=args.logger, level=level, worker=worker)
    async with group_opened(settings, args.group) as topics:
        outcome = await topics.carry_out(operation, by=user_at_host())
    say(outcome_in_words(operation, outcome))
    return 0
