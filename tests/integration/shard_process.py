"""A coordinator process for tests: prints which shards it serves, until it is signalled.

With ``--hang`` it pauses itself (SIGSTOP) in the middle of the transaction of a heartbeat of the member "hangs": all is
written, and only the commit is left.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from echo_machine import EchoMachine
from shard_bench import LAYOUT, settings_of_shards

from airflow_provider.group.declarative.coordinator.events import Effects, Event, RequestArrived
from airflow_provider.group.declarative.server.server import ShardServer
from airflow_provider.group.declarative.server.shard_records import kafka_log
from airflow_provider.group.declarative.server.shard_records.producer import ShardProducer

HANGS = "hangs"
_hanging = threading.Event()


class HangingMachine(EchoMachine):
    def handle(self, event: Event) -> Effects:
        if isinstance(event, RequestArrived) and getattr(event.body, "member_id", None) == HANGS:
            _hanging.set()
        return super().handle(event)


class _PausedBeforeItCommits:
    """A producer that pauses the process before it commits."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        if name == "commit_transaction" and _hanging.is_set():
            _hanging.clear()
            self._producer.flush(10)
            # To this thread: if another thread took the signal, this one could commit before all have stopped.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return getattr(self._producer, name)


class HangingProducer(ShardProducer):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._producer: Any = _PausedBeforeItCommits(self._producer)


def main(arguments: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    servers, hangs = arguments[0], "--hang" in arguments
    if hangs:
        setattr(kafka_log, "ShardProducer", HangingProducer)  # noqa: B010  mypy refuses the assignment
    faulthandler.register(signal.SIGUSR1)  # shows where its threads are when a test fails
    signalled = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: signalled.set())
    machine = HangingMachine if hangs else EchoMachine
    server = ShardServer(settings_of_shards(servers), machine, make=LAYOUT)
    server.start()
    said = None
    while not signalled.wait(0.02):
        if server.served != said:
            said = set(server.served)
            print("serves", *sorted(said), flush=True)
    server.close()
    print("closed", flush=True)
    return 0
