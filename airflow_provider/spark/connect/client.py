"""All uses of PySpark's Spark Connect client, including its private parts, in one place."""
# ruff: noqa: SLF001 - this is what the module is for

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings, start_id
from airflow_provider.spark.connect.task_threads import install_task_threads
from airflow_provider.spark.local.errors import SparkStartError
from airflow_provider.spark.local.isolation.thread_owners import uninstall

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery


INSTALL: Final = "pip install 'pyspark-client>=4,<5'"
_RETRIES: Final = 8
_LONGEST_WAIT_MS: Final = 2_000
"""With eight retries a call then fails after eleven seconds if the server is away. With PySpark's defaults it takes ten
minutes, during which a task neither works nor stops."""
STARTS_AT_ONCE: Final = 32
"""So many queries of this process start at the same time. A server that is to start a thousand of them answers nothing
else for minutes, so it would be taken for gone."""
_STARTING: Final = threading.BoundedSemaphore(STARTS_AT_ONCE)
_LOOK_S: Final = 0.5
_EXIT_HANDLERS: Final = ("_on_exit", "_cleanup_ml_cache", "_cleanup_ml")
"""Their names in PySpark's client since 4.2, in 4.1 and in 4.0."""
_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_REMOTE: Final = "SPARK_REMOTE"


def require_client() -> str:
    """Return the version of the installed PySpark.

    :raises SparkStartError: if its Spark Connect client can't be used; the message says what is missing
    """
    try:
        import pyspark
    except ImportError as missing:
        raise SparkStartError(f"PySpark is not installed here ({missing}): {INSTALL}") from None
    try:
        import pyspark.sql.connect.session
    except ImportError as missing:
        what = " ".join(str(missing).split())
        raise SparkStartError(f"PySpark's Spark Connect client can't be imported here: {what} {INSTALL}") from None
    return str(pyspark.__version__)


def open_session(
    settings: ConnectSettings,
    user_agent: str,
    session_id: str | None = None,
    before_functions: Callable[[], None] | None = None,
) -> SparkSession:
    """Open a session. The server creates it with the first call.

    :param session_id: a new id by default
    :param before_functions: called before the first request that may carry a Python function
    """
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    channel = DefaultChannelBuilder(settings.server.url)
    channel.set("user_agent", user_agent)
    # Without one, PySpark would send any server the token in the environment.
    channel.set("token", settings.token or None)
    if session_id is not None:
        channel.set("session_id", session_id)
    session = SparkSession(connection=channel)
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_WAIT_MS)])
    _mark_starts(session)
    if before_functions is not None:
        from airflow_provider.spark.connect.python_functions import BeforeFunctions

        client: Any = session.client
        BeforeFunctions(before_functions, client._stub)
    return session


def _mark_starts(session: SparkSession) -> None:
    """Give the operations that start queries ids by which they are known (:func:`.server.is_start`). Keep these ids.
    Let only some of them be under way at a time.
    """
    client: Any = session.client
    execute = client._execute_and_fetch
    starts: list[str] = []

    def marked(request: Any, *args: Any, **more: Any) -> Any:
        if not request.plan.command.HasField("write_stream_operation_start"):
            return execute(request, *args, **more)
        request.operation_id = start_id()
        starts.append(request.operation_id)
        with _turn_to_start(client):
            return execute(request, *args, **more)

    client._execute_and_fetch = marked
    client._starts = starts


@contextlib.contextmanager
def _turn_to_start(client: Any) -> Iterator[None]:
    """Nobody waits whose channel is closed: its call fails at once."""
    has_turn = False
    while not (has_turn or client._closed):
        has_turn = _STARTING.acquire(timeout=_LOOK_S)
    try:
        yield
    finally:
        if has_turn:
            _STARTING.release()


def forget_starts(session: SparkSession, timeout_s: float) -> None:
    """Tell the server that the answers to all starts of queries were read. PySpark does it in the background, and may
    not have come to it when the channel is closed. On a server before Spark 4.2 a start would then seem to last five
    minutes more (``spark.connect.execute.manager.detachedTimeout``), and nobody could end the session meanwhile.

    :raises grpc.RpcError: if a call is not answered in time
    """
    from pyspark.sql.connect.proto import ReleaseExecuteRequest

    client: Any = session.client
    for operation_id in client._starts:
        request = ReleaseExecuteRequest(session_id=client._session_id, client_type=client._builder.userAgent)
        request.user_context.user_id = client._user_id
        request.operation_id = operation_id
        request.release_all.SetInParent()
        client._stub.ReleaseExecute(request, metadata=client._builder.metadata(), timeout=timeout_s)


def ask_version(session: SparkSession, timeout_s: float) -> str:
    """Ask the server for the version of its Spark, once and without retries.

    :raises grpc.RpcError: if the call is not answered in time, or is refused
    """
    client: Any = session.client
    request = client._analyze_plan_request_with_metadata()
    request.spark_version.SetInParent()
    answer = client._stub.AnalyzePlan(request, metadata=client._builder.metadata(), timeout=timeout_s)
    client._verify_response_integrity(answer)
    return str(answer.spark_version.version)


def release(session: SparkSession, timeout_s: float) -> None:
    """Let the server end the session with everything that runs in it, including streaming queries, and refuse all later
    calls in it. This has no effect if the server does not know the session.

    :raises grpc.RpcError: if the call is not answered in time
    """
    from pyspark.sql.connect.proto import ReleaseSessionRequest

    client: Any = session.client
    request = ReleaseSessionRequest(session_id=client._session_id, client_type=client._builder.userAgent)
    request.user_context.user_id = client._user_id
    client._stub.ReleaseSession(request, metadata=client._builder.metadata(), timeout=timeout_s)


def settle(session: SparkSession, timeout_s: float) -> None:
    """Wait until the client's background threads have told the server which responses were read."""
    concurrent.futures.wait(getattr(session.client, "_release_futures", ()), timeout=timeout_s)


def hang_up(session: SparkSession) -> None:
    """Close the channel, which ends all waiting calls, and remove the session's exit handler."""
    client: Any = session.client
    client._closed = True
    client._channel.close()
    # A collected session calls it. With PySpark 4.0 it ends a thread pool that all sessions of the process share.
    client.close = lambda: None
    for name in _EXIT_HANDLERS:
        if hasattr(client, name):
            atexit.unregister(getattr(client, name))


def is_of(query: StreamingQuery, session: SparkSession) -> bool:
    """Whether the query was started in this session."""
    return query._session.session_id == session.session_id


class RemoteMode:
    """Switches the whole process to Spark Connect, so that PySpark's functions work with remote sessions, each thread's
    with those of its task. The process can't have a Spark of its own meanwhile. Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: dict[str, str | None] = {}

    def enter(self, server: ConnectServer) -> None:
        """:raises SparkStartError: if the process has a Spark of its own"""
        with self._lock:
            if has_own_spark():
                raise SparkStartError(
                    f"this process has a Spark of its own, so it can't be a client of {server}: PySpark allows only one"
                    " of the two in a process"
                )
            if not self._users:
                self._before = {name: os.environ.get(name) for name in (_MODE, _REMOTE)}
                os.environ[_MODE], os.environ[_REMOTE] = "1", server.url
                install_task_threads()
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                uninstall()
                for name, value in self._before.items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value


REMOTE_MODE: Final = RemoteMode()


def has_own_spark() -> bool:
    """Whether this process runs a Spark application of its own. Imports nothing."""
    core = sys.modules.get("pyspark.core.context")
    return core is not None and core.SparkContext._active_spark_context is not None
