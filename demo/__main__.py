"""``python -m demo``: runs the main job on real data, and starts and ends everything that it needs."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from airflow_provider.integration.memberships.group_protocols import GroupProtocolName
from airflow_provider.servers.jars import JarsUnavailableError
from airflow_provider.servers.local_broker import BrokerStartError, LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer, ServerStartError
from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApiError
from demo.data import MissingDataError, lay_out
from demo.play import Play
from demo.processes import ProcessFailedError
from demo.results import print_results, write_results

_HERE = Path(__file__).parent
_SERVER_MASTER: Final = "local[4]"
"""The Spark Connect server's Spark master: one core for each worker's task, as workers with their own Spark have."""


class Spark(Enum):
    """Where the tasks' Spark runs."""

    WORKERS = "workers"
    CONNECT = "connect"


def main() -> int:
    """Run the demo; 0: the group completed, and all checks passed; 1: a check failed; 2: not possible; 130: Ctrl-C."""
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
        "--dags",
        type=_folder,
        default=[],
        action="append",
        metavar="DIR",
        help="a folder of your own DAGs, and of what they import, for this Airflow to load too",
    )
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
            output,
            args.dags,
            keep=args.keep,
            group_protocol=GroupProtocolName(args.group_protocol),
            spark=Spark(args.spark),
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
    except KeyboardInterrupt:
        print("demo: ended before it was done", file=sys.stderr)
        return 130


def _folder(name: str) -> Path:
    folder = Path(name).absolute()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    return folder


def _play(output: Path, dags: Sequence[Path], *, keep: bool, group_protocol: GroupProtocolName, spark: Spark) -> int:
    began = time.monotonic()
    for folder in ("airflow", "result", "checkpoints"):
        shutil.rmtree(output / folder, ignore_errors=True)
    print("Laying out the flights of 2013 ...", flush=True)
    lay_out(output / "input")
    print("Starting a Kafka broker and Airflow ...", flush=True)
    with ExitStack() as stack:
        broker = stack.enter_context(LocalBroker())
        connections: dict[str, dict[str, object]] = {
            "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
        }
        if spark is Spark.CONNECT:
            token = secrets.token_urlsafe(24)
            server = stack.enter_context(LocalConnectServer(master=_SERVER_MASTER, token=token))
            print(f"The tasks run on the Spark Connect server {server.url} (spark_connect_default)", flush=True)
            connections["spark_connect_default"] = {
                "conn_type": "spark_connect",
                "host": "localhost",  # with any other name PySpark sends no token without TLS
                "port": urlsplit(server.url).port,
                "password": token,
            }
        airflow = stack.enter_context(_airflow(output, dags, group_protocol, connections))
        ready = time.monotonic()
        print(
            f"Ready after {ready - began:.0f} s: {airflow.url} (user {airflow.username}, password {airflow.password})"
        )
        status = _played(Play(airflow, broker.bootstrap_servers), output, began=ready)
        if keep:
            _wait_for_interrupt(airflow, broker)
    return status


def _played(play: Play, output: Path, *, began: float) -> int:
    try:
        observed = play.run()
    except (TimeoutError, AirflowApiError) as late:
        logs = output / "airflow" / "logs"
        print(f"demo: {late}: this machine is too busy for it, or something is wrong: see {logs}", file=sys.stderr)
        return 2
    report = write_results(output, observed)
    print_results(report, output, seconds=time.monotonic() - began)
    return 0 if report["ok"] else 1


def _airflow(
    output: Path,
    dags: Sequence[Path],
    group_protocol: GroupProtocolName,
    connections: Mapping[str, Mapping[str, object]],
) -> LocalAirflow:
    return LocalAirflow(
        output / "airflow",
        dag_folders=[_HERE / "dags", *dags],
        connections={name: json.dumps(connection) for name, connection in connections.items()},
        env={
            "COSPARK_DEMO_INPUT": str(output / "input"),
            "COSPARK_DEMO_OUTPUT": str(output / "result"),
            "AIRFLOW__COOPERATIVE_SPARK__DEFAULT_GROUP_PROTOCOL": group_protocol.value,
            "PYTHONPATH": str(_HERE.parent),  # tasks import the job's modules
        },
    )


def _access(airflow: LocalAirflow) -> str:
    return f"{airflow.url} (user {airflow.username}, password {airflow.password})"


def _cospark() -> Path:
    """The path of ``cospark`` in this environment, which is rarely on the PATH."""
    command = Path(sys.executable).with_name("cospark")
    return command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command


def _wait_for_interrupt(airflow: LocalAirflow, broker: LocalBroker) -> None:
    print(
        f"\nAirflow: {_access(airflow)}\n"
        f"Groups:  {airflow.url}/plugin/spark_groups, in Airflow under Browse, and beside each DAG run and task\n"
        f"Kafka:   {broker.bootstrap_servers}, for example:"
        f" {_cospark()} status flights --bootstrap-servers {broker.bootstrap_servers}\n"
        "Both stay up until Ctrl-C."
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("Ending.")


if __name__ == "__main__":
    sys.exit(main())
