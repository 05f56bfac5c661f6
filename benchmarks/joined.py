"""What one join costs a balanced group: how long its moved tasks stand still, and when it is balanced again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import TaskId

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet import Fleet as Fleet

_POLL_S: Final = 0.003


@dataclass(frozen=True)
class Step:
    """A start or stop of a task somewhere, by the wall clock."""

    task: TaskId
    started: bool
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What one join cost, in milliseconds.

    :param heard: until the first task was stopped
    :param balanced: until the last moved task had started
    :param stood: how long each moved task stood still
    """

    heard: int
    balanced: int
    stood: tuple[int, ...]

    @classmethod
    def of(cls, joined_ms: int, steps: Sequence[Step]) -> Joined:
        later = [step for step in steps if step.at_ms >= joined_ms]
        stops = {step.task: step.at_ms for step in later if not step.started}
        starts = {step.task: step.at_ms for step in later if step.started}
        if not stops or stops.keys() != starts.keys():
            raise RuntimeError(f"what stopped and what started are not the same: {later}")
        return cls(
            heard=min(stops.values()) - joined_ms,
            balanced=max(starts.values()) - joined_ms,
            stood=tuple(sorted(starts[task] - stopped for task, stopped in stops.items())),
        )


async def moves_of(fleet: Fleet) -> list[Step]:
    """All starts and stops of tasks so far, except those of planners."""
    steps = []
    for told in await fleet.steps():
        if told.task.is_planner:
            continue
        if told.state is TaskState.RUNNING and told.started_at_ms is not None:
            steps.append(Step(told.task, started=True, at_ms=told.started_at_ms))
        elif told.state is TaskState.STOPPED and told.finished_at_ms is not None:
            steps.append(Step(told.task, started=False, at_ms=told.finished_at_ms))
    return steps


async def when_joined(bootstrap_servers: str, group: str, start: Callable[[], Awaitable[None]]) -> int:
    """Start the second worker.

    :return: when the coordinator received its JoinGroup, by the wall clock in milliseconds
    """
    settings = KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers}, conn_id="benchmarks")
    async with GroupTransport(settings) as transport:
        starting = asyncio.ensure_future(start())
        while (await transport.describe([group]))[0].state == "Stable":  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(_POLL_S)
        joined_ms = wall_ms()
        await starting
    return joined_ms
