"""The command-line options for settings of Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

SPARK: Final = "--spark-conf"
"""Settings of a whole Spark."""
SESSION: Final = "--session-conf"
"""Settings of each task's session. It has another name, as the operator's parameters have, because a session accepts
fewer settings than a Spark."""


def add_conf_option(parser: argparse.ArgumentParser, option: str, what: str) -> None:
    """:param what: what the settings belong to, for the help text"""
    parser.add_argument(
        option, action="append", default=[], metavar="KEY=VALUE", help=f"a setting of {what}; may be repeated"
    )


def conf_of(option: str, pairs: Iterable[str]) -> dict[str, str]:
    """:raises ValueError: naming the argument that is not a pair"""
    conf = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ValueError(f"{option} {pair}: must be KEY=VALUE")
        conf[key] = value
    return conf
