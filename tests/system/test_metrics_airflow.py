"""What a StatsD server hears of a real Airflow: from the triggerer while a worker is deferred, and from its task."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow_group import Group
from statsd_server import Line

from airflow_provider.broker.local_broker import LocalBroker
from demo.airflow import LocalAirflow

HERE = Path(__file__).parent


class Mailbox:
    """A UDP socket whose datagrams wait in the kernel until somebody looks."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self._lines: list[Line] = []
        self.port: int = listening.getsockname()[1]

    def named(self, name: str) -> list[Line]:
        while True:
            try:
                data, sender = self._socket.recvfrom(65_536)
            except BlockingIOError:
                return [line for line in self._lines if line.name == name]
            self._lines.extend(Line.of(line, sender[1]) for line in data.decode().splitlines())


@pytest.fixture
def statsd() -> Iterator[Mailbox]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield Mailbox(listening)


def test_the_triggerer_speaks_while_the_worker_is_deferred_and_its_task_while_it_runs(
    start_airflow: Callable[..., LocalAirflow], broker: LocalBroker, statsd: Mailbox
) -> None:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    airflow = start_airflow(
        [HERE / "worker_dags"],
        connections={"broker": json.dumps(connection)},
        env={
            "PYTHONPATH": str(HERE.parents[1]) + os.pathsep + os.environ.get("PYTHONPATH", ""),
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
            "AIRFLOW__COOPERATIVE_SPARK__METRICS_INTERVAL": "1",
        },
    )
    group = Group(airflow, broker.bootstrap_servers)

    def heard(metric: str, *tags: str) -> list[Line]:
        return statsd.named(".".join(("airflow", metric, group.name, *tags)))

    run = group.start("until_drained")
    group.wait_for_members("until_drained.w1")
    group.deferred("until_drained", run, "w1")
    before = len(heard("cospark.group.members"))
    told = group.api.wait_until(
        lambda: heard("cospark.group.members")[before + 2 :],
        timeout_s=60,
        what=lambda: "nobody says how the group of a deferred worker is",
    )
    triggerer = {line.port for line in told[-1:]}
    assert told[-1].value == 1

    submitted = group.start("bounded_job")
    group.api.wait_for_run("bounded_job", submitted)
    group.api.wait_for_run("until_drained", run)
    finished = heard("cospark.tasks_finished", "naps")
    assert sum(line.value for line in finished) == 5, "four tasks and their planner"
    assert triggerer.isdisjoint(line.port for line in finished), "the task's own process has counted them"
    assert heard("cospark.job.tasks", "naps", "finished")[-1].value == 4
