"""A worker's connection to its Spark Connect server: whether the server answers, and whether it was restarted."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.connect.client import (
    REMOTE_MODE,
    ask_version,
    hang_up,
    open_session,
    release,
    require_client,
)
from airflow_provider.spark.connect.grpc_calls.calls import ANSWER_S
from airflow_provider.spark.connect.server import TOKEN_ENV, ConnectSettings
from airflow_provider.spark.connect.trouble import Trouble, text_of, trouble_of
from airflow_provider.spark.local.errors import SparkAwayError, SparkGoneError, SparkStartError
from airflow_provider.spark.local.spark_state import LOOK_S, Sight

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = logging.getLogger(__name__)

AWAY_S: Final = 15.0
"""A server's tasks count as lost when it has been away for this long: longer than their own calls wait."""
SLOW_S: Final = 60.0
"""The same for a server that accepts connections and does not answer: it may be overloaded."""
_UNWATCHED_S: Final = 10.0
"""After this long without a look nobody has watched the server: its silence before says nothing about this time."""
_JUST_NOW_S: Final = 2 * LOOK_S
"""A server that has answered within this time is not asked again when a task starts."""
_FIRST_ANSWER_S: Final = 60.0
RELEASE_S: Final = 30.0

_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_AUTHORITIES_ENV: Final = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""Names the file with the authorities that gRPC trusts, for all its users in a process."""


class ConnectedServer:
    """A server from its first answer until it ends or is restarted. Any thread may call it.

    :param number: counts the servers of this worker, from 1; a restarted server has a new number
    :param watch: a session in which nothing runs: as long as the server has it, it was not restarted
    """

    ui = ""

    def __init__(self, number: int, settings: ConnectSettings, watch: SparkSession) -> None:
        self.number = number
        self._settings = settings
        self._watch = watch
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._answered_at = self._looked_at = time.monotonic()
        """When the last answer came, and when the last look was over: it has just been asked for its version."""
        self._silent_since: float | None = None
        """When the first unanswered question of a silence was asked that somebody has watched ever since."""
        self._end = ""

    @property
    def alive(self) -> bool:
        return not self._end

    def gone(self) -> SparkGoneError:
        return SparkGoneError(
            f"the Spark Connect server {self._settings.server} has ended under this worker's tasks: {self._end}",
            spark=self.number,
        )

    def has_ended(self, why: str) -> None:
        """The server has ended, with everything that it ran. The first reason is kept."""
        self._end = self._end or why

    def look(self) -> Sight:
        """Ask it once."""
        if self._end:
            return Sight.ENDED
        asked_at = time.monotonic()
        try:
            ask_version(self._watch, ANSWER_S)
        except Exception as error:  # noqa: BLE001 - whatever else the client raises, it is no answer
            if trouble_of(error) is not Trouble.FULL:
                return self._unanswered(error, asked_at)
        with self._lock:
            self._answered_at = self._looked_at = time.monotonic()
            self._silent_since = None
        return Sight.FINE

    def look_before_start(self) -> None:
        """Ask it once, unless it has just answered. Tasks that start at the same time share a look."""
        came_at = time.monotonic()
        with self._starting:
            with self._lock:
                known = self._looked_at > came_at or time.monotonic() - self._answered_at <= _JUST_NOW_S
            if not known:
                self.look()

    def _unanswered(self, error: Exception, asked_at: float) -> Sight:
        trouble = trouble_of(error)
        if trouble in (Trouble.ENDED, Trouble.CLOSED):
            self.has_ended("it was restarted, or its Spark has ended")
            return Sight.ENDED
        with self._lock:
            if asked_at < self._answered_at:
                return Sight.FINE  # another thread has asked later, and had an answer
            if self._silent_since is None or asked_at - self._looked_at > _UNWATCHED_S:
                self._silent_since = asked_at
            self._looked_at = time.monotonic()
            silent_s = self._looked_at - self._silent_since
        if silent_s >= (AWAY_S if trouble is Trouble.AWAY else SLOW_S):
            self.has_ended(f"it has not answered for {silent_s:.0f} s ({text_of(error)})")
        return Sight.ENDED if self._end else Sight.SILENT

    def close(self) -> None:
        """Stop watching the server."""
        with contextlib.suppress(Exception):  # it may have ended
            if self.alive:
                release(self._watch, RELEASE_S)
        hang_up(self._watch)


class ServerConnection:
    """A worker's connection to its server. Any thread may call it.

    :param name: the user agent, which the server shows
    """

    def __init__(self, settings: ConnectSettings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._lock = threading.Lock()
        self._number = 0
        self._server: ConnectedServer | None = None
        self._closed = False

    def server(self) -> ConnectedServer:
        """The server; connects if there is none, or if the last one has ended. Nobody has looked at it while no task
        ran there: it may have been restarted meanwhile, and that would only be noticed when the next tasks have begun.

        :raises SparkStartError: if the server can't be used, or the connection is closed
        """
        last = self._server
        if last is not None:
            last.look_before_start()
        with self._lock:
            if self._closed:
                raise SparkStartError(f"this worker has closed its connection to {self._settings.server}")
            if self._server is not None and not self._server.alive:
                self._forget()
            if self._server is None:
                self._server = self._connect()
            return self._server

    def close(self) -> None:
        """Close the connection, for good: a task that is just starting opens no other one."""
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._forget()

    def _connect(self) -> ConnectedServer:
        installed = require_client()
        REMOTE_MODE.enter(self._settings.server)
        try:
            watch = open_session(self._settings, self._name)
            try:
                version = ask_version(watch, _FIRST_ANSWER_S)
                _check_version(self._settings, installed, version)
                _check_conf(self._settings, watch)
            except BaseException:
                hang_up(watch)
                raise
        except SparkStartError:
            REMOTE_MODE.leave()
            raise
        except Exception as error:
            REMOTE_MODE.leave()
            log.debug("No session of %s", self._settings.server, exc_info=True)
            raise _refusal(self._settings, error) from None  # the message repeats the error's
        self._number += 1
        log.info("Spark Connect server %s runs Spark %s", self._settings.server, version)
        return ConnectedServer(self._number, self._settings, watch)

    def _forget(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            REMOTE_MODE.leave()


def _check_version(settings: ConnectSettings, installed: str, version: str) -> None:
    """Spark Connect promises that a client works with newer servers of the same major version."""
    if version.partition(".")[0] != installed.partition(".")[0]:
        raise SparkStartError(
            f"the Spark Connect server {settings.server} runs Spark {version}, and this worker has PySpark {installed}:"
            " install a PySpark of the server's version"
        )


def _check_conf(settings: ConnectSettings, session: SparkSession) -> None:
    """If the server refused a setting of each session, this worker would fail all its tasks, which others could run."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    for name, value in settings.conf.items():
        try:
            session.conf.set(name, value)
        except (AnalysisException, IllegalArgumentException) as refused:
            why = str(refused).strip().partition("\n")[0]
            raise SparkStartError(
                f"the worker's spark_conf: the Spark Connect server {settings.server} refuses {name!r} for a session:"
                f" {why}"
            ) from None


