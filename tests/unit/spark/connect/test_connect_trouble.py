"""How answers of a Spark Connect server, and missing ones, are understood."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import grpc
import pytest
from pyspark.errors import AnalysisException, PySparkAttributeError
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from sessions_on import session_on

from airflow_provider.spark.attempts.failures import is_retryable
from airflow_provider.spark.connect import client, connection
from airflow_provider.spark.connect.client import RemoteMode
from airflow_provider.spark.connect.connection import ConnectedServer, ServerConnection
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.connect.trouble import (
    SessionRefusedError,
    Trouble,
    UnsupportedOnConnectError,
    is_unsupported,
    trouble_of,
)
from airflow_provider.spark.local.errors import SparkAwayError, SparkFullError, SparkGoneError, SparkStartError
from airflow_provider.spark.local.isolation.thread_owners import uninstall
from airflow_provider.spark.local.spark_state import Sight

SETTINGS = ConnectSettings(server=ConnectServer(host="spark"))


class Code:
    def __init__(self, name: str) -> None:
        self.name = name


class RefusedError(Exception):
    """An error as gRPC raises it."""

    def __init__(self, code: str, details: str = "") -> None:
        super().__init__(f"<{code}: {details}>")
        self._code, self._details = code, details

    def code(self) -> Code:
        return Code(self._code)

    def details(self) -> str:
        return self._details


def of_client(code: str, message: str) -> Exception:
    """An error as PySpark's client raises it."""
    return SparkConnectGrpcException(message, grpc_status_code=grpc.StatusCode[code])


def wrapped(error: Exception) -> Exception:
    """An error that a job has raised from this one."""
    own = ValueError("the orders can't be read")
    own.__cause__ = error
    return own


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (RefusedError("UNAVAILABLE"), Trouble.AWAY),
        (RefusedError("DEADLINE_EXCEEDED"), Trouble.SLOW),
        (RefusedError("UNAUTHENTICATED"), Trouble.REFUSES),
        (RefusedError("RESOURCE_EXHAUSTED"), Trouble.FULL),
        (RefusedError("RESOURCE_EXHAUSTED", "CLIENT: Sent message larger than max (9 vs. 8)"), Trouble.OTHER),
        (of_client("RESOURCE_EXHAUSTED", "gRPC message exceeds maximum size 134217728: 200000000"), Trouble.OTHER),
        (RefusedError("RESOURCE_EXHAUSTED", "received trailing metadata size exceeds hard limit"), Trouble.OTHER),
        (RefusedError("INTERNAL", "[INVALID_HANDLE.SESSION_CHANGED] The handle"), Trouble.ENDED),
        (RefusedError("INTERNAL", "[INVALID_HANDLE.SESSION_CLOSED] The handle"), Trouble.CLOSED),
        (Exception("Cannot call methods on a stopped SparkContext."), Trouble.ENDED),
        (Exception('the return value of "org.apache.spark.SparkContext.dagScheduler()" is null'), Trouble.ENDED),
        (ValueError("a job's own"), Trouble.OTHER),
    ],
)
def test_an_error_is_classified_by_what_it_says_about_the_server(error: Exception, trouble: Trouble) -> None:
    assert trouble_of(error) is trouble


def test_an_unsupported_feature_is_recognized_by_the_error_condition() -> None:
    lacks = PySparkAttributeError(
        errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "sparkContext"}
    )
    assert is_unsupported(lacks)
    assert not is_unsupported(AttributeError("sparkContext"))


