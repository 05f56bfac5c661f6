"""An attempt waits for the end of a lost worker's session, however long that takes: a failure would use a retry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.spark.connect.ending import QueryNotStoppedError
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.job import FencedError
from airflow_provider.spark.local.errors import SparkGoneError
from airflow_provider.spark.runners import connect_task_session
from airflow_provider.spark.runners.connect_task_session import ConnectSession


class Server:
    """A server that answers until its end."""

    def __init__(self) -> None:
        self.alive = True

    def look(self) -> None: ...

    def gone(self) -> SparkGoneError:
        return SparkGoneError("it has ended", spark=1)


class Waiting:
    """An attempt, and how often it has tried to end the earlier session."""

    def __init__(self, patch: pytest.MonkeyPatch, *, ends_at: int) -> None:
        self.tries = 0
        self.fences_at = self.loses_server_at = 1_000
        self.server = Server()
        settings = ConnectSettings(server=ConnectServer(host="spark.example"))
        unused: Any = None
        self.session = ConnectSession(
            unused, settings, unused, name="w1", session_id="a", check_owner=self._check, tell_every_s=1.0
        )
        self.session.spark = self.server  # type: ignore[assignment]  # as much of it as is needed
        self._ends_at = ends_at
        patch.setattr(connect_task_session, "end_for_good", self._end)

    def go_on(self) -> None:
        unused: Any = None
        self.session._end_as_long_as_it_takes(unused)

    def _end(self, _session: Any, _server: ConnectServer, *, timeout_s: float) -> None:
        self.tries += 1
        self.server.alive = self.tries < self.loses_server_at
        if self.tries < self._ends_at:
            raise QueryNotStoppedError("it still executes what was interrupted there")

    def _check(self) -> None:
        if self.tries >= self.fences_at:
            raise FencedError("the lease is over")


def test_an_attempt_waits_until_the_earlier_session_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Waiting(monkeypatch, ends_at=3)
    attempt.go_on()
    assert attempt.tries == 3


def test_an_attempt_waits_only_while_its_lease_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Waiting(monkeypatch, ends_at=1_000)
    attempt.fences_at = 2
    with pytest.raises(FencedError):
        attempt.go_on()
    assert attempt.tries == 2


def test_an_attempt_waits_only_while_its_server_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Waiting(monkeypatch, ends_at=1_000)
    attempt.loses_server_at = 2
    with pytest.raises(SparkGoneError):
        attempt.go_on()
    assert attempt.tries == 2


def test_who_wakes_when_its_successor_has_its_session_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had seen that nobody used the session, and did not see any more that its successor took it."""
    attempt = Waiting(monkeypatch, ends_at=1)
    hung_up: list[Any] = []

    class FreezesWhenItClaims(dict[str, str]):
        def set(self, name: str, value: str) -> None:
            attempt.fences_at = 0  # the lease is over, and the successor has begun
            self[name] = value

    session = SimpleNamespace(conf=FreezesWhenItClaims())
    monkeypatch.setattr(
        connect_task_session, "open_session", lambda settings, user_agent, session_id, before_functions: session
    )
    monkeypatch.setattr(connect_task_session, "hang_up", hung_up.append)
    with pytest.raises(FencedError):
        attempt.session._begin()
    attempt.session.cancel()
    attempt.session.close()
    assert (hung_up, attempt.tries) == ([session], 0)
