"""The threads of tasks whose Spark is a server (:mod:`airflow_provider.spark.local.isolation.thread_owners`).

PySpark's client keeps the active session and the tags by thread. A thread that has none would make a session for the
whole process, without a token, in which tasks could see each other's views and settings, and which no stop would reach.
"""
# ruff: noqa: SLF001 - PySpark has no public way

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider.spark.local.isolation.thread_owners import (
    Owner,
    Sessions,
    Take,
    disown_threads,
    install,
    own_this_thread,
    session_for_nobody,
)

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = logging.getLogger(__name__)


def bind_session(session: SparkSession) -> None:
    """Make this thread, and all that it starts from now on, work for the task with this session. Calls of its
    ``stop()`` by a job's code are ignored.
    """

    def stop() -> None:
        log.warning("A task called stop() on its Spark session: ignored, because its worker ends it")

    session.stop = stop  # type: ignore[method-assign]  # of one session only
    own_this_thread(Owner(session, lambda: _handed_on(session)))
    _activate(session)


def unbind_session(session: SparkSession) -> None:
    """The inverse of :func:`bind_session`, in the same thread, for the threads that it has started, too."""
    disown_threads()
    type(session)._active_session.session = None


def install_task_threads() -> None:
    """Make threads and their sessions those of tasks."""
    from pyspark.sql.connect.session import SparkSession

    def configure(builder: SparkSession.Builder, session: SparkSession) -> None:
        builder._apply_options(session)

    install(Sessions(kind=SparkSession, configure=configure, for_nobody=session_for_nobody))


def _handed_on(session: SparkSession) -> Take:
    tags = frozenset(session.client.get_tags())

    def take() -> None:
        for tag in tags:
            session.client.add_tag(tag)
        _activate(session)

    return take


def _activate(session: SparkSession) -> None:
    type(session)._active_session.session = session
