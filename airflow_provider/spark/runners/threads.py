"""Daemon threads: a job's code that does not end must not keep the worker's process from ending."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from airflow_provider.spark.limits import within_limits

T = TypeVar("T")


def start_thread(target: Callable[[], None], name: str) -> None:
    """:raises UsedUpError: if this process can have no more threads"""
    with within_limits("start a thread"):
        threading.Thread(target=target, name=name, daemon=True).start()


async def in_thread(function: Callable[[], T], name: str) -> T:
    """Call a function in a thread of its own; returns or raises what it does.

    :raises UsedUpError: if this process can have no more threads
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Future[T]) -> None:
        if done.done():
            return
        error = outcome.exception()
        if error is None:
            done.set_result(outcome.result())
        else:
            done.set_exception(error)

    def run() -> None:
        outcome: Future[T] = Future()
        try:
            outcome.set_result(function())
        except Exception as failed:  # noqa: BLE001 - raised again where it is awaited
            outcome.set_exception(failed)
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    start_thread(run, name)
    return await done
