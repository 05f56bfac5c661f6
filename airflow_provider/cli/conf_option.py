"""The options by which commands take settings of Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

SPARK: Final = "--spark-conf"
"""Of a whole Spark."""
SESSION: Final = "--session-conf"
"""Of each task's session. Named differently, as an operator's parameters are: what a Spark takes a session may not."""


def add_conf_option(parser: argparse.ArgumentParser, option: str, what: str) -> None:
    """:param what: they are settings of"""
    parser.add_argument(
        option, action="append", default=[], metavar="KEY=VALUE", help=f"a setting of {what}; may be repeated"
    )


def conf_of(option: str, pairs: Iterable[str]) -> dict[str, str]:
    """:raises ValueError: naming what is no pair"""
    conf = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ValueError(f"{option} {pair}: must be KEY=VALUE")
        conf[key] = value
    return conf
