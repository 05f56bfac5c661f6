"""Threads that are started while threads belong to tasks."""

from __future__ import annotations

import _thread
import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import ApplyResult, ThreadPool
from typing import Any

import pytest
from waiting import DEADLINE_S

from airflow_provider.spark.local.isolation.thread_owners import (
    ForeignThreadError,
    Owner,
    Sessions,
    Take,
    disown_threads,
    install,
    own_this_thread,
    session_for_nobody,
    uninstall,
)


class Session:
    """As PySpark's."""

    class Builder:
        def getOrCreate(self) -> None: ...  # noqa: N802  # PySpark's name

    @classmethod
    def getActiveSession(cls) -> None: ...  # noqa: N802  # PySpark's name

    @classmethod
    def active(cls) -> Any: ...


in_spark = threading.local()
"""Its ``task``: whose properties Spark's JVM has for this thread."""


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


def owner(name: str) -> Owner:
    def hand_on() -> Take:
        handed = in_spark.task
        return lambda: setattr(in_spark, "task", handed)

    return Owner(name, hand_on)


def as_task(mine: Owner, act: Callable[[], Any], *, ends: bool = False) -> Any:
    """What ``act`` returns in a thread of this task, which goes on unless it ``ends``."""
    told: Future[Any] = Future()

    def run() -> None:
        own_this_thread(mine)
        in_spark.task = mine.session
        try:
            told.set_result(act())
        except ForeignThreadError as refused:
            told.set_exception(refused)
        if ends:
            disown_threads()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(DEADLINE_S)
    return told.result(0)


def who(*_: Any) -> tuple[Any, Any]:
    """The task that this thread works for, as Python and as Spark's JVM see it."""
    return Session.active(), in_spark.task


def of_callback(pool: ThreadPoolExecutor) -> Any:
    told: Future[Any] = Future()
    asked = pool.submit(who)
    asked.add_done_callback(lambda _: told.set_result(who()))
    asked.result(DEADLINE_S)
    return told.result(DEADLINE_S)


def of_result(pool: ThreadPool) -> Any:
    told: Future[Any] = Future()
    pool.apply_async(who, callback=lambda _: told.set_result(who()), error_callback=told.set_exception)
    return told.result(DEADLINE_S)


async def in_a_loop(pool: ThreadPoolExecutor) -> Any:
    return await asyncio.get_running_loop().run_in_executor(pool, who)


EXECUTORS: dict[str, Callable[[ThreadPoolExecutor], Any]] = {
    "submit": lambda pool: pool.submit(who).result(),
    "map": lambda pool: next(pool.map(who, [1])),
    "nested": lambda pool: pool.submit(lambda: ThreadPoolExecutor(1).submit(who).result()).result(),
    "asyncio": lambda pool: asyncio.run(in_a_loop(pool)),
    "callback": of_callback,
}
POOLS: dict[str, Callable[[ThreadPool], Any]] = {
    "apply": lambda pool: pool.apply(who),
    "apply_async": lambda pool: pool.apply_async(func=who).get(),
    "map": lambda pool: pool.map(who, [1])[0],
    "starmap": lambda pool: pool.starmap(who, [(1, 2)])[0],
    "imap": lambda pool: next(pool.imap(who, [1])),
    "imap_unordered": lambda pool: next(iter(pool.imap_unordered(who, [1], chunksize=2))),
    "callback": of_result,
}


def check_that_calls_belong_to_who_makes_them(ask: Callable[[], Any]) -> None:
    a, b, c = map(owner, "abc")
    assert as_task(a, ask) == ("a", "a"), "it has started the pool's thread"
    assert as_task(b, ask) == ("b", "b")
    assert as_task(a, ask, ends=True) == ("a", "a")
    assert as_task(c, ask) == ("c", "c"), "in the thread of a task that has ended"
    assert as_task(b, ask) == ("b", "b")
    with pytest.raises(ForeignThreadError, match="has ended"):
        as_task(a, ask)  # in a thread that it has left
    with pytest.raises(ForeignThreadError, match="belongs to no task"):
        ask()


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("kind", [*EXECUTORS])
def test_a_call_in_a_shared_executor_belongs_to_the_task_that_submits_it(kind: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        check_that_calls_belong_to_who_makes_them(lambda: EXECUTORS[kind](pool))


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("kind", [*POOLS])
def test_a_call_in_a_shared_pool_of_threads_belongs_to_the_task_that_makes_it(kind: str) -> None:
    pool = ThreadPool(1)
    try:
        check_that_calls_belong_to_who_makes_them(lambda: POOLS[kind](pool))
    finally:
        pool.terminate()
        pool.join()


@pytest.mark.usefixtures("_installed")
def test_a_thread_works_for_its_own_task_again_when_it_has_called_back_another_one() -> None:
    told: Future[Any] = Future()
    heard: list[Any] = []
    as_task(owner("b"), lambda: told.add_done_callback(lambda _: heard.append(who())))

    def tell() -> Any:
        in_spark.task = "a, with its own tags"
        told.set_result(None)
        return who()

    assert as_task(owner("a"), tell) == ("a", "a, with its own tags")
    assert heard == [("b", "b")]


@pytest.mark.usefixtures("_installed")
def test_pools_are_as_python_has_them_when_spark_has_ended() -> None:
    uninstall()
    assert "apply_async" not in vars(ThreadPool)
    for method in (ThreadPoolExecutor.submit, Future.add_done_callback, ApplyResult.__init__):
        assert method.__module__ in {"concurrent.futures.thread", "concurrent.futures._base", "multiprocessing.pool"}
