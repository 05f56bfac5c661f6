"""``cospark coordinator`` serves until it is signalled."""

from __future__ import annotations

import argparse
import signal
import threading
import time

import pytest

from airflow_provider.cli.worker_commands import coordinator

SLEEP, WAIT = time.sleep, threading.Condition.wait


class Server:
    refusal = None

    def __init__(self) -> None:
        self.heard: list[str] = []

    def start(self) -> None:
        self.heard.append("start")

    def close(self) -> None:
        self.heard.append("close")


def test_a_signal_in_the_middle_of_waiting_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it holds then, its handler does not wait for it."""
    server = Server()

    def signal_it() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGTERM)

    def sleep(seconds: float) -> None:
        signal_it()
        SLEEP(seconds)

    def wait(condition: threading.Condition, timeout_s: float | None = None) -> bool:
        signal_it()
        return WAIT(condition, timeout_s)

    def made(_settings: object, _coordinator: object, _bridges: object, _observer: object) -> Server:
        return server

    monkeypatch.setattr(coordinator, "shard_server", made)
    parser = argparse.ArgumentParser()
    coordinator.add_arguments(parser)
    arguments = parser.parse_args(["--bootstrap-servers", "broker.example:9092"])
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(threading.Condition, "wait", wait)
    assert coordinator.run(arguments) == 0
    assert server.heard == ["start", "close"]
