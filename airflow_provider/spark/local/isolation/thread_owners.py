"""Which task a thread belongs to: the one whose thread has started it, whatever library did that.

PySpark has an active session for the process, or for a thread, and a new thread has nothing of the one that starts it.
But tasks share a process here. So while Spark runs, ``Thread.start`` hands the owner on, and ``SparkSession.active()``
and ``builder.getOrCreate()`` answer with the session of the calling thread's task. This is the same with a Spark of
this process (:mod:`.task_threads`) and with a server (:mod:`airflow_provider.spark.connect.task_threads`): these say
what else a thread needs to work for a task.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

_CLIENTS: Final = frozenset({"py4j", "grpc"})
"""Their threads serve all tasks, whoever was first to need them."""

_here = threading.local()
_originals: list[tuple[type, str, Any]] = []
_start_as_python_does = threading.Thread.start

Take: TypeAlias = "Callable[[], None]"
"""Called first in a thread that was started: it takes what was handed on."""


class ForeignThreadError(RuntimeError):
    """A thread that belongs to no task has asked for a task's Spark session."""


@dataclass(slots=True, eq=False)
class Owner:
    """The task that a thread works for.

    :param session: of the task
    :param hand_on: called in a thread that starts another one; None: there is nothing to hand on, as Spark has ended
    :ivar ended: its task has ended, so its threads get no session any more
    """

    session: Any
    hand_on: Callable[[], Take | None]
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """The sessions of one kind of Spark.

    :param kind: their class
    :param configure: applies the settings of a builder to the session that it returns
    :param found: the owner of a thread that no task's thread has started
    :param for_nobody: what a thread of no task gets
    """

    kind: Any
    configure: Callable[[Any, Any], None]
    found: Callable[[], Owner | None] = lambda: None
    for_nobody: Callable[[], Any]


def own_this_thread(owner: Owner) -> None:
    """Make this thread, and all that it starts from now on, work for the task."""
    _here.owner = owner


def disown_threads() -> None:
    """The task of this thread has ended, for the threads that it has started, too."""
    owner: Owner | None = getattr(_here, "owner", None)
    if owner is not None:
        owner.ended = True
    _here.owner = None


def session_for_nobody() -> NoReturn:
    """What a thread of no task gets from a Spark that only tasks use.

    :raises ForeignThreadError: always
    """
    raise ForeignThreadError(
        f"thread {threading.current_thread().name!r} belongs to no task, so it has no Spark session here: a thread"
        " belongs to the task whose thread has started it. Start it within run(), or hand it the session"
    )


def install(sessions: Sessions) -> None:
    """Make threads, and what PySpark tells them of their session, those of tasks."""
    if _originals:
        return

    def owner_here() -> Owner | None:
        owner: Owner | None = getattr(_here, "owner", None)
        return owner or sessions.found()

    def session_here() -> Any:
        owner = owner_here()
        if owner is None:
            return sessions.for_nobody()
        if owner.ended:
            raise ForeignThreadError(
                f"the task of thread {threading.current_thread().name!r} has ended, and its Spark session with it"
            )
        return owner.session

    def get_active_session(_: type) -> Any:
        owner = owner_here()
        return None if owner is None or owner.ended else owner.session

    def get_or_create(self: Any) -> Any:
        session = session_here()
        sessions.configure(self, session)
        return session

    def start(thread: threading.Thread) -> None:
        owner = None if _is_started_by_client() else owner_here()
        take = None if owner is None else owner.hand_on()
        if owner is not None and take is not None:
            thread.run = _run_for(owner, take, thread.run)  # type: ignore[method-assign]  # of one thread only
        _start_as_python_does(thread)

    _patch(sessions.kind, "getActiveSession", classmethod(get_active_session))
    _patch(sessions.kind, "active", classmethod(lambda _: session_here()))
    _patch(sessions.kind.Builder, "getOrCreate", get_or_create)
    _patch(threading.Thread, "start", start)


def _is_started_by_client() -> bool:
    """Whether a client's library starts the thread: in Python, or in C on a thread without frames of Python."""
    try:
        module = str(sys._getframe(2).f_globals.get("__name__", ""))  # noqa: SLF001 - nothing else says who
    except ValueError:
        return True
    return module.partition(".")[0] in _CLIENTS


def uninstall() -> None:
    """The inverse of :func:`install`."""
    while _originals:
        setattr(*_originals.pop())


def _patch(owner: type, name: str, value: object) -> None:
    _originals.append((owner, name, owner.__dict__[name]))
    setattr(owner, name, value)


def _run_for(owner: Owner, take: Take, run: Callable[[], None]) -> Callable[[], None]:
    def run_for_owner() -> None:
        _here.owner = owner
        take()
        run()

    return run_for_owner
