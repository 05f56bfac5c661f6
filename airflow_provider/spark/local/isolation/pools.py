"""The pools of threads that tasks may share, as one of a module: a call belongs to the task that hands it to the pool,
whichever task the pool's thread was started by. The callback of a result belongs to the task that asks for it.
"""
# ruff: noqa: SLF001 - the public methods of a pool are two private ones

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import ApplyResult, ThreadPool
from typing import Any, TypeAlias

Carry: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"
"""Makes a function run for the task of the thread that calls this, whatever thread will run it."""


def methods_that_carry(carry: Carry) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """The methods by which pools get functions, each with its class and name, such that they carry these."""
    submit, call_back = ThreadPoolExecutor.submit, Future.add_done_callback
    make_result: Any = ApplyResult.__init__

    def carried_submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return submit(pool, carry(function), *args, **kwargs)

    def carried_callback(future: Any, fn: Any) -> None:
        call_back(future, carry(fn))

    def carried_result(result: Any, pool: Any, callback: Any, error_callback: Any) -> None:
        make_result(result, pool, callback and carry(callback), error_callback and carry(error_callback))

    yield ThreadPoolExecutor, "submit", carried_submit
    yield Future, "add_done_callback", carried_callback
    yield ApplyResult, "__init__", carried_result
    methods: list[Any] = [ThreadPool.apply_async, ThreadPool._map_async, ThreadPool.imap, ThreadPool.imap_unordered]  # type: ignore[attr-defined]
    for method in methods:
        yield ThreadPool, method.__name__, _carrying(method, carry)


def _carrying(method: Any, carry: Carry) -> Callable[..., Any]:
    def carried(pool: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        return method(pool, carry(func), *args, **kwargs)

    return carried