def _refusal(settings: ConnectSettings, error: Exception) -> SparkStartError:
    is_away = trouble_of(error) is Trouble.AWAY and _UNTRUSTED not in text_of(error)
    return (SparkAwayError if is_away else SparkStartError)(_why_not(settings, error))


def _why_not(settings: ConnectSettings, error: Exception) -> str:
    server, text, trouble = settings.server, text_of(error), trouble_of(error)
    if _UNTRUSTED in text:
        return (
            f"the certificate of the Spark Connect server {server} is not trusted here ({text}): set"
            f" {_AUTHORITIES_ENV}, in this process's environment, to a file with the authority that has signed it"
        )
    if trouble in (Trouble.AWAY, Trouble.SLOW):
        return f"no Spark Connect server answers at {server} ({text}); is it started, and does it speak TLS or not?"
    if trouble is Trouble.REFUSES:
        return f"the Spark Connect server {server} does not let this worker in ({text}): {_check_token(settings)}"
    if trouble is Trouble.FULL:
        return f"the Spark Connect server {server} takes no more sessions at present ({text})"
    return f"what answers at {server} can't be used as a Spark Connect server: {text or type(error).__name__}"


def _check_token(settings: ConnectSettings) -> str:
    """What to check, depending on where the worker gets its token from."""
    if settings.conn_id:
        return f"check the password of the connection {settings.conn_id!r}, which is the token"
    if settings.token:
        return f"check the token in the environment variable {TOKEN_ENV}"
    return (
        "this worker has no token: it takes one from the password of a connection (spark_conn_id), and cospark from the"
        f" environment variable {TOKEN_ENV}"
    )
