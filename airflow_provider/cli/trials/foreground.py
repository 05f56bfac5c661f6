"""Runs a server in the foreground until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn, TypeVar

from airflow_provider.cli.shared.seconds import seconds
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.servers.jars import JarsUnavailableError
from airflow_provider.servers.java import MissingPrerequisiteError
from airflow_provider.servers.own_process import PortError
from airflow_provider.servers.own_server import START_S, NotStartedError, OwnServer

_LOOK_S: Final = 0.5
_LAST_PORT: Final = 65_535
_CANNOT_RUN: Final = (
    MissingPrerequisiteError,
    JarsUnavailableError,
    PortError,
    OSError,
)

Server = TypeVar("Server", bound=OwnServer)


def add_start_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="where clients connect (default: a free one)")
    parser.add_argument(
        "--start-timeout",
        type=seconds,
        default=START_S,
        metavar="S",
        help="give up if the start takes longer than S seconds (default: %(default)g)",
    )


def serve(command: str, port: int | None, make: Callable[[], Server], welcome: Callable[[Server], str]) -> int:
    """Run a server in the foreground.

    :param command: the command's name, for messages
    :param port: the requested port
    :param welcome: the message when it has started
    :returns: the exit status
    """
    if port is not None and not 0 <= port <= _LAST_PORT:
        complain(f"{command}: --port {port}: must be from 0 (a free one) to {_LAST_PORT}")
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with make() as server:
            say(*welcome(server).split("\n"))
            while server.pid is not None:
                time.sleep(_LOOK_S)
            complain(f"{command}: {server.name} {server.end}. Its log ends with:\n{server.log_tail()}")
            return 1
    except NotStartedError as problem:
        complain(f"{command}: {problem}")
        if problem.late:
            complain(f"{command}: if its log has no error, this machine is busy: give it longer with --start-timeout S")
        return 2
    except _CANNOT_RUN as problem:
        complain(f"{command}: {problem}")
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End as with Ctrl-C, so that the server is stopped properly."""
    raise KeyboardInterrupt
