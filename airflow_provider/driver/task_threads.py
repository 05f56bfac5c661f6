"""Which task a thread belongs to: the one whose thread has started it, whatever library did that.

PySpark has one active session for the process (``SparkSession._activeSession``), and a new thread has none of the
properties by which Spark knows its task: the tag, the pool, the description. But tasks share a process here. So
while Spark runs, ``Thread.start`` hands both on, and ``SparkSession.active()`` and ``builder.getOrCreate()`` answer
with the session of the calling thread's task. ``foreachBatch`` is called in threads of py4j: they belong to the query
that calls them.
"""
# ruff: noqa: SLF001 - PySpark has no public way

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_here = threading.local()
_originals: dict[str, Any] = {}
_start_as_python_does = threading.Thread.start


class ForeignThreadError(RuntimeError):
    """A thread that belongs to no task has asked for a task's Spark session."""


@dataclass(slots=True, eq=False)
class _Owner:
    """Whom a thread works for.

    :ivar ended: its task has ended, so its threads get no session any more
    """

    session: SparkSession
    ended: bool = False


@dataclass(frozen=True, slots=True)
class _Heritage:
    """What a thread gets from the one that starts it.

    :param properties: the local properties of that thread in the JVM: tags, pool, description
    """

    owner: _Owner
    properties: Any


def bind_session(session: SparkSession) -> None:
    """Make this thread, and all that it starts from now on, work for the task with this session."""
    _here.owner = _Owner(session)
    _activate(session)


def unbind_session() -> None:
    """The task of this thread has ended, for the threads that it has started, too."""
    owner: _Owner | None = getattr(_here, "owner", None)
    if owner is not None:
        owner.ended = True
    _here.owner = None


def session_for_nobody() -> SparkSession:
    """What a thread of no task gets from a Spark that only tasks use.

    :raises ForeignThreadError: always
    """
    raise ForeignThreadError(
        f"thread {threading.current_thread().name!r} belongs to no task, so it has no Spark session here: a thread"
        " belongs to the task whose thread has started it. Start it within run(), or hand it the session"
    )


def install_task_threads(for_nobody: Callable[[], SparkSession]) -> None:
    """Make threads and their sessions those of tasks.

    :param for_nobody: gives threads of no task their session
    """
    from pyspark.sql import SparkSession

    if _originals:
        return
    _originals["getActiveSession"] = SparkSession.__dict__["getActiveSession"]
    _originals["active"] = SparkSession.__dict__["active"]
    _originals["getOrCreate"] = SparkSession.Builder.getOrCreate

    def session_here() -> SparkSession:
        owner = _owner_here()
        if owner is None:
            return for_nobody()
        if owner.ended:
            raise ForeignThreadError(
                f"the task of thread {threading.current_thread().name!r} has ended, and its Spark session with it"
            )
        return owner.session

    def get_active_session(_: type[SparkSession]) -> SparkSession | None:
        owner = _owner_here()
        return None if owner is None or owner.ended else owner.session

    def get_or_create(self: SparkSession.Builder) -> SparkSession:
        session = session_here()
        module = type(session)._get_j_spark_session_module(session._jvm)
        module.applyModifiableSettings(session._jsparkSession, self._options)
        return session

    _patch(SparkSession, "getActiveSession", classmethod(get_active_session))
    _patch(SparkSession, "active", classmethod(lambda _: session_here()))
    _patch(SparkSession.Builder, "getOrCreate", get_or_create)
    _patch(threading.Thread, "start", _start)


def uninstall_task_threads() -> None:
    """The inverse of :func:`install_task_threads`. It needs no PySpark if that was never called."""
    if _originals:
        from pyspark.sql import SparkSession

        _patch(threading.Thread, "start", _start_as_python_does)
        _patch(SparkSession, "getActiveSession", _originals.pop("getActiveSession"))
        _patch(SparkSession, "active", _originals.pop("active"))
        _patch(SparkSession.Builder, "getOrCreate", _originals.pop("getOrCreate"))


def _patch(owner: type, name: str, value: object) -> None:
    setattr(owner, name, value)


def _start(thread: threading.Thread) -> None:
    heritage = None if _is_of_py4j(sys._getframe(1).f_globals.get("__name__", "")) else _heritage()
    if heritage is not None:
        run = thread.run

        def run_for_owner() -> None:
            _inherit(heritage)
            run()

        thread.run = run_for_owner  # type: ignore[method-assign]  # of one thread only
    _start_as_python_does(thread)


def _is_of_py4j(module: str) -> bool:
    """Whether py4j starts the thread: its threads serve all tasks, whoever was first to need them."""
    return module.partition(".")[0] == "py4j"


def _heritage() -> _Heritage | None:
    from py4j.protocol import Py4JError

    try:
        owner = _owner_here()
        if owner is None:
            return None
        return _Heritage(owner, _context_of(owner).getLocalProperties().clone())
    except (Py4JError, OSError, AttributeError):  # Spark has ended
        log.debug("Thread %s starts a thread without Spark", threading.current_thread().name, exc_info=True)
        return None


def _inherit(heritage: _Heritage) -> None:
    from py4j.protocol import Py4JError

    _here.owner = heritage.owner
    try:
        _context_of(heritage.owner).setLocalProperties(heritage.properties)
        _activate(heritage.owner.session)
    except (Py4JError, OSError, AttributeError):  # Spark has ended
        log.debug("Thread %s runs without Spark", threading.current_thread().name, exc_info=True)


def _context_of(owner: _Owner) -> Any:
    return owner.session.sparkContext._jsc.sc()


def _activate(session: SparkSession) -> None:
    """Make it the active session of this thread in the JVM."""
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def _owner_here() -> _Owner | None:
    owner: _Owner | None = getattr(_here, "owner", None)
    return owner or _query_here()


def _query_here() -> _Owner | None:
    """The query that calls ``foreachBatch`` in this thread; None: none does."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None or context._jvm is None or not _is_called_back(context):
        return None
    active = SparkSession._get_j_spark_session_class(context._jvm).getActiveSession()
    return _Owner(SparkSession(context, active.get())) if active.isDefined() else None


def _is_called_back(context: SparkContext) -> bool:
    """Whether the JVM calls this thread, and not this thread the JVM."""
    client = getattr(context._gateway, "_gateway_client", None)
    connection = None if client is None else client.get_thread_connection()
    return connection is not None and not connection.initiated_from_client
