"""Streams on workers with 2, 4, 8 and 16 slots. One is killed and comes back, others join and leave: does each have its
part, and what is stopped for that? ``python -m benchmarks unequal_workers``.

A real broker and real workers, each with a Spark of its own on one core: so the streams of a killed worker end with it,
as they would on a machine of its own. There is a group for each number of streams (``NUMBERS`` in the environment): 40
are too many for the 30 slots, 24 are not. After each act, when the group is at rest, its shares are compared with those
of Connect's own assignor after the same acts. As Connect knows no slots, the parts of its workers are divided by the
same slots.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.metrics.missing_slots import room
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.slots.capacity import slot_shortage
from airflow_provider.state.views.task_progress.progress import converged
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.model import TaskId
from benchmarks.connect_history import ConnectRest, played

_ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(_ROOT / "tests"))

from fleet import TIMING, Fleet, cospark  # noqa: E402
from quick_spark import have_spark_start_quickly  # noqa: E402
from waiting import SLOWNESS  # noqa: E402

_STREAMS: Final = tuple(map(int, os.environ.get("NUMBERS", "40,24").split(",")))
_SLOTS: Final = {"w2": 2, "w4": 4, "w8": 8, "w16": 16, "new4": 4}
_FIRST: Final = ("w2", "w4", "w8", "w16")
_JOB: Final = "ticks"
_EVERY_S: Final = 3_600
"""Time between two batches of a stream: its batches are not measured, and shall cost little."""
_WITHIN_S: Final = 5
"""For so long workers that are asked to leave wait for their streams, which never end, before they stop them."""
_MAX_DELAY_MS: Final = 1_000
"""For so long the streams of a lost worker wait for it, after its session has ended."""
_QUIET_S: Final = 10.0 * SLOWNESS
"""A group is at rest if nothing changes for so long; for ten times as long, if a stream waits though a slot is free."""
_RUNS: Final = frozenset({TaskState.RUNNING})
_AT_REST: Final = _RUNS | {TaskState.PENDING}
_LIMIT_S: Final = 3_600.0
_LOOK_S: Final = 0.25
_SESSION_S: Final = int(TIMING[TIMING.index("--session-timeout-ms") + 1]) / 1_000
"""So late is a killed worker found; longer on a busy machine, so that no other one is thought lost."""
_WORKER: Final = (
    *("--allow", "benchmarks.jobs", "--spark-master", "local[1]", "--spark-conf", "spark.driver.memory=700m"),
    *("--returns-ms", "0", "--max-delay-ms", str(_MAX_DELAY_MS)),
)

_Run = tuple[TaskId, str, int]
"""A start of a stream: its worker, and when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A group after an act, when it is at rest.

    :param streams: how many each worker has, running or not
    :param running: how many each worker runs
    :param idle: how many wait although a slot is free on some worker
    :param stopped: how many were stopped on workers that have stayed
    :param seconds: from the act until the last change
    :param told: what ``cospark status`` says about slots
    """

    act: str
    streams: dict[str, int]
    running: dict[str, int]
    idle: int
    stopped: int
    rounds: int
    seconds: float
    told: tuple[str, ...]


class Trial:
    """One group with so many streams, and what becomes of it."""

    def __init__(self, group: Fleet, streams: int) -> None:
        self._group = group
        self._streams = streams
        self._stops: set[_Run] = set()
        self._rounds = 0
        self._began = 0.0
        self.rests: list[Rest] = []

    async def run(self) -> None:
        for name in _FIRST:
            self._start(name)
        await self._stand(len(_FIRST), streams=0)
        self._rounds = len(await self._group.rounds())
        self._began = time.monotonic()
        config = {"every_s": _EVERY_S}
        job: dict[str, Any] = {"entry_point": "benchmarks.jobs:ticking", "kind": TaskKind.STREAMING, "config": config}
        await self._group.submit(_JOB, tasks=self._streams, **job)
        await self._rest("four workers get all streams", 4)
        self._began = time.monotonic()
        self._group.kill("w8")
        await self._rest("w8 is killed", 3)
        self._start("w8")
        await self._rest("w8 comes back", 4)
        self._start("new4")
        await self._rest("new4 joins", 5)
        self._began = time.monotonic()
        fewer = ("scale", "--workers", "3", "--within", str(_WITHIN_S))
        scaled = await cospark(self._group, *fewer, self._group.group_id)
        print(f"{scaled.out}{scaled.err}", flush=True)
        await self._rest("cospark scale --workers 3", 3)

    def _start(self, name: str) -> None:
        self._began = time.monotonic()
        self._group.start(name, "--slots", str(_SLOTS[name]))

    async def _rest(self, act: str, workers: int) -> None:
        """Wait for the group, and write down how it is and what has happened since the act before."""
        rested, now = await self._stand(workers, streams=self._streams)
        jobs, status = self._group.topics.jobs, self._group.topics.status
        stops, rounds = await self._all_stops(), len(await self._group.rounds())
        shortage = slot_shortage(jobs, status)
        rest = Rest(
            act=act,
            streams=now.number(_AT_REST),
            running=now.number(_RUNS),
            idle=now.idle,
            stopped=sum(worker in now.members for _, worker, _ in stops - self._stops),
            rounds=rounds - self._rounds,
            seconds=round(rested - self._began, 1),
            told=(room(jobs, status, now_ms=wall_ms()).in_words, *([shortage.in_words()] if shortage else [])),
        )
        self._stops, self._rounds = stops, rounds
        self.rests.append(rest)
        print(f"{self._streams} streams, {rest}", flush=True)

    async def _all_stops(self) -> set[_Run]:
        return {
            (step.task, step.worker, step.started_at_ms)
            for step in await self._group.steps()
            if step.state is TaskState.STOPPED and step.started_at_ms is not None and not step.task.is_planner
        }

    async def _stand(self, workers: int, *, streams: int) -> tuple[float, _Standing]:
        """Wait until the group is at rest with so many workers and streams.

        :returns: since when, by the monotonic clock, and how it stands
        """
        since, seen, until = time.monotonic(), None, time.monotonic() + _LIMIT_S
        while seen is None or time.monotonic() < since + _QUIET_S * (10 if seen.idle else 1):
            if time.monotonic() > until:
                raise TimeoutError(f"no rest with {workers} workers:\n{self._group.story()}")
            await asyncio.sleep(_LOOK_S)
            now = self._standing(workers, streams)
            if now != seen:
                since, seen = time.monotonic(), now
        return since, seen

    def _standing(self, workers: int, streams: int) -> _Standing | None:
        """How the group stands; None: it has surely something to do."""
        jobs, status = self._group.topics.jobs, self._group.topics.status
        record = status.group
        if record is None or len(record.members) != workers or not converged(record, status.workers):
            return None
        statuses = [effective_status(TaskId(_JOB, index), jobs, status) for index in range(streams)]
        runs = tuple((last.state, last.worker, last.attempt) for last in statuses if last is not None)
        done = len(runs) == streams and all(state in _AT_REST for state, *_ in runs)
        return _Standing(record.epoch, tuple(sorted(record.members, key=list(_SLOTS).index)), runs) if done else None


@dataclass(frozen=True, slots=True)
class _Standing:
    """What does not change while a group is at rest.

    :param streams: the state of each, its worker, and how often it was started
    """

    epoch: int
    members: tuple[str, ...]
    streams: tuple[tuple[TaskState, str, int], ...]

    def number(self, states: Collection[TaskState]) -> dict[str, int]:
        """How many streams in these states each worker has."""
        has = Counter(worker for state, worker, _ in self.streams if state in states)
        return {worker: has[worker] for worker in self.members}

    @property
    def idle(self) -> int:
        """How many streams wait although a slot is free."""
        runs = self.number(_RUNS)
        free = sum(max(0, _SLOTS[worker] - number) for worker, number in runs.items())
        return min(free, len(self.streams) - sum(runs.values()))


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    folder = folder / f"{time.time():.0f}"
    folder.mkdir(parents=True)
    have_spark_start_quickly()
    figures = {}
    with LocalBroker() as broker:
        for streams in _STREAMS:
            own = folder / str(streams)
            own.mkdir()
            rests = asyncio.run(_run(broker.bootstrap_servers, own, streams))
            connect = played(folder, streams, [rest.streams.keys() for rest in rests])
            figures[str(streams)] = [_compared(*both) for both in zip(rests, connect, strict=True)]
            _say(streams, figures[str(streams)])
    return {"slots": _SLOTS, "session_s": _SESSION_S, "streams": figures}


async def _run(bootstrap_servers: str, folder: Path, streams: int) -> list[Rest]:
    options = (*_WORKER, "--checkpoint-root", str(folder / "checkpoints"))
    async with Fleet(bootstrap_servers, f"unequal-{streams}", folder, *options, modules=_ROOT) as group:
        trial = Trial(group, streams)
        await trial.run()
    return trial.rests


def _compared(ours: Rest, connect: ConnectRest) -> dict[str, Any]:
    return {
        **asdict(ours),
        "loads": loads(ours.streams),
        "connect": {**asdict(connect), "loads": loads(connect.streams), "idle": without_slot(connect.streams)},
    }


def loads(streams: Mapping[str, int]) -> tuple[float, float]:
    """The smallest and the largest number of streams per slot."""
    per_slot = [number / _SLOTS[worker] for worker, number in streams.items()]
    return round(min(per_slot), 2), round(max(per_slot), 2)


def without_slot(streams: Mapping[str, int]) -> int:
    """How many streams have no slot where they are, although one is free elsewhere."""
    over = [number - _SLOTS[worker] for worker, number in streams.items()]
    return min(sum(max(0, number) for number in over), sum(max(0, -number) for number in over))


def _say(streams: int, rests: Sequence[Mapping[str, Any]]) -> None:
    print(f"\n{streams} streams; workers in the order of {', '.join(_SLOTS)}; then the same by Connect's assignor")
    print(f"{'':30}{'each has':>16}{'load':>14}{'idle':>6}{'stopped':>9}{'rest':>8}", end="")
    print(f"{'each has':>20}{'load':>14}{'no slot':>9}{'stopped':>9}")
    for rest in rests:
        theirs = rest["connect"]
        print(f"{rest['act']:30}{_shares(rest)}{rest['idle']:6}{rest['stopped']:9}{rest['seconds']:6.0f} s", end="")
        print(f"    {_shares(theirs)}{theirs['idle']:9}{theirs['stopped']:9}")
        print(*(f"    {line}" for line in rest["told"] if line), sep="\n")


def _shares(rest: Mapping[str, Any]) -> str:
    each = " ".join(map(str, rest["streams"].values()))
    least, most = rest["loads"]
    return f"{each:>16}{f'{least:.2f} - {most:.2f}':>14}"
