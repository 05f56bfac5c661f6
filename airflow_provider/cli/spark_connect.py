"""``cospark spark-connect``: a real Spark Connect server in the foreground, to try things with."""

from __future__ import annotations

import argparse
import json
import signal
import time
from types import FrameType
from typing import Final, NoReturn

from airflow_provider.broker.java import MissingPrerequisiteError
from airflow_provider.broker.own_process import HOST, PortError
from airflow_provider.broker.spark_connect import LocalConnectServer, ServerStartError
from airflow_provider.cli.terminal import complain, say

_LOOK_S: Final = 0.5
_LAST_PORT: Final = 65_535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="where clients connect (default: a free one)")
    parser.add_argument("--master", default="local[2]", metavar="URL", help="of its Spark (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port <= _LAST_PORT:
        complain(f"cospark spark-connect: --port {args.port}: must be from 0 (a free one) to {_LAST_PORT}")
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with LocalConnectServer(port=args.port, master=args.master) as server:
            say(*_welcome(server).split("\n"))
            while server.pid is not None:
                time.sleep(_LOOK_S)
            complain(f"cospark spark-connect: the server has ended:\n{server.log_tail()}")
            return 1
    except (MissingPrerequisiteError, PortError, ServerStartError, OSError) as problem:
        complain(f"cospark spark-connect: {problem}")
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End as by Ctrl-C."""
    raise KeyboardInterrupt


def _welcome(server: LocalConnectServer) -> str:
    connection = {"conn_type": "spark_connect", "host": HOST, "port": int(server.url.rpartition(":")[2])}
    return f"""\
Spark Connect listens on {server.url}. Nobody has to say who he is: it is for trials, on this machine.

For cospark, in another terminal:
  cospark worker GROUP --spark-master {server.url}
For Airflow:
  export AIRFLOW_CONN_SPARK_CONNECT_DEFAULT='{json.dumps(connection)}'

Ctrl-C stops it."""
