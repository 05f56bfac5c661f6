"""Checks names given on the command line: the errors of Kafka's clients for bad names don't help."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from airflow_provider.integration.operator_parameters.parameters import group_name, worker_name


def add_group_argument(parser: argparse.ArgumentParser, meaning: str = "the group's name") -> None:
    parser.add_argument("group", type=_group, help=meaning)


def add_worker_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--worker",
        type=_worker,
        metavar="NAME",
        help="the worker's name in the group; keep it the same over restarts (default: host name and process number)",
    )
    # The option's first name, which service definitions still use.
    parser.add_argument("--instance-id", dest="worker", type=_worker, help=argparse.SUPPRESS)


def _group(text: str) -> str:
    return _checked(group_name, text)


def _worker(text: str) -> str:
    return _checked(worker_name, text)


def _checked(check: Callable[[str], str], text: str) -> str:
    """:raises ArgumentTypeError: saying what is wrong; argparse names the argument"""
    try:
        return check(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong).partition(": ")[2]) from wrong
