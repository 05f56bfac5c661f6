"""``cospark broker``: a real one-node Kafka in the foreground, to try things with."""

from __future__ import annotations

import argparse
import json
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from airflow_provider.broker.local_broker import (
    KAFKA_VERSION,
    BrokerStartError,
    JarsUnavailableError,
    LocalBroker,
    MissingPrerequisiteError,
)
from airflow_provider.broker.own_process import PortError
from airflow_provider.cli.connection import BOOTSTRAP_ENV
from airflow_provider.cli.terminal import complain, say

_LOOK_S: Final = 0.5
_LAST_PORT: Final = 65_535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="where clients connect (default: a free one)")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep topics and groups here (default: a folder that is removed)"
    )


def run(args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port <= _LAST_PORT:
        complain(f"cospark broker: --port {args.port}: must be from 0 (a free one) to {_LAST_PORT}")
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with LocalBroker(port=args.port, data=args.data) as broker:
            say(*_welcome(broker, args.data).split("\n"))
            while broker.pid is not None:
                time.sleep(_LOOK_S)
            complain(f"cospark broker: the broker has ended:\n{broker.log_tail()}")
            return 1
    except (MissingPrerequisiteError, JarsUnavailableError, BrokerStartError, PortError, OSError) as problem:
        complain(f"cospark broker: {problem}")
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End as by Ctrl-C, so that the broker is stopped in order."""
    raise KeyboardInterrupt


def _welcome(broker: LocalBroker, data: Path | None) -> str:
    servers = broker.bootstrap_servers
    connection = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}})
    kept = f"Topics and groups are kept in {data}." if data else "Topics and groups are gone when it stops."
    return f"""\
Kafka {KAFKA_VERSION} listens on {servers}. {kept}

For cospark, in another terminal:
  export {BOOTSTRAP_ENV}={servers}
For Airflow:
  export AIRFLOW_CONN_KAFKA_DEFAULT='{connection}'

Ctrl-C stops it."""
