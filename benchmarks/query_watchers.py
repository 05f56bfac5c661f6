"""A process that watches queries on a server, and measures the cost. ``python -m benchmarks.query_watchers``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_provider.spark.connect.client import open_session
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.polling import POLL_EVERY_S
from airflow_provider.spark.connect.query_watch.watch_events import QueryEnded, QueryProgressed, WatchEvent
from airflow_provider.spark.connect.query_watch.watching import QueryWatch
from airflow_provider.spark.connect.server import ConnectSettings
from benchmarks.gauges import Gauged, gauged, put_first

TELL_EVERY_S: Final = 30.0
_THREADS: Final = 16
_WORKERS: Final = 10
_SETTLE_S: Final = 10.0


@dataclass
class Told:
    """What a process reports at its end.

    :ivar idle: its loop before it watched anything: the effect of the machine on any loop
    :ivar first: its loop while it began to watch
    :ivar then: its loop in the measured period
    :ivar garbage_ms: the longest garbage collection in that period
    :ivar progress: how often a query's progress was reported to it
    :ivar ended_at: when it noticed the end of a query, by session
    """

    idle: Gauged = field(default_factory=Gauged)
    first: Gauged = field(default_factory=Gauged)
    then: Gauged = field(default_factory=Gauged)
    garbage_ms: float = 0.0
    progress: int = 0
    ended_at: dict[str, float] = field(default_factory=dict)


async def watch(handles: Sequence[QueryHandle], seconds: float, ready: Callable[[], None]) -> Told:
    """Watch queries as a triggerer does."""
    told = Told()

    def hear(news: WatchEvent) -> None:
        if isinstance(news, QueryEnded):
            told.ended_at[news.handle.session_id] = time.time()
        elif isinstance(news, QueryProgressed):
            told.progress += 1

    async with gauged() as told.idle:
        await asyncio.sleep(_SETTLE_S)
    watches = [
        QueryWatch(ConnectSettings(server=handles[0].server), f"bench/{number}", hear, tell_every_s=TELL_EVERY_S)
        for number in range(_WORKERS)
    ]
    async with gauged() as told.first:
        for number, handle in enumerate(handles):
            watches[number % _WORKERS].watch(handle)
        await asyncio.sleep(_SETTLE_S)
    with _collections(told):
        async with gauged() as told.then:
            ready()
            await asyncio.sleep(seconds)
    for each in watches:
        await each.close()
    return told


@contextlib.contextmanager
def _collections(told: Told) -> Iterator[None]:
    """Measure garbage collections. Each blocks the loop, for longer the more was imported."""
    began = 0.0

    def look(phase: str, _info: object) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            told.garbage_ms = max(told.garbage_ms, 1000 * (time.perf_counter() - began))

    gc.callbacks.append(look)
    yield
    gc.callbacks.remove(look)


def poll(handles: Sequence[QueryHandle], seconds: float, ready: Callable[[], None]) -> Told:
    """The peer: PySpark's client, with as many threads as we make calls at a time, polling each query as often."""
    from pyspark.sql.connect.streaming.query import StreamingQuery

    told = Told()
    settings = ConnectSettings(server=handles[0].server)
    queries = [
        StreamingQuery(open_session(settings, "bench", handle.session_id), handle.query_id or "", handle.run_id or "")
        for handle in handles
    ]
    end = threading.Event()

    def look_at(mine: Sequence[tuple[QueryHandle, Any]]) -> None:
        rounds = 0
        while not end.is_set():
            began = time.monotonic()
            for number, (handle, query) in enumerate(mine):
                if end.is_set():
                    return
                if handle.session_id not in told.ended_at:
                    if not query.isActive:
                        told.ended_at[handle.session_id] = time.time()
                    elif (rounds + number) % int(TELL_EVERY_S / POLL_EVERY_S) == 0 and query.lastProgress is not None:
                        told.progress += 1
                end.wait(max(0.0, began + POLL_EVERY_S * (number + 1) / len(mine) - time.monotonic()))
            rounds += 1

    pairs = list(zip(handles, queries, strict=True))
    with ThreadPoolExecutor(_THREADS) as pool:
        for number in range(_THREADS):
            if pairs[number::_THREADS]:
                pool.submit(look_at, pairs[number::_THREADS])
        time.sleep(_SETTLE_S)
        ready()
        told.then = asyncio.run(_gauge(seconds))
        end.set()
    return told


async def _gauge(seconds: float) -> Gauged:
    async with gauged() as figures:
        await asyncio.sleep(seconds)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query_watchers", description=__doc__)
    parser.add_argument("way", choices=("watch", "poll"))
    parser.add_argument("handles", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    put_first(os.getpid())
    handles = [QueryHandle.from_json(each) for each in json.loads(args.handles.read_text())]

    def ready() -> None:
        print("ready", flush=True)

    if args.way == "watch":
        told = asyncio.run(watch(handles, args.seconds, ready))
    else:
        told = poll(handles, args.seconds, ready)
    print(json.dumps(asdict(told)), flush=True)


if __name__ == "__main__":
    main()
