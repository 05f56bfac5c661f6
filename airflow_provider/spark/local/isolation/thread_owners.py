"""Which task a thread belongs to: the one whose thread has started it, whatever library did that. While it runs what
another task has handed to its pool, it belongs to that one (:mod:`.pools`).

PySpark has an active session for the process, or for a thread, and a new thread has nothing of the one that starts it.
But tasks share a process here. So while Spark runs, ``Thread.start`` hands the owner on, and ``SparkSession.active()``
and ``builder.getOrCreate()`` answer with the session of the calling thread's task. This is the same with a Spark of
this process (:mod:`.task_threads`) and with a server (:mod:`airflow_provider.spark.connect.task_threads`): these say
what else a thread needs to work for a task.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from airflow_provider.spark.local.isolation.forks import only_in_this_process
from airflow_provider.spark.local.isolation.pools import Carry, methods_that_carry

_CLIENTS: Final = frozenset({"py4j", "grpc"})
"""Their threads serve all tasks, whoever was first to need them."""

_here = threading.local()
_originals: list[tuple[type, str, Any]] = []
_INHERITED: Final = object()
"""In the place of an original that a class has from another one."""
_start_as_python_does = threading.Thread.start

Take: TypeAlias = "Callable[[], None]"
"""Called in a thread that begins to work for a task: it takes what was handed on."""


class ForeignThreadError(RuntimeError):
    """A thread that belongs to no task has asked for a task's Spark session."""


@dataclass(slots=True, eq=False)
class Owner:
    """The task that a thread works for.

    :param session: of the task
    :param hand_on: called in a thread that starts another one; None: there is nothing to hand on, as Spark has ended
    :ivar ended: its task has ended, so its threads get no session any more
    :ivar for_calls: what was handed on with its first call in a pool, for all others, because to ask Spark takes longer
        than a short call
    """

    session: Any
    hand_on: Callable[[], Take | None]
    ended: bool = False
    for_calls: Take | None = None


OwnerHere: TypeAlias = "Callable[[], Owner | None]"
"""Gives the owner of the thread that calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """The sessions of one kind of Spark.

    :param kind: their class
    :param configure: applies the settings of a builder to the session that it returns
    :param found: the owner of a thread that no task's thread has started
    :param for_nobody: what a thread of no task gets
    :param methods: others that depend on who calls them, each with its class and name
    """

    kind: Any
    configure: Callable[[Any, Any], None]
    found: Callable[[], Owner | None] = lambda: None
    for_nobody: Callable[[], Any]
    methods: Iterable[tuple[type, str, Callable[..., Any]]] = ()


def own_this_thread(owner: Owner) -> None:
    """Make this thread, and all that it starts from now on, work for the task."""
    _here.owner = owner


def disown_threads() -> None:
    """The task of this thread has ended, for the threads that it has started, too."""
    owner: Owner | None = getattr(_here, "owner", None)
    if owner is not None:
        owner.ended = True
        owner.for_calls = None
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

    _patch(sessions.kind, "getActiveSession", classmethod(get_active_session))
    _patch(sessions.kind, "active", classmethod(lambda _: session_here()))
    _patch(sessions.kind.Builder, "getOrCreate", get_or_create)
    _patch(threading.Thread, "start", _start_of(owner_here))
    for kind, name, method in (*methods_that_carry(_carry_of(owner_here)), *sessions.methods):
        _patch(kind, name, method)


def _start_of(owner_here: OwnerHere) -> Callable[[threading.Thread], None]:
    def start(thread: threading.Thread) -> None:
        owner = None if _is_started_by_client() else owner_here()
        take = None if owner is None else owner.hand_on()
        if owner is not None and take is not None:
            thread.run = _run_for(owner, take, thread.run)  # type: ignore[method-assign]  # of one thread only
        _start_as_python_does(thread)

    return start


def _carry_of(owner_here: OwnerHere) -> Carry:
    def carry(function: Callable[..., Any]) -> Callable[..., Any]:
        owner = owner_here()
        if owner is not None and owner.for_calls is None and not owner.ended:
            owner.for_calls = owner.hand_on()

        def call_for_owner(*args: Any, **kwargs: Any) -> Any:
            is_mine = getattr(_here, "owner", None) is owner
            with contextlib.nullcontext() if is_mine else _lent_to(owner, owner_here()), only_in_this_process():
                return function(*args, **kwargs)

        return call_for_owner

    return carry


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
        kind, name, original = _originals.pop()
        if original is _INHERITED:
            delattr(kind, name)
        else:
            setattr(kind, name, original)


def _patch(kind: type, name: str, value: object) -> None:
    _originals.append((kind, name, kind.__dict__.get(name, _INHERITED)))
    setattr(kind, name, value)


@contextlib.contextmanager
def _lent_to(owner: Owner | None, lender: Owner | None) -> Iterator[None]:
    """This thread works for ``owner``, and then for the lender again, unless the lender's task has ended."""
    back = None if owner is None or lender is None or lender.ended else lender.hand_on()
    mine: Owner | None = getattr(_here, "owner", None)
    _here.owner = owner
    take = None if owner is None else owner.for_calls
    if take is not None:
        take()
    try:
        yield
    finally:
        _here.owner = None if mine is None or mine.ended else mine
        if back is not None:
            back()


def _run_for(owner: Owner, take: Take, run: Callable[[], None]) -> Callable[[], None]:
    def run_for_owner() -> None:
        _here.owner = owner
        take()
        with only_in_this_process():
            run()

    return run_for_owner
