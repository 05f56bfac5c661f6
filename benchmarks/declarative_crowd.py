"""Thousands of members at one coordinator process, on a real broker: does it keep all sessions, and at what cost?

The coordinator is ``cospark coordinator``. The members are light ones (:mod:`benchmarks.light_members`), all in this
process. They join in waves. Then for a minute they only heartbeat, every 3 s: the coordinator holds each heartbeat for
that long, and measured is how much later it is answered.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.local_broker import LocalBroker
from benchmarks.coordinated_groups import HEARTBEAT_MS, Crowd, coordinator, cpu_of, crowd, settings_of, submit, until
from benchmarks.light_members import settled

_GROUPS: Final = 20
_MEMBERS: Final = 250
_TASKS: Final = 500
_WAVE: Final = 125
_SECONDS: Final = 60.0
_GOAL_CPU: Final = 1.0


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures.

    :param folder: for the coordinator's log
    """
    with LocalBroker() as broker, coordinator(broker.bootstrap_servers, folder) as process:
        assert broker.pid is not None
        pids = {"coordinator": process.pid, "broker": broker.pid, "members": os.getpid()}
        return asyncio.run(_run(broker.bootstrap_servers, pids))


async def _run(servers: str, pids: dict[str, int]) -> dict[str, Any]:
    settings = settings_of(servers)
    groups = [f"group-{number:02}" for number in range(_GROUPS)]
    await asyncio.gather(*(submit(settings, group, jobs=1, tasks=_TASKS) for group in groups))
    async with crowd(settings) as all_members:
        joining_s = await _join(all_members, groups)
        heard = all_members.heard
        joining_refused = len(heard.refused)
        await asyncio.sleep(HEARTBEAT_MS / 1000)
        heard.clear()
        cpu = await cpu_of(pids, asyncio.sleep(_SECONDS))
        assert not all_members.ended(), all_members.ended()
        late_ms, refused = list(heard.late_ms), list(heard.refused)
    print(
        f"{_GROUPS * _MEMBERS:,} members in {_GROUPS} groups, {os.cpu_count()} cores: joined and balanced in"
        f" {joining_s:.0f} s ({joining_refused} requests refused or unanswered)\n"
        f"then {_SECONDS:.0f} s of heartbeats every {HEARTBEAT_MS} ms: {len(late_ms) / _SECONDS:,.0f} a second;"
        f" sessions lost or heartbeats unanswered: {len(refused)} (goal 0)\n"
        f"of a core: coordinator {cpu['coordinator']:.2f} (goal under {_GOAL_CPU:g}), broker {cpu['broker']:.2f},"
        f" members {cpu['members']:.2f}\n"
        f"answered later than due: {_in_words(late_ms)}"
    )
    return {
        "members": _GROUPS * _MEMBERS,
        "joining_s": joining_s,
        "heartbeats": len(late_ms),
        "refused": refused,
        "cpu": cpu,
        "late_ms": dict(zip(("median", "99 %", "worst"), _quantiles(late_ms), strict=True)),
    }


async def _join(all_members: Crowd, groups: Sequence[str]) -> float:
    """Let all join; in each group the next wave joins when the one before has."""
    took_s = 0.0
    for first in range(0, _MEMBERS, _WAVE):
        for group in groups:
            for number in range(first, first + _WAVE):
                all_members.join(group, number)
        took_s += await until(
            lambda: all(settled(members, _TASKS) for members in all_members.members.values()),
            "every group has its target",
        )
    return took_s


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), statistics.quantiles(values, n=100)[-1], max(values)


def _in_words(values: Sequence[float]) -> str:
    median, most, worst = _quantiles(values)
    return f"median {median:.0f} ms, 99 % under {most:.0f} ms, worst {worst:.0f} ms"
