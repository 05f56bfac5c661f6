"""What is needed of PySpark's private parts, in one place.

PySpark keeps one active session a process (``SparkSession._activeSession``), where Spark itself keeps one a thread.
With a session for each task that is wrong: code of one task that asks for ``SparkSession.active()`` would get another
task's, with its temporary views. :func:`install_thread_sessions` puts that right for the threads that have called
:func:`bind_session`, and for ``foreachBatch``, which runs in threads of Spark's own.
"""
# ruff: noqa: SLF001 - this is what the module is for

from __future__ import annotations

import contextlib
import threading
from subprocess import Popen
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_bound = threading.local()
_originals: dict[str, Any] = {}


def bind_session(session: SparkSession) -> None:
    """Make ``session`` the active one of this thread, for PySpark and in the JVM."""
    _bound.session = session
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def unbind_session() -> None:
    """The inverse of :func:`bind_session`, as far as PySpark is concerned; the JVM's thread ends with this one."""
    _bound.session = None


def install_thread_sessions() -> None:
    """Make ``SparkSession.active()`` and ``builder.getOrCreate()`` answer with the session of the calling thread."""
    from pyspark.sql import SparkSession

    if _originals:
        return
    _originals["getActiveSession"] = SparkSession.__dict__["getActiveSession"]
    _originals["getOrCreate"] = SparkSession.Builder.getOrCreate
    _patch(SparkSession, "getActiveSession", classmethod(_get_active_session))
    _patch(SparkSession.Builder, "getOrCreate", _get_or_create)


def uninstall_thread_sessions() -> None:
    """The inverse of :func:`install_thread_sessions`."""
    from pyspark.sql import SparkSession

    if _originals:
        _patch(SparkSession, "getActiveSession", _originals.pop("getActiveSession"))
        _patch(SparkSession.Builder, "getOrCreate", _originals.pop("getOrCreate"))


def _patch(owner: type, name: str, value: object) -> None:
    setattr(owner, name, value)


def _get_active_session(cls: type[SparkSession]) -> SparkSession | None:
    session: SparkSession | None = getattr(_bound, "session", None)
    return session or _session_of_jvm_thread(cls)


def _session_of_jvm_thread(cls: type[SparkSession]) -> SparkSession | None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        return None
    active = cls._get_j_spark_session_class(context._jvm).getActiveSession()
    if not active.isDefined():
        return None
    root = cls._instantiatedSession
    if root is not None and root._jsparkSession.equals(active.get()):
        return root
    return cls(context, active.get())


def _get_or_create(self: SparkSession.Builder) -> SparkSession:
    session: SparkSession | None = getattr(_bound, "session", None)
    if session is None:
        created: SparkSession = _originals["getOrCreate"](self)
        return created
    module = type(session)._get_j_spark_session_module(session._jvm)
    module.applyModifiableSettings(session._jsparkSession, self._options)
    return session


def jvm_process() -> Popen[bytes] | None:
    """The JVM that PySpark has started for this process; None if there is none, or if somebody else has started it."""
    from pyspark import SparkContext

    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def forget_jvm() -> None:
    """Make PySpark start a new JVM the next time: it would go on for ever with the one that is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway, process = SparkContext._gateway, jvm_process()
    if process is not None and process.stdin is not None:
        process.stdin.close()
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    with SparkContext._lock:
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None
