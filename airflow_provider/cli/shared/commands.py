"""Adds a command below another one. Its ``--help`` says first what the list of commands says of it."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(commands: Any, name: str, meaning: str, more: str = "") -> argparse.ArgumentParser:
    """:param commands: what ``add_subparsers`` gives
    :param meaning: what the command does, as it stands in a list: without a capital and a full stop
    :param more: further sentences for its own ``--help``
    """
    description = f"{meaning[0].upper()}{meaning[1:]}. {more}".rstrip()
    parser: argparse.ArgumentParser = commands.add_parser(name, help=meaning, description=description)
    return parser
