"""The threads of tasks with a Spark of this process (:mod:`.thread_owners`).

A new thread has none of the properties by which Spark's JVM knows its task: the tag, the pool, the description.
``foreachBatch`` is called in threads of py4j: they belong to the query that calls them.
"""
# ruff: noqa: SLF001 - PySpark has no public way

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider.spark.local.isolation.called_back import methods_that_answer_once
from airflow_provider.spark.local.isolation.own_jobs import methods_that_spare_others
from airflow_provider.spark.local.isolation.thread_owners import (
    Owner,
    Sessions,
    Take,
    disown_threads,
    install,
    own_this_thread,
    session_for_nobody,
    uninstall,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["bind_session", "install_task_threads", "session_for_nobody", "unbind_session", "uninstall_task_threads"]

log = logging.getLogger(__name__)


def bind_session(session: SparkSession) -> None:
    """Make this thread, and all that it starts from now on, work for the task with this session."""
    own_this_thread(_owner(session))
    _activate(session)


def unbind_session() -> None:
    """The task of this thread has ended, for the threads that it has started, too."""
    disown_threads()


def install_task_threads(for_nobody: Callable[[], SparkSession]) -> None:
    """Make threads and their sessions those of tasks.

    :param for_nobody: gives threads of no task their session
    """
    from pyspark.sql import SparkSession

    def configure(builder: SparkSession.Builder, session: SparkSession) -> None:
        module = type(session)._get_j_spark_session_module(session._jvm)
        module.applyModifiableSettings(session._jsparkSession, builder._options)

    install(
        Sessions(
            kind=SparkSession,
            configure=configure,
            found=_query_here,
            for_nobody=for_nobody,
            methods=(*methods_that_spare_others(), *methods_that_answer_once()),
        )
    )


def uninstall_task_threads() -> None:
    """The inverse of :func:`install_task_threads`. It needs no PySpark if that was never called."""
    uninstall()


def _owner(session: SparkSession) -> Owner:
    return Owner(session, lambda: _handed_on(session))


def _handed_on(session: SparkSession) -> Take | None:
    from py4j.protocol import Py4JError

    def take() -> None:
        try:
            _context_of(session).setLocalProperties(properties)
            _activate(session)
        except (Py4JError, OSError, AttributeError):  # Spark has ended
            log.debug("Thread %s runs without Spark", threading.current_thread().name, exc_info=True)

    try:
        properties = _context_of(session).getLocalProperties().clone()
    except (Py4JError, OSError, AttributeError):  # Spark has ended
        log.debug("Thread %s starts a thread without Spark", threading.current_thread().name, exc_info=True)
        return None
    return take


def _context_of(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc()


def _activate(session: SparkSession) -> None:
    """Make it the active session of this thread in the JVM."""
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def _query_here() -> Owner | None:
    """The query that calls ``foreachBatch`` in this thread; None: none does, or Spark has ended."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None or context._jvm is None or not _is_called_back(context):
        return None
    try:
        active = SparkSession._get_j_spark_session_class(context._jvm).getActiveSession()
        return _owner(SparkSession(context, active.get())) if active.isDefined() else None
    except (Py4JError, OSError, AttributeError):
        log.debug("Thread %s is called by a Spark that has ended", threading.current_thread().name, exc_info=True)
        return None


def _is_called_back(context: SparkContext) -> bool:
    """Whether the JVM calls this thread, and not this thread the JVM."""
    client = getattr(context._gateway, "_gateway_client", None)
    connection = None if client is None else client.get_thread_connection()
    return connection is not None and not connection.initiated_from_client
