"""``cospark spark-connect``: a Spark Connect server in the foreground, to try things out."""

from __future__ import annotations

import argparse
import functools
import json
import os
import secrets
from typing import Final

from airflow_provider.cli.shared.conf_option import SPARK, add_conf_option, conf_of
from airflow_provider.cli.shared.terminal import complain
from airflow_provider.cli.trials.foreground import add_start_options, serve
from airflow_provider.servers.spark_connect import BINDING_ADDRESS, BINDING_PORT, LocalConnectServer
from airflow_provider.spark.connect.server import TOKEN_ENV
from airflow_provider.spark.local.application.standalone import unreachable
from airflow_provider.spark.masters import own_master

_HOST: Final = "localhost"
"""The one name with which PySpark sends a token without TLS."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_start_options(parser)
    parser.add_argument("--master", default="local[2]", metavar="URL", help="its Spark master (default: %(default)s)")
    add_conf_option(parser, SPARK, "its Spark")


def run(args: argparse.Namespace) -> int:
    try:
        conf = _conf(args.spark_conf)
    except ValueError as wrong:
        complain(f"cospark spark-connect: {wrong}")
        return 2
    try:
        own_master(args.master)
    except ValueError as wrong:
        complain(f"cospark spark-connect: --master: {wrong}")
        return 2
    refusals = unreachable(args.master)  # Spark itself would report this a minute later, in the server's log
    if refusals:
        complain(f"cospark spark-connect: no Spark master can be reached at {args.master} ({refusals}); is it started?")
        return 2
    token = os.environ.get(TOKEN_ENV) or secrets.token_urlsafe(24)
    make = functools.partial(
        LocalConnectServer,
        port=args.port,
        master=args.master,
        token=token,
        conf=conf,
        start_timeout_s=args.start_timeout,
    )
    return serve("cospark spark-connect", args.port, make, functools.partial(_welcome, token=token))


def _conf(pairs: list[str]) -> dict[str, str]:
    """:raises ValueError: for what is no setting, and for what would move the server"""
    conf = conf_of(SPARK, pairs)
    for name in (BINDING_ADDRESS, BINDING_PORT):
        if name in conf:
            raise ValueError(f"{SPARK} {name}: the server listens on {_HOST} only; --port sets its port")
    return conf


def _welcome(server: LocalConnectServer, token: str) -> str:
    port = int(server.url.rpartition(":")[2])
    connection = {"conn_type": "spark_connect", "host": _HOST, "port": port, "password": token}
    return f"""\
Spark Connect listens on sc://{_HOST}:{port}. It runs what it is sent by whoever has its token: it is for trials.

For cospark, in another terminal:
  export {TOKEN_ENV}={token}
  cospark worker GROUP --allow MODULE --spark-master sc://{_HOST}:{port}
For Airflow:
  export AIRFLOW_CONN_SPARK_CONNECT_DEFAULT='{json.dumps(connection)}'

Ctrl-C stops it."""
