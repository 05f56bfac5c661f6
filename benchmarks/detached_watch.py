"""The cost of watching queries on a Spark Connect server. ``python -m benchmarks detached_watch``.

A real server has 1,000 queries that only wait (``QUERIES`` in the environment; as many as it can start in ten minutes).
One process watches them all, as a triggerer does; ten of them are stopped meanwhile. The peer is PySpark's client,
which blocks, and polls the same queries as often from as many threads. Processor time is the watching process's own.
The server and the watching processes get the highest priority, as far as that is allowed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer
from benchmarks.gauges import put_first
from benchmarks.tiny_queries import TinyQueries

_QUERIES: Final = 1_000
_START_S: Final = float(os.environ.get("START_S", "600"))
_STRETCH_S: Final = 60.0
_STOPPED: Final = 10
GOALS: Final = {"cpu": 0.30, "noticed_s": 5.0, "late_ms": 100.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """:ivar server_cores: the processor time of the server's process meanwhile, as a share of a core"""

    told: Mapping[str, Any]
    server_cores: float
    noticed_s: Sequence[float]


def run(folder: Path) -> dict[str, Any]:
    queries = int(os.environ.get("QUERIES", _QUERIES))
    conf = {"spark.driver.memory": os.environ.get("SERVER_MEMORY", "4g")}
    with LocalConnectServer(conf=conf, start_timeout_s=_START_S) as server:
        return asyncio.run(_run(folder, server, queries))


async def _run(folder: Path, server: LocalConnectServer, count: int) -> dict[str, Any]:
    assert server.pid is not None
    where = ConnectServer.parse(server.url)
    async with TinyQueries(where) as queries:
        began = time.monotonic()
        handles = list(await queries.start_many(count, trigger="1 day", within_s=_START_S))
        print(f"{len(handles)} queries run, after {time.monotonic() - began:.0f} s; {_load()}", flush=True)
        await asyncio.sleep(20)
        put_first(server.pid)
        idle = await _cores(server.pid, 20)
        ours = await _measure("watch", folder, handles, queries, server.pid)
        left = [handle for handle in handles if handle.session_id not in ours.told["ended_at"]]
        theirs = await _measure("poll", folder, left, queries, server.pid)
    return _say(len(handles), idle, ours, theirs)


async def _measure(
    way: str, folder: Path, handles: Sequence[QueryHandle], queries: TinyQueries, server: int
) -> Measured:
    file = folder / f"{way}.json"
    file.write_text(json.dumps([handle.to_json() for handle in handles]))
    command = [sys.executable, "-m", "benchmarks.query_watchers", way, str(file), "--seconds", str(_STRETCH_S)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=2**24)
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        cores = asyncio.create_task(_cores(server, _STRETCH_S - 5))
        stopped: dict[str, float] = {}
        for handle in handles[:: max(1, len(handles) // _STOPPED)][:_STOPPED]:
            await asyncio.sleep(_STRETCH_S / 2 / _STOPPED)
            await queries.stop(handle)
            stopped[handle.session_id] = time.time()
        server_cores = await cores
        told = json.loads(await process.stdout.readline())
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    noticed = [told["ended_at"].get(session, float("inf")) - at for session, at in stopped.items()]
    return Measured(told=told, server_cores=server_cores, noticed_s=noticed)


def _cpu_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


async def _cores(pid: int, seconds: float) -> float:
    began, at = _cpu_s(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (_cpu_s(pid) - began) / (time.monotonic() - at)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _say(count: int, idle: float, ours: Measured, theirs: Measured) -> dict[str, Any]:
    then, first, before, peer = (*(ours.told[name] for name in ("then", "first", "idle")), theirs.told["then"])
    ratio = then["cpu"] / peer["cpu"]
    print(f"{count} queries; {_load()}")
    print(f"watching: {then['cpu']:.1%} of a core (goal: under {GOALS['cpu']:.0%}), {then['rss_mb']:.0f} MB")
    print(f"an end noticed after {max(ours.noticed_s):.1f} s at worst (goal: {GOALS['noticed_s']:.0f} s)")
    print(
        f"the loop late by {then['late_ms']:.0f} ms at worst (goal: {GOALS['late_ms']:.0f} ms), its own doing of that"
        f" {then['busy_ms']:.0f} ms, in 99 of 100 by {then['late_99_ms']:.0f} ms; as it begins"
        f" {first['late_ms']:.0f} ms"
        f" ({first['busy_ms']:.0f} ms); before, with nothing to do, {before['late_ms']:.0f} ms"
    )
    print(
        f"garbage was collected for {ours.told['garbage_ms']:.0f} ms at worst;"
        f" progress was told {ours.told['progress']} times"
    )
    print(
        f"PySpark's client, polling as often: {peer['cpu']:.1%} of a core, {peer['rss_mb']:.0f} MB, an end noticed"
        f" after {max(theirs.noticed_s):.1f} s at worst. Ours is {ratio:.2f} of it"
    )
    print(f"the server: {ours.server_cores:.1%} of a core watched, {theirs.server_cores:.1%} polled, {idle:.1%} idle")
    return {
        "queries": count,
        "load": os.getloadavg()[0],
        "watching": dict(ours.told),
        "noticed_s": list(ours.noticed_s),
        "peer": dict(theirs.told),
        "peer_noticed_s": list(theirs.noticed_s),
        "ratio": ratio,
        "server_cores": {"watched": ours.server_cores, "polled": theirs.server_cores, "idle": idle},
    }
