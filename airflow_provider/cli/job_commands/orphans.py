"""``cospark jobs orphans``: detached queries that no worker of the group watches."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any, Final

from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.connection import add_connection_arguments
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened, read_on
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.integration.memberships.deserted import status_of_those_left
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import TOKEN_ENV, AllowedServers, ConnectServer, ConnectUrlError
from airflow_provider.spark.runners.watches import handle_of
from airflow_provider.state.views.orphans import Orphan, orphans, watcher_of
from airflow_provider.worker.hands import end_orphan_queries as ending
from airflow_provider.worker.hands.servers import Servers, TokenOf

_ALLOW: Final = "--allow-spark-server"
_MEANING: Final = "list the streams on Spark Connect servers, and the drivers on clusters, that no worker watches"
_MORE: Final = "Exit status: 0 none is left; 1 some may still be running, or there is no such group; 2 not possible."


def add_action(actions: Any) -> None:
    """:param actions: what ``add_subparsers`` gives"""
    parser = add_command(actions, "orphans", _MEANING, _MORE)
    add_group_argument(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--end",
        action="store_true",
        help=f"have their servers end them: those servers that --server and {_ALLOW} name, the YARN that is"
        " configured here, and the masters that --allow-master names",
    )
    what.add_argument(
        "--forget",
        metavar="JOB:INDEX",
        help="state that this one has certainly ended, for example because its server is gone for good. If it has not,"
        " two queries may write to one checkpoint",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        type=_server_of,
        help=f"with --end: a server that may be called, with the token in the environment variable {TOKEN_ENV} if that"
        " is set; no other gets it",
    )
    parser.add_argument(
        _ALLOW,
        action="append",
        default=[],
        metavar="URL",
        type=_server_of,
        help="with --end: another server that may be called, with its user_id and use_ssl if it has these; may be"
        " repeated. The list of orphans has their servers",
    )
    parser.add_argument(
        "--allow-master",
        action="append",
        default=[],
        metavar="MASTER",
        help="with --end: a master of Kubernetes (k8s://...) that may be asked, with the credentials that are found"
        " here; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    add_connection_arguments(parser)


async def run(args: argparse.Namespace, settings: KafkaSettings) -> int:
    """0: nothing is left; 1: something is."""
    async with group_opened(settings, args.group) as topics:
        await read_on(topics)
        status = await status_of_those_left(args.group, topics, settings)
        found = list(orphans(topics.jobs, status))
        if args.forget:
            return await _forget(args.forget, found, topics)
        if args.end:
            allowed = AllowedServers(tuple(args.allow_spark_server), f"{_ALLOW} URL")
            masters = tuple(args.allow_master)
            servers = Servers(own=args.server, token_of=_token_for(args.server), allowed=allowed, masters=masters)
            left = await ending.end_all(found, topics, servers.settings_of, servers.cluster_of)
        else:
            left = [(each, each.why) for each in found]
    if args.json:
        say(json.dumps({"orphans": [_as_json(each, why, ended=args.end) for each, why in left]}))
    else:
        say(*(_in_words(each, why, ended=args.end) for each, why in left) if left else (_nothing(args.group),))
    if left and not args.end and not args.json:
        complain("cospark jobs orphans: --end ends these; --forget JOB:INDEX is for one that has certainly ended")
    if args.end and args.server is None and os.environ.get(TOKEN_ENV) and any(why for _, why in left):
        complain(
            f"cospark jobs orphans: the token in {TOKEN_ENV} was not used: name the server that it is for, --server URL"
        )
    return int(any(why for _, why in left))


async def _forget(named: str, found: Sequence[Orphan], topics: GroupTopics) -> int:
    mine = [last for last in topics.status.living() if str(last.task) == named]
    if not mine:
        complain(f"cospark jobs orphans: task {named} has no detached query, according to the group's topics")
        return 1
    abandoned = any(str(each.status.task) == named for each in found)
    watcher = None if abandoned else watcher_of(mine[-1], topics.status)
    if watcher is not None:
        complain(
            f"cospark jobs orphans: worker {watcher} watches {named}, and its server answers, so it has not ended."
            " To end it, use cospark jobs stop"
        )
        return 1
    for last in mine:
        await ending.forget(Orphan(status=last, label=named, why=""), topics)
    say(f"{named}: recorded as ended")
    return 0


def _token_for(server: ConnectServer | None) -> TokenOf:
    """Handles come from a topic. Whoever may write there must not get the token by naming a server of their own."""

    async def token_of(handle: QueryHandle) -> str:
        return os.environ.get(TOKEN_ENV, "") if handle.server == server else ""

    return token_of


def _server_of(url: str) -> ConnectServer:
    try:
        return ConnectServer.parse(url)
    except ConnectUrlError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _nothing(group: str) -> str:
    return f"group {group}: there are no orphans"


def _server(orphan: Orphan) -> str:
    try:
        return str(handle_of(orphan.status.handle).server)
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
