"""``python -m demo``: the main job on real data, with everything it needs started and ended around it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Final

from airflow_provider.broker.jars import JarsUnavailableError
from airflow_provider.broker.local_broker import BrokerStartError, LocalBroker
from airflow_provider.broker.spark_connect import LocalConnectServer, ServerStartError
from airflow_provider.common.group_protocols import GroupProtocolName
from demo.airflow import LocalAirflow
from demo.data import MissingDataError, lay_out
from demo.play import Play
from demo.processes import ProcessFailedError
from demo.results import print_results, write_results

_HERE = Path(__file__).parent
_SERVER_MASTER: Final = "local[4]"
"""Of the Spark Connect server: a core for each worker's task, as workers with a Spark of their own have it."""


class Spark(Enum):
    """Where the tasks' Spark is."""

    WORKERS = "workers"
    CONNECT = "connect"


def main() -> int:
    """0: the group completed, every check holds; 1: a check does not; 2: it could not be played."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/demo"),
        metavar="DIR",
        help="where the results go (default: build/demo)",
    )
    parser.add_argument("--keep", action="store_true", help="leave Airflow and the broker up until Ctrl-C")
    parser.add_argument(
        "--group-protocol",
        choices=[name.value for name in GroupProtocolName],
        default=GroupProtocolName.CLASSIC.value,
        help="by which the workers join their group: Kafka's own (default), or as a declarative group",
    )
    parser.add_argument(
        "--spark",
        choices=[spark.value for spark in Spark],
        default=Spark.WORKERS.value,
        help="where Spark is: in the workers (default), or in a Spark Connect server for all of them",
    )
    args = parser.parse_args()
    output: Path = args.output.absolute()
    try:
        return _play(
            output, keep=args.keep, group_protocol=GroupProtocolName(args.group_protocol), spark=Spark(args.spark)
        )
    except (
        MissingDataError,
        JarsUnavailableError,
        BrokerStartError,
        ServerStartError,
        ProcessFailedError,
    ) as missing:
        print(f"demo: {missing}", file=sys.stderr)
        return 2


def _play(output: Path, *, keep: bool, group_protocol: GroupProtocolName, spark: Spark) -> int:
    began = time.monotonic()
    for folder in ("airflow", "result", "checkpoints"):
        shutil.rmtree(output / folder, ignore_errors=True)
    print("Laying out the flights of 2013 ...", flush=True)
    lay_out(output / "input")
    print("Starting a Kafka broker and Airflow ...", flush=True)
    with ExitStack() as stack:
        broker = stack.enter_context(LocalBroker())
        masters = {}
        if spark is Spark.CONNECT:
            server = stack.enter_context(LocalConnectServer(master=_SERVER_MASTER))
            print(f"The tasks run on the Spark Connect server {server.url}", flush=True)
            masters["COSPARK_DEMO_SPARK"] = server.url
        airflow = stack.enter_context(_airflow(output, broker, group_protocol, masters))
        ready = time.monotonic()
        print(
            f"Ready after {ready - began:.0f} s: {airflow.url} (user {airflow.username}, password {airflow.password})"
        )
        play = Play(airflow, broker.bootstrap_servers)
        observed = play.run()
        report = write_results(output, observed)
        print_results(report, output, seconds=time.monotonic() - ready)
        if keep:
            _wait_for_interrupt(airflow, broker)
    return 0 if report["ok"] else 1


def _airflow(
    output: Path, broker: LocalBroker, group_protocol: GroupProtocolName, masters: Mapping[str, str]
) -> LocalAirflow:
    return LocalAirflow(
        output / "airflow",
        dag_folders=[_HERE / "dags"],
        connections={
            "kafka_default": json.dumps(
                {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
            )
        },
        env={
            "COSPARK_DEMO_INPUT": str(output / "input"),
            "COSPARK_DEMO_OUTPUT": str(output / "result"),
            "AIRFLOW__COOPERATIVE_SPARK__DEFAULT_GROUP_PROTOCOL": group_protocol.value,
            "PYTHONPATH": str(_HERE.parent),  # tasks import what the job is made of
            **masters,
        },
    )


def _access(airflow: LocalAirflow) -> str:
    return f"{airflow.url} (user {airflow.username}, password {airflow.password})"


def _wait_for_interrupt(airflow: LocalAirflow, broker: LocalBroker) -> None:
    print(
        f"\nAirflow: {_access(airflow)}\n"
        f"Groups:  {airflow.url}/plugin/spark_groups, in Airflow under Browse, and beside each DAG run and task\n"
        f"Kafka:   {broker.bootstrap_servers}, for example:"
        f" cospark status flights --bootstrap-servers {broker.bootstrap_servers}\n"
        "Both stay up until Ctrl-C."
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("Ending.")


if __name__ == "__main__":
    sys.exit(main())
