"""``cospark spark-connect``: a Spark Connect server in the foreground, to try things out."""

from __future__ import annotations

import argparse
import functools
import json

from airflow_provider.broker.own_process import HOST
from airflow_provider.broker.spark_connect import LocalConnectServer
from airflow_provider.cli.conf_option import SPARK, add_conf_option, conf_of
from airflow_provider.cli.terminal import complain
from airflow_provider.common.masters import own_master
from airflow_provider.driver.standalone import unreachable
from airflow_provider.trials.foreground import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="where clients connect (default: a free one)")
    parser.add_argument("--master", default="local[2]", metavar="URL", help="its Spark master (default: %(default)s)")
    add_conf_option(parser, SPARK, "its Spark")


def run(args: argparse.Namespace) -> int:
    try:
        conf = conf_of(SPARK, args.spark_conf)
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
    make = functools.partial(LocalConnectServer, port=args.port, master=args.master, conf=conf)
    return serve("cospark spark-connect", args.port, make, _welcome)


def _welcome(server: LocalConnectServer) -> str:
    connection = {"conn_type": "spark_connect", "host": HOST, "port": int(server.url.rpartition(":")[2])}
    return f"""\
Spark Connect listens on {server.url}. It does not authenticate its clients: it is for trials on this machine.

For cospark, in another terminal:
  cospark worker GROUP --allow MODULE --spark-master {server.url}
For Airflow:
  export AIRFLOW_CONN_SPARK_CONNECT_DEFAULT='{json.dumps(connection)}'

Ctrl-C stops it."""