class Answers:
    """A server that answers, or raises the given errors, while time passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.answer: Exception | str = "4.9.0"
        self.asked = 0
        self.while_asked: Callable[[], None] = lambda: None
        self.hung_up = 0
        self.opened: list[object] = []
        self.forgotten: list[object] = []
        monkeypatch.setattr(connection, "ask_version", self.ask)
        monkeypatch.setattr(connection, "require_client", lambda: "4.3.0")
        monkeypatch.setattr(connection, "open_session", lambda settings, user_agent: self.open())
        monkeypatch.setattr(connection, "release", lambda session, timeout_s: None)
        monkeypatch.setattr(connection, "hang_up", self.hang_up)
        monkeypatch.setattr(connection, "REMOTE_MODE", RemoteMode())
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def open(self) -> object:
        self.opened.append(object())
        return self.opened[-1]

    def restart(self) -> None:
        self.forgotten = [*self.opened]

    def watch(self, server: ConnectedServer, for_s: float) -> Sight:
        """Look every second; returns the last sight."""
        sight = Sight.FINE
        for _ in range(round(for_s)):
            self.now += 1
            sight = server.look()
        return sight

    def ask(self, session: Any, _timeout_s: float) -> str:
        self.asked += 1
        self.while_asked()
        if session in self.forgotten:
            raise RefusedError("INTERNAL", "[INVALID_HANDLE.SESSION_CHANGED]")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def hang_up(self, _session: Any) -> None:
        self.hung_up += 1


@pytest.fixture(autouse=True)
def _no_client_any_more() -> Iterator[None]:
    yield
    uninstall()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(monkeypatch)


@pytest.mark.parametrize(
    ("error", "patience_s"),
    [
        (RefusedError("UNAVAILABLE", "refused"), connection.AWAY_S),
        (RefusedError("DEADLINE_EXCEEDED"), connection.SLOW_S),
    ],
    ids=["away", "slow"],
)
def test_a_silent_server_is_waited_for_and_given_up_in_the_end(
    answers: Answers, error: Exception, patience_s: float
) -> None:
    server = ConnectedServer(3, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session
    answers.answer = error
    assert server.look() is Sight.SILENT
    assert answers.watch(server, patience_s - 1) is Sight.SILENT
    answers.answer = "4.3.0"
    assert server.look() is Sight.FINE
    answers.answer = error
    assert server.look() is Sight.SILENT, "it was there meanwhile"
    assert answers.watch(server, patience_s) is Sight.ENDED
    gone = server.gone()
    assert isinstance(gone, SparkGoneError)
    assert gone.spark == 3
    assert f"has not answered for {patience_s:.0f} s" in str(gone)


def test_a_server_that_does_not_know_its_session_was_restarted(answers: Answers) -> None:
    link = ServerConnection(SETTINGS, "w")
    first = link.server()
    assert link.server() is first
    answers.answer = RefusedError("INTERNAL", "[INVALID_HANDLE.SESSION_CHANGED]")
    assert first.look() is Sight.ENDED
    answers.answer = "4.3.0"
    second = link.server()
    assert (first.number, second.number) == (1, 2)
    link.close()
    assert answers.hung_up == 2


def test_a_server_that_was_restarted_while_nobody_looked_is_not_taken_for_the_last_one(answers: Answers) -> None:
    link = ServerConnection(SETTINGS, "w")
    first = link.server()
    answers.restart()
    answers.now += 5
    second = link.server()
    assert not first.alive
    assert second.look() is Sight.FINE
    assert second.number == 2


def test_a_silence_that_nobody_has_watched_is_not_counted(answers: Answers) -> None:
    link = ServerConnection(SETTINGS, "w")
    server = link.server()
    answers.answer = RefusedError("UNAVAILABLE", "refused")
    assert server.look() is Sight.SILENT
    answers.now += 3600
    assert link.server() is server, "it may have been there for an hour"
    assert answers.watch(server, connection.AWAY_S - 1) is Sight.SILENT
    assert answers.watch(server, 1) is Sight.ENDED


def test_a_failure_of_a_question_from_before_the_last_answer_is_no_silence(answers: Answers) -> None:
    server = ConnectedServer(1, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session

    def another_thread_has_an_answer() -> None:
        answers.while_asked = lambda: None
        answers.now += 5
        answers.answer = "4.3.0"
        assert server.look() is Sight.FINE
        answers.answer = RefusedError("UNAVAILABLE", "refused")
        answers.now += 1

    answers.while_asked = another_thread_has_an_answer
    assert server.look() is Sight.FINE
    assert answers.watch(server, connection.AWAY_S) is Sight.SILENT
    assert answers.watch(server, 1) is Sight.ENDED


def test_an_answer_while_another_look_fails_is_no_error_of_a_task(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ConnectedServer(1, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session
    answered = threading.Thread(target=server.look)

    def now_while_it_fails() -> float:
        if answered.ident is None:
            answers.answer = "4.3.0"
            answered.start()
            answered.join(0.2)  # it has to wait
        return answers.now

    def fail() -> None:
        answers.while_asked = lambda: None
        monkeypatch.setattr(time, "monotonic", now_while_it_fails)

    answers.answer = RefusedError("UNAVAILABLE", "refused")
    answers.while_asked = fail
    assert server.look() is Sight.SILENT
    answered.join()
    assert server.look() is Sight.FINE


def test_tasks_that_start_after_an_answer_ask_nothing(answers: Answers) -> None:
    link = ServerConnection(SETTINGS, "w")
    server = link.server()
    answers.now += 100
    server.look()
    before = answers.asked
    for _ in range(1_000):
        assert link.server() is server
    assert answers.asked == before


@pytest.mark.parametrize("answer", ["4.3.0", RefusedError("DEADLINE_EXCEEDED")], ids=["fine", "silent"])
def test_tasks_that_start_at_once_share_a_look(
    answers: Answers, answer: Exception | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = ServerConnection(SETTINGS, "w")
    link.server()
    answers.answer, before = answer, answers.asked
    others = [threading.Thread(target=link.server) for _ in range(20)]
    came = set[str]()

    def monotonic() -> float:
        came.add(threading.current_thread().name)
        return answers.now

    def others_start() -> None:
        answers.while_asked = lambda: None
        for other in others:
            other.start()
        while len(came) <= len(others):
            time.sleep(0.001)
        answers.now += 1

    monkeypatch.setattr(time, "monotonic", monotonic)
    answers.now += 100
    answers.while_asked = others_start
    link.server()
    for other in others:
        other.join()
    assert answers.asked - before == 1


def test_a_start_during_the_close_opens_no_connection(answers: Answers) -> None:
    link = ServerConnection(SETTINGS, "w")
    link.server()
    answers.now += 100

    def close() -> None:
        answers.while_asked = lambda: None
        link.close()

    answers.while_asked = close
    with pytest.raises(SparkStartError, match=r"has closed its connection to sc://spark:15002$"):
        link.server()
    assert answers.hung_up == len(answers.opened) == 1


def test_a_session_that_was_not_used_can_be_closed_while_another_thread_imports_pyspark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planner beside the first task."""
    imported_in_part = ModuleType("pyspark.sql.connect.session")
    monkeypatch.setitem(sys.modules, imported_in_part.__name__, imported_in_part)
    server = ConnectedServer(1, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session
    session = session_on(server, SETTINGS)
    session.close()
    assert not session.left_open


@pytest.mark.parametrize(
    ("error", "kind", "said", "again"),
    [
        (of_client("UNAVAILABLE", "refused"), SparkGoneError, r"it does not answer \(refused\)", True),
        (wrapped(of_client("UNAVAILABLE", "refused")), SparkGoneError, r"it does not answer \(refused\)", True),
        (of_client("INTERNAL", "[INVALID_HANDLE.SESSION_CHANGED]"), SparkGoneError, "it was restarted", True),
        (RefusedError("UNAVAILABLE", "no features"), RefusedError, "no features", True),
        (RefusedError("PERMISSION_DENIED", "no features"), RefusedError, "no features", True),
        (
            of_client("INTERNAL", "[INVALID_HANDLE.SESSION_CLOSED]"),
            SessionRefusedError,
            "closed this task's session",
            True,
        ),
        (of_client("RESOURCE_EXHAUSTED", "limit"), SparkFullError, "has no capacity left for this task: limit", True),
        (of_client("PERMISSION_DENIED", "no"), SessionRefusedError, "refuses this task: no", True),
        (
            PySparkAttributeError(errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "rdd"}),
            UnsupportedOnConnectError,
            "has no SparkContext, no RDDs",
            False,
        ),
        (ValueError("a job's own"), ValueError, "a job's own", True),
    ],
)
def test_the_error_of_a_task_is_explained_and_retried_if_that_may_help(
    answers: Answers, error: Exception, kind: type[Exception], said: str, again: bool
) -> None:
    server = ConnectedServer(1, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session
    plain = session_on(server, SETTINGS).explain(error)
    assert type(plain) is kind
    assert re.search(said, str(plain))
    assert is_retryable(plain) is again
    assert server.alive is (kind is not SparkGoneError)


def test_a_full_server_is_there(answers: Answers) -> None:
    server = ConnectedServer(1, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session
    answers.answer = RefusedError("RESOURCE_EXHAUSTED", "limit")
    assert answers.watch(server, 2 * connection.SLOW_S) is Sight.FINE
    assert server.alive


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (replace(SETTINGS, token="s3cret"), "the token in the environment variable SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        (replace(SETTINGS, token="s3cret", conn_id="sc"), "the password of the connection 'sc', which is the token"),
        (replace(SETTINGS, conn_id="sc"), "the password of the connection 'sc', which is the token"),
    ],
)
def test_a_refused_worker_says_where_its_token_comes_from(
    answers: Answers, settings: ConnectSettings, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    answers.answer = RefusedError("UNAUTHENTICATED", "Invalid token")
    with pytest.raises(SparkStartError, match=rf"\(Invalid token\): check {said}$") as refused:
        ServerConnection(settings, "w").server()
    assert "s3cret" not in str(refused.value)


def test_a_worker_with_a_refused_setting_says_so_and_runs_nothing(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        conf: Any

        def set(self, name: str, _value: str) -> None:
            if name == "spark.executor.memory":
                raise AnalysisException("[CANNOT_MODIFY_CONFIG] Cannot modify it.\nSee also elsewhere")

    Session.conf = Session()
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(connection, "open_session", lambda settings, user_agent: Session())
    given = replace(SETTINGS, conf={"spark.sql.shuffle.partitions": "4", "spark.executor.memory": "4g"})
    said = (
        r"^the worker's spark_conf: the Spark Connect server sc://spark:15002 refuses 'spark\.executor\.memory' for a"
        r" session: \[CANNOT_MODIFY_CONFIG\] Cannot modify it\.$"
    )
    with pytest.raises(SparkStartError, match=said):
        ServerConnection(given, "w").server()
    assert answers.hung_up == 1
    assert ServerConnection(replace(given, conf={"spark.sql.shuffle.partitions": "4"}), "w").server().alive


def test_a_closed_session_means_the_end_of_a_server_that_knows_no_session(answers: Answers) -> None:
    server = ConnectedServer(1, SETTINGS, None)  # type: ignore[arg-type]  # nothing is asked of the session
    answers.answer = of_client("INTERNAL", "[INVALID_HANDLE.SESSION_NOT_FOUND]")
    plain = session_on(server, SETTINGS).explain(answers.answer)
    assert isinstance(plain, SparkGoneError)
    assert not server.alive


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            RefusedError("UNAVAILABLE", "connection refused"),
            r"no Spark Connect server answers at sc://spark:15002 \(conn",
        ),
        (
            RefusedError("UNAVAILABLE", "CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate"),
            "the certificate of the Spark Connect server sc://spark:15002 is not trusted here",
        ),
        (
            RefusedError("UNAUTHENTICATED", "Invalid token"),
            "does not let this worker in.*this worker has no token.*SPARK_CONNECT_AUTHENTICATE_TOKEN",
        ),
        (RefusedError("RESOURCE_EXHAUSTED", "limit"), "takes no more sessions at present"),
        (
            RefusedError("UNIMPLEMENTED", "Method not found"),
            "can't be used as a Spark Connect server: Method not found",
        ),
        ("3.5.1", r"runs Spark 3\.5\.1, and this worker has PySpark 4\.3\.0"),
    ],
)
def test_an_unusable_server_is_explained(
    answers: Answers, answer: Exception | str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    answers.answer = answer
    link = ServerConnection(SETTINGS, "w")
    with pytest.raises(SparkStartError, match=said) as raised:
        link.server()
    assert isinstance(raised.value, SparkAwayError) is said.startswith("no Spark Connect server answers")
    assert "SPARK_REMOTE" not in os.environ
    assert answers.hung_up == 1


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "before")


def test_a_process_stays_a_client_as_long_as_it_has_users(environment: None) -> None:
    mode = RemoteMode()
    mode.enter(SETTINGS.server)
    mode.enter(SETTINGS.server)
    mode.leave()
    assert os.environ["SPARK_REMOTE"] == SETTINGS.server.url
    mode.leave()
    assert "SPARK_REMOTE" not in os.environ
    assert os.environ["SPARK_CONNECT_MODE_ENABLED"] == "before"


def test_a_process_with_its_own_spark_cannot_be_a_client(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "has_own_spark", lambda: True)
    with pytest.raises(SparkStartError, match="has a Spark of its own"):
        RemoteMode().enter(SETTINGS.server)
    assert "SPARK_REMOTE" not in os.environ


@pytest.mark.parametrize("missing", ["pyspark", "pyspark.sql.connect.session"])
def test_a_missing_package_is_named_with_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SparkStartError, match=rf"(?s){missing}.*pyspark-client"):
        client.require_client()
