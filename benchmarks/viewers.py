"""What viewers of the page cost Airflow's API server, and how long they wait. ``python -m benchmarks viewers``.

A real API server, a real broker, groups of 10,000 and of 100,000 tasks, in each of which a worker runs 40 tasks at a
time that end after four seconds. 20 viewers ask once a second, as the page does, and say what they have. For
comparison, in the same run: 20 that ask as often for the list of Airflow's connections, which has one line. Processor
time is the API server's own, so other load on the machine only makes the waits longer.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState
from airflow_provider.values.model import WorkerId
from demo.airflow import LocalAirflow
from demo.processes import KeptProcess

SIZES: Final = (10_000, 100_000)
VIEWERS: Final = 20
_STRETCH_S: Final = 30.0
_DEADLINE_S: Final = 180.0
_RUNNING: Final = 40
_TASK_S: Final = 4
_CONNECTION: Final = "kafka_default"
_ROOT: Final = Path(__file__).parent.parent
_TIMES: Final = 5

_QUERIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "first page": {},
    "last page": {"page": 10**6},
    "search": {"text": "part-77"},
    "one state": {"state": "running"},
    "sorted by time": {"order": "took", "descending": "true"},
    "sorted by worker": {"order": "worker"},
}
_LOOKED_AT: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("workers", {}),
    ("tasks", {}),
    ("tasks", {"state": "running"}),
    ("jobs", {}),
    ("timeline", {}),
)
"""The views that are measured, one after another."""


@dataclass
class Viewer:
    """A browser with one view open.

    :ivar waited_ms: of each answer
    """

    http: httpx.AsyncClient
    path: str
    waited_ms: list[float] = field(default_factory=list)
    sent_bytes: int = 0

    async def look(self, seconds: float) -> None:
        end, tag, since = time.monotonic() + seconds, "", 0
        while time.monotonic() < end:
            began = time.monotonic()
            more = f"&since={since}" if "/timeline" in self.path else ""
            answer = await self.http.get(self.path + more, headers={"If-None-Match": tag})
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and "Retry-After" in answer.headers:
                await asyncio.sleep(int(answer.headers["Retry-After"]))
                continue
            self.waited_ms.append((time.monotonic() - began) * 1000)
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                answer.raise_for_status()
                self.sent_bytes += len(answer.content)
                tag = answer.headers.get("ETag", "")
                since = (answer.json().get("body") or {}).get("changed", 0) if more else 0
            await asyncio.sleep(1)


class Bench:
    """:param server: the API server's process"""

    def __init__(self, airflow: LocalAirflow, server: KeptProcess) -> None:
        self._airflow = airflow
        self._server = server
        self._cookies = {"_token": airflow.api.token}

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._airflow.url, cookies=self._cookies, timeout=300, trust_env=False)

    async def measure(self, names: Sequence[str]) -> dict[str, Any]:
        figures: dict[str, Any] = {"nobody": await self._stretch("nothing", [])}
        figures["airflows_own"] = await self._stretch("the version", ["/api/v2/version"] * VIEWERS)
        for name in names:
            paths = [_path(view, name, asked) for view, asked in _LOOKED_AT]
            await self._queries(name)  # so that the group is read before anybody is counted
            figures[name] = await self._stretch(name, [paths[number % len(paths)] for number in range(VIEWERS)])
            figures[name]["queries_ms"] = queries = await self._queries(name)
            print(f"  {name}, ms: {queries}", flush=True)
        return figures

    async def _stretch(self, name: str, paths: Sequence[str]) -> dict[str, Any]:
        """Measure some time with one viewer for each path."""
        clients = [self.client() for _ in paths]
        viewers = [Viewer(client, path) for client, path in zip(clients, paths, strict=True)]
        before_s, began = self._cpu_s(), time.monotonic()
        await asyncio.gather(asyncio.sleep(_STRETCH_S), *(viewer.look(_STRETCH_S) for viewer in viewers))
        took, cpu_s = time.monotonic() - began, self._cpu_s() - before_s
        figures: dict[str, Any] = {"cores": round(cpu_s / took, 3), "rss_mb": self._rss_mb()}
        waited = sorted(each for viewer in viewers for each in viewer.waited_ms)
        if waited:
            figures["cpu_ms_per_answer"] = round(cpu_s * 1000 / len(waited), 1)
            figures["answers_per_s"] = round(len(waited) / took, 1)
            figures["kb_per_s"] = round(sum(viewer.sent_bytes for viewer in viewers) / took / 1024, 1)
            figures["waited_ms"] = round(statistics.median(waited), 1)
            figures["waited_ms_95"] = round(waited[len(waited) * 95 // 100], 1)
        for client in clients:
            await client.aclose()
        print(f"  {len(paths)} viewers of {name}, load {os.getloadavg()[0]:.1f}: {figures}", flush=True)
        return figures

    async def _queries(self, group: str) -> dict[str, float]:
        """The median time of some requests, each for another page size, so that no answer is cached."""
        figures = {}
        async with self.client() as http:
            await _until_read(http, group)
            for what, asked in _QUERIES.items():
                waited = []
                for number in range(_TIMES):
                    began = time.monotonic()
                    answer = await http.get(_path("tasks", group, {**asked, "size": 50 + number}))
                    answer.raise_for_status()
                    waited.append((time.monotonic() - began) * 1000)
                figures[what] = round(statistics.median(waited), 1)
        return figures

    def _cpu_s(self) -> float:
        return float(sum(sum(process.cpu_times()[:2]) for process in self._server.tree()))

    def _rss_mb(self) -> float:
        return round(float(sum(process.memory_info().rss for process in self._server.tree())) / 2**20, 1)


def run(folder: Path) -> dict[str, Any]:
    home = folder / f"airflow-{os.getpid()}"
    with LocalBroker() as broker, ExitStack() as stack:
        names = []
        for size in SIZES:
            names.append(f"tasks-{size}")
            asyncio.run(_submit(broker.bootstrap_servers, names[-1], size))
            stack.enter_context(_worker(broker.bootstrap_servers, names[-1], folder))
        airflow = LocalAirflow(home, dag_folders=[], env={"PYTHONPATH": str(_ROOT)})
        stack.callback(airflow.stop)
        airflow.start_api_server_alone()
        extra = json.dumps({"bootstrap.servers": broker.bootstrap_servers})
        body = {"connection_id": _CONNECTION, "conn_type": "kafka", "extra": extra}
        airflow.api.request("POST", "/connections", json=body)
        figures = asyncio.run(Bench(airflow, airflow.processes["api-server"]).measure(names))
    print(f"  all on {os.cpu_count()} cores")
    return figures


async def _submit(servers: str, group: str, size: int) -> None:
    """Submit it with its plan, because the runner ``noop`` makes no plan with task names."""
    job = JobDefinition(name="job", entry_point="jobs:Nap", max_tasks=size, submitted_at_ms=wall_ms())
    configs = [{"name": f"part-{index}", "seconds": _TASK_S} for index in range(size)]
    plan = PlanRecord.of(job, configs, planned_by=WorkerId("bench"), at_ms=wall_ms())
    settings = KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id=_CONNECTION)
    async with shared_topics(settings, group, WORKER) as topics:
        await topics.publish_plan(plan)
        await topics.submit(job)


@contextmanager
def _worker(servers: str, group: str, folder: Path) -> Iterator[None]:
    patient = ("--session-timeout-ms", "300000")  # the worker is not measured, and may get little processor time
    options = ("--runner", "noop", "--slots", str(_RUNNING), "--allow", "jobs", "--bootstrap-servers", servers)
    command = [sys.executable, "-m", "airflow_provider.cli.main", "worker", group, "--worker", "w1", *options, *patient]
    env = {**os.environ, "PYTHONPATH": str(_ROOT)}
    process = KeptProcess(group, command, env=env, folder=folder, log_file=folder / f"{group}.log")
    try:
        yield
    finally:
        process.kill()


async def _until_read(http: httpx.AsyncClient, group: str) -> None:
    """Wait until the page shows running tasks of the group."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        answer = await http.get(_path("tasks", group, {}))
        body = answer.raise_for_status().json()["body"]
        if body is not None and body["counts"].get(TaskState.RUNNING.value):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_DEADLINE_S:.0f} s: tasks of {group} run; last: {answer.text[:500]}")
        await asyncio.sleep(0.5)


def _path(view: str, group: str, asked: Mapping[str, Any]) -> str:
    return f"/cospark/api/{view}?{urlencode({'conn': _CONNECTION, 'group': group, **asked})}"
