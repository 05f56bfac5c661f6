"""The option with which commands are given settings of Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable


def add_spark_conf_option(parser: argparse.ArgumentParser, what: str) -> None:
    """:param what: they are settings of"""
    parser.add_argument(
        "--spark-conf", action="append", default=[], metavar="KEY=VALUE", help=f"a setting of {what}; may be repeated"
    )


def spark_conf_of(pairs: Iterable[str]) -> dict[str, str]:
    """:raises ValueError: naming what is no pair"""
    conf = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ValueError(f"--spark-conf {pair}: must be KEY=VALUE")
        conf[key] = value
    return conf
