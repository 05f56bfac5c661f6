"""``cospark scale GROUP``: makes a group smaller, without stopping tasks that can move."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened, read_on
from airflow_provider.cli.shared.seconds import seconds
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.integration.operator_parameters.parameters import scale_goal
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, PassingError, TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.state.reports.groups.departures import departure_in_words
from airflow_provider.state.views.slots.scaling import (
    RULE,
    Goal,
    ScaleDown,
    ScaleError,
    UnknownWorkersError,
    departure,
    scale_down,
    still_there,
)

_LOOK_S: Final = 30.0
"""How long to wait for a change before looking again."""
_SETTLE_S: Final = 0.5
"""Several workers leave in one round, so changes within this time are shown together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Ask workers to leave as soon as their batch tasks have finished and others have learned the rest; if the group"
        " learns no tasks, they leave when their running tasks have finished, and others adopt their detached streams."
        " Workers are asked in this"
        f" order: {RULE}."
    )
    add_group_argument(parser)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--to", metavar="N%", help="percentage of the present workers that stay, rounded up")
    goal.add_argument("--workers", type=int, metavar="N", help="number of workers that stay")
    goal.add_argument("--without", nargs="+", metavar="WORKER", help="names of workers that leave")
    parser.add_argument("--dry-run", action="store_true", help="show which workers would be asked, without asking them")
    parser.add_argument(
        "--within",
        type=seconds,
        metavar="S",
        help="each of them stops its tasks and leaves after S seconds at the latest (default: no limit)",
    )
    parser.add_argument("--wait", action="store_true", help="wait until they have left, and show their progress")
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="with --wait: at most S seconds (default: no limit)"
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask; 0: asked (with ``--wait``: they have left); 1: no such group or worker, or still there; 2: not possible."""
    if args.timeout is not None and not args.wait:
        return _refuse("--timeout needs --wait", 2)
    try:
        goal = scale_goal(to=args.to, workers=args.workers, without=args.without)
    except ValueError as wrong:
        return _refuse(f"--{wrong}", 2)
    try:
        return asyncio.run(_scale(args, settings_of(args), goal))
    except (NoTopicError, UnknownWorkersError) as missing:
        return _refuse(_of_group(args.group, missing), 1)
    except ScaleError as wrong:
        return _refuse(_of_group(args.group, wrong), 2)
    except (SettingsError, TopicError, TransportError) as wrong:
        return _refuse(wrong, 2)


def _of_group(group: str, wrong: Exception) -> str:
    return f"group {group!r}: {wrong}" if isinstance(wrong, ScaleError) else str(wrong)


def _refuse(wrong: object, status: int) -> int:
    complain(f"cospark scale: {wrong}")
    return status


async def _scale(args: argparse.Namespace, settings: KafkaSettings, goal: Goal) -> int:
    async with group_opened(settings, args.group) as topics:
        await read_on(topics)
        if args.dry_run:
            plan = scale_down(goal, topics.jobs, topics.status)
            _say(args, plan, "would be asked to leave")
            return 0
        began = time.monotonic()
        within_ms = None if args.within is None else round(args.within * 1000)
        plan = await topics.scale_down(goal, within_ms=within_ms, by=user_at_host())
        if not args.wait:
            _say(args, plan, "asked to leave")
            return 0
        if not args.json:
            _say(args, plan, "asked to leave")
        await read_on(topics)  # beyond the requests: a worker without a pending one has then left
        await _wait(topics, plan, began, args.timeout, tell=complain if args.json else say)
        left: Mapping[str, Any] = departure(plan.asked, topics.jobs, topics.status)
        if args.json:
            _say(args, plan, "", **left, seconds=round(time.monotonic() - began, 3))
        if left["still_there"]:
            return _refuse(f"after {args.timeout:g} s these have not left: {', '.join(left['still_there'])}", 1)
        return 0


def _say(args: argparse.Namespace, plan: ScaleDown, what: str, **more: Any) -> None:
    if args.json:
        about = {"group": args.group, "dry_run": args.dry_run, **plan.to_json(), **more}
        say(*json.dumps(about, indent=2).split("\n"))
        return
    who = (f"  {leaver.in_words}" for leaver in plan.leavers)
    say(f"group {args.group}: {what}: {plan.in_words} ({RULE})", *who, plan.what_follows)


async def _wait(
    topics: GroupTopics, plan: ScaleDown, began: float, timeout_s: float | None, tell: Callable[[str], None]
) -> None:
    """Wait until all have left or the time has ended, even while brokers are away.

    :param tell: called with the progress, whenever that has changed
    """
    said, until = "", math.inf if timeout_s is None else began + timeout_s
    while True:
        words = departure_in_words(plan.asked, topics.jobs, topics.status)
        if words != said:
            tell(f"{words}, {time.monotonic() - began:.0f} s")
            said = words
        left_s = until - time.monotonic()
        if not still_there(plan.asked, topics.jobs, topics.status) or left_s <= 0:
            return

        with suppress(PassingError):
            await topics.wait_for(
                lambda jobs, status: departure_in_words(plan.asked, jobs, status) != said,  # noqa: B023  called in here
                timeout_s=min(_LOOK_S, left_s),
            )
        await asyncio.sleep(min(_SETTLE_S, max(0.0, until - time.monotonic())))
