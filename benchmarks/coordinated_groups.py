"""Shared by benchmarks of large declarative groups: a coordinator process, and groups that have something to run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from airflow_provider.group.declarative.requests.request_channel import KafkaChannel
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskKind
from airflow_provider.values.model import WorkerId
from benchmarks.light_members import Heard, LightMember

_ROOT: Final = Path(__file__).parent.parent
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_DEADLINE_S: Final = 300.0
_LOOK_S: Final = 0.1
HEARTBEAT_MS: Final = 3_000


def settings_of(servers: str) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id="benchmarks")


@contextmanager
def coordinator(servers: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One process of ``cospark coordinator``, with the default session timeout."""
    command = (sys.executable, "-m", "airflow_provider.cli.main", "coordinator", "--bootstrap-servers", servers)
    with (folder / "coordinator.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--heartbeat-interval-ms", str(HEARTBEAT_MS)], cwd=_ROOT, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


async def submit(settings: KafkaSettings, group: str, *, jobs: int, tasks: int) -> None:
    """Give a group so many jobs with so many tasks each, with their plans."""
    async with GroupTopics(settings, group, WORKER) as topics:
        for number in range(jobs):
            definition = JobDefinition(
                name=f"job-{number:03}",
                entry_point="noop:job",
                kind=TaskKind.STREAMING,
                max_tasks=tasks,
                submitted_at_ms=wall_ms(),
            )
            submitted = await topics.submit(definition)
            plan = PlanRecord.of(submitted.definition, [{}] * tasks, planned_by=WorkerId("benchmark"), at_ms=wall_ms())
            await topics.publish_plan(plan)


class Crowd:
    """Light members of all groups, in this process."""

    def __init__(self, channel: KafkaChannel) -> None:
        self.members: dict[str, list[LightMember]] = {}
        self.heard = Heard()
        self._channel = channel
        self._running: list[asyncio.Task[None]] = []

    def join(self, group: str, number: int) -> None:
        member = LightMember(self._channel, group, f"{group}-{number:04}", self.heard)
        self.members.setdefault(group, []).append(member)
        self._running.append(asyncio.ensure_future(member.run()))

    def ended(self) -> list[str]:
        """Why members have ended; none should."""
        return [repr(each.exception()) for each in self._running if each.done()]

    async def close(self) -> None:
        for each in self._running:
            each.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@asynccontextmanager
async def crowd(settings: KafkaSettings) -> AsyncIterator[Crowd]:
    channel = KafkaChannel(settings)
    await channel.open()
    members = Crowd(channel)
    try:
        yield members
    finally:
        await members.close()
        await channel.aclose()


async def until(holds: Callable[[], bool], what: str, *, within_s: float = _DEADLINE_S) -> float:
    """Wait until it holds.

    :returns: how many seconds that took
    """
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() < began_s + within_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(_LOOK_S)
    return time.monotonic() - began_s


async def cpu_of(pids: dict[str, int], during: Awaitable[object]) -> dict[str, float]:
    """The share of a core that each process takes meanwhile."""
    began_s, before = time.monotonic(), {name: _cpu_s(pid) for name, pid in pids.items()}
    await during
    took_s = time.monotonic() - began_s
    return {name: (_cpu_s(pid) - before[name]) / took_s for name, pid in pids.items()}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
