"""``cospark groups configure``: shows and changes the settings of a declarative group."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from typing import Final

from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.group.declarative.requests.configuring import (
    NAMES,
    GroupConfigError,
    GroupSetting,
    configure_group,
)
from airflow_provider.kafka.settings import KafkaSettings

_MEANINGS: Final = {
    "session_timeout_ms": "how long a member may be silent before it is removed",
    "heartbeat_interval_ms": "time between heartbeats of a member: at most three tenths of the session",
    "max_delay_ms": "how long the tasks of a lost worker wait for it",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Set how a declarative group (KIP-848) is coordinated: all the given settings, or none of them. Without"
        " options it shows the present settings. Exit status: 0 done; 1 refused; 2 not possible."
    )
    for name, meaning in _MEANINGS.items():
        parser.add_argument(_option(name), type=int, metavar="MS", help=meaning)
    parser.add_argument(
        "--reset",
        action="append",
        default=[],
        choices=[_option(name)[2:] for name in NAMES],
        help="use the coordinators' default again; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="show the settings as one JSON object")


def run(args: argparse.Namespace, settings: KafkaSettings) -> int:
    """Show or change the settings.

    :raises TopicError: if that is not possible
    """
    changes = {name: value for name in NAMES if (value := getattr(args, name)) is not None}
    reset = [option.replace("-", "_") for option in args.reset]
    try:
        holds = asyncio.run(configure_group(settings, args.group, changes, reset))
    except GroupConfigError as refused:
        complain(f"cospark groups configure: {refused}")
        return 1
    if args.json:
        say(json.dumps({name: one.to_json() for name, one in holds.items()}))
    else:
        say(*_lines(args.group, holds))
    return 0


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _lines(group: str, holds: Mapping[str, GroupSetting]) -> list[str]:
    width = max(map(len, holds), default=0)
    return [f"group {group}:"] + [
        f"  {_option(name)[2:]:{width}}  {_shown(one)}{' (default)' if one.is_default else ''}"
        for name, one in holds.items()
    ]


def _shown(one: GroupSetting) -> str:
    return "as the workers have it" if one.value is None else str(one.value)
