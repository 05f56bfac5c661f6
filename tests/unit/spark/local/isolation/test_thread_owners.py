"""Threads that are started while threads belong to tasks."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator

import pytest
from waiting import DEADLINE_S

from airflow_provider.spark.local.isolation.thread_owners import Sessions, install, session_for_nobody, uninstall


class Session:
    """As PySpark's."""

    class Builder:
        def getOrCreate(self) -> None: ...  # noqa: N802  # PySpark's name

    @classmethod
    def getActiveSession(cls) -> None: ...  # noqa: N802  # PySpark's name

    @classmethod
    def active(cls) -> None: ...


@pytest.fixture
def _installed() -> Iterator[None]:
    install(Sessions(kind=Session, configure=lambda _builder, _session: None, for_nobody=session_for_nobody))
    yield
    uninstall()


@pytest.mark.usefixtures("_installed")
def test_a_thread_that_is_started_from_c_runs() -> None:
    """As gRPC's does that adds the token to a call: no Python is below it."""
    ran = threading.Event()
    thread = threading.Thread(target=ran.set)
    _thread.start_new_thread(threading.Thread.start, (thread,))
    assert ran.wait(DEADLINE_S)
