"""``cospark jobs orphans``: what runs on servers, and nobody of the group has."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any, Final

from airflow_provider.cli import declarative_groups
from airflow_provider.cli.connection import add_connection_arguments
from airflow_provider.cli.names import add_group_argument
from airflow_provider.cli.reading import group_opened, read_on
from airflow_provider.cli.terminal import complain, say
from airflow_provider.group.shared import shared_transport
from airflow_provider.hands import orphans as ending
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.ledger.orphans import Orphan, orphans
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.spark_connect.handle import QueryHandle

TOKEN_ENV: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of one
_MEANING: Final = "list the streams that run on Spark Connect servers and that no worker of the group has"
_MORE: Final = (
    f" A server that wants a token gets the one in the environment, {TOKEN_ENV}. Ends with status 1 if something is"
    " left that may run."
)


def add_action(actions: Any) -> None:
    """:param actions: what ``add_subparsers`` gives"""
    parser = actions.add_parser("orphans", help=_MEANING, description=f"{_MEANING[0].upper()}{_MEANING[1:]}.{_MORE}")
    add_group_argument(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--end", action="store_true", help="have their servers end them")
    what.add_argument(
        "--forget",
        metavar="JOB:INDEX",
        help="say that this one has certainly ended: its server is gone for good, say. Two queries may write to one"
        " checkpoint if that is not so",
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    add_connection_arguments(parser)


async def run(args: argparse.Namespace, settings: KafkaSettings) -> int:
    """0: nothing is left; 1: something is."""
    async with group_opened(settings, args.group) as topics:
        await read_on(topics)
        deserted = await _is_deserted(args.group, settings)
        found = list(orphans(topics.jobs, topics.status, deserted=deserted))
        if args.forget:
            waiting = (Orphan(status=last, label=str(task), why="") for task, last in topics.status.tasks.items())
            sure = [each for each in waiting if str(each.status.task) == args.forget and each.status.lives_on]
            if not sure:
                complain(f"cospark jobs orphans: nothing is known to run of a task {args.forget}")
                return 1
            await ending.forget(sure[0], topics)
            say(f"{args.forget}: taken for ended")
            return 0
        left = {each.label: await ending.end(each, topics, _token) if args.end else each.why for each in found}
    if args.json:
        say(json.dumps({"orphans": [_as_json(each, left[each.label], ended=args.end) for each in found]}))
    else:
        say(
            *(_in_words(each, left[each.label], ended=args.end) for each in found) if found else (_nothing(args.group),)
        )
    return int(any(left.values()))


async def _is_deserted(group: str, settings: KafkaSettings) -> bool:
    """Whether the coordinator says that nobody is in the group."""
    async with shared_transport(settings) as transport:
        (description,) = await transport.describe([group])
    if description.members or description.error not in (KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND):
        return False
    declared = await declarative_groups.read(settings, group)
    return declared is None or not declarative_groups.description_of(declared).members


async def _token(_handle: QueryHandle) -> str:
    return os.environ.get(TOKEN_ENV, "")


def _nothing(group: str) -> str:
    return f"group {group}: nothing runs on a server that nobody has"


def _server(orphan: Orphan) -> str:
    try:
        return str(QueryHandle.from_json(orphan.status.handle).server)
    except ValueError as wrong:
        return str(wrong)


def _in_words(orphan: Orphan, left: str, *, ended: bool) -> str:
    where = f"{orphan.label} on {_server(orphan)}"
    if not ended:
        return f"{where}: {left}"
    return f"{where}: may still run: {left}" if left else f"{where}: ended"


def _as_json(orphan: Orphan, left: str, *, ended: bool) -> dict[str, Any]:
    task = orphan.status.task
    return {
        "task": [task.job, task.index],
        "handle": orphan.status.handle,
        "why": orphan.why,
        "ended": ended and not left,
        "error": left if ended else "",
    }
