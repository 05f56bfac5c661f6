"""``cospark demo``: the main job on real data, with everything it needs started and ended around it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from airflow_provider.cli.demo.airflow import LocalAirflow
from airflow_provider.cli.demo.data import MissingDataError, lay_out
from airflow_provider.cli.demo.play import Play
from airflow_provider.cli.demo.processes import ProcessFailedError
from airflow_provider.cli.demo.verdict import print_verdict, write_verdict
from airflow_provider.kafka.broker.jars import JarsUnavailableError
from airflow_provider.kafka.local import BrokerStartError, LocalBroker

_DAGS = Path(__file__).parent / "dags"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/demo"),
        metavar="DIR",
        help="where the results go (default: build/demo)",
    )
    parser.add_argument("--keep", action="store_true", help="leave Airflow and the broker up until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    """0: the group completed, every check holds; 1: a check does not; 2: it could not be played."""
    output: Path = args.output.absolute()
    try:
        return _play(output, keep=args.keep)
    except (MissingDataError, JarsUnavailableError, BrokerStartError, ProcessFailedError) as missing:
        print(f"cospark demo: {missing}", file=sys.stderr)
        return 2


def _play(output: Path, *, keep: bool) -> int:
    began = time.monotonic()
    for folder in ("airflow", "result", "checkpoints"):
        shutil.rmtree(output / folder, ignore_errors=True)
    print("Laying out the flights of 2013 ...", flush=True)
    lay_out(output / "input")
    print("Starting a Kafka broker and Airflow ...", flush=True)
    with LocalBroker() as broker, _airflow(output, broker) as airflow:
        ready = time.monotonic()
        print(
            f"Ready after {ready - began:.0f} s: {airflow.url} (user {airflow.username}, password {airflow.password})"
        )
        play = Play(airflow, broker.bootstrap_servers)
        story = play.run()
        verdict = write_verdict(output, story)
        print_verdict(verdict, output, seconds=time.monotonic() - ready)
        if keep:
            _wait_for_interrupt(airflow, broker)
    return 0 if verdict["ok"] else 1


def _airflow(output: Path, broker: LocalBroker) -> LocalAirflow:
    return LocalAirflow(
        output / "airflow",
        dag_folders=[_DAGS],
        connections={
            "kafka_default": json.dumps(
                {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
            )
        },
        env={"COSPARK_DEMO_INPUT": str(output / "input"), "COSPARK_DEMO_OUTPUT": str(output / "result")},
    )


def _access(airflow: LocalAirflow) -> str:
    return f"{airflow.url} (user {airflow.username}, password {airflow.password})"


def _wait_for_interrupt(airflow: LocalAirflow, broker: LocalBroker) -> None:
    print(
        f"\nAirflow: {_access(airflow)}\n"
        f"Kafka:   {broker.bootstrap_servers}, for example:"
        f" cospark status flights --bootstrap-servers {broker.bootstrap_servers}\n"
        "Both stay up until Ctrl-C."
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("Ending.")
