"""``cospark broker``: a one-node Kafka broker in the foreground, to try things out."""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path

from airflow_provider.cli.shared.connection import BOOTSTRAP_ENV
from airflow_provider.cli.trials.foreground import add_start_options, serve
from airflow_provider.servers.local_broker import KAFKA_VERSION, LocalBroker


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_start_options(parser)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep topics and groups here (default: a folder that is removed)"
    )


def run(args: argparse.Namespace) -> int:
    make = functools.partial(LocalBroker, port=args.port, data=args.data, start_timeout_s=args.start_timeout)
    return serve("cospark broker", args.port, make, lambda broker: _welcome(broker, args.data))


def _welcome(broker: LocalBroker, data: Path | None) -> str:
    servers = broker.bootstrap_servers
    connection = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}})
    kept = f"Topics and groups are kept in {data}." if data else "Topics and groups are deleted when it stops."
    return f"""\
Kafka {KAFKA_VERSION} listens on {servers}. {kept}

For cospark, in another terminal:
  export {BOOTSTRAP_ENV}={servers}
For Airflow:
  export AIRFLOW_CONN_KAFKA_DEFAULT='{connection}'

Ctrl-C stops it."""
