"""One of many streams ends their Spark Connect server whenever it runs: how soon is it found, and what does it cost the
others? ``python -m benchmarks detached_culprit``.

A real broker, a real server and one worker whose detached streams have one small batch each time they start
(``STREAMS`` in the environment). ``AFTER_S`` seconds after each of its starts, one of them kills the server, which is
started again at once. Measured is until that one has failed and all others run: how often the server has ended, how
long each of the others had no query, and what they were blamed for. A stream has no query from the end of the server
to the next completed batch in its checkpoint.
"""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus
from airflow_provider.values.model import TaskId
from benchmarks.batch_times import ends_of_batches

_ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(_ROOT / "tests"))

from fleet import Fleet  # noqa: E402

_STREAMS: Final = int(os.environ.get("STREAMS", "1000"))
_CULPRIT: Final = TaskId("quiet", int(os.environ.get("CULPRIT", _STREAMS // 2)))
_AFTER_S: Final = float(os.environ.get("AFTER_S", "5"))
_MEMORY: Final = os.environ.get("SERVER_MEMORY", "4g")
_CHEAP: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""Settings of the server's Spark that make the start of a stream cheaper, because there are thousands of them."""
_LIMIT_S: Final = float(os.environ.get("LIMIT_S", "14400"))
_START_S: Final = 600.0
_LOOK_S: Final = 0.2
_TELL_S: Final = 30.0
_LAST_BATCH_S: Final = 120.0
"""For so long after all queries run, the batches with which they begin are awaited."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What was seen.

    :param ends: when the server has ended, in seconds since the streams were submitted
    :param failed_s: when the culprit had failed; None: it has not
    :param over_s: when all others ran again
    :param gaps: for how long each of the others had no query at most, in seconds
    :param starts: how many of the others were started so often
    :param retries: how many the others have used
    :param failed: how many of the others have failed
    :param died_alone: how many of the others were alone on trial as the server ended
    """

    streams: int
    ends: list[float] = field(default_factory=list)
    failed_s: float | None = None
    over_s: float | None = None
    gaps: list[float] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    retries: int = 0
    failed: int = 0
    died_alone: int = 0
    rounds: int = 0
    log_lines: int = 0


class Trial:
    """The streams, their server, and what becomes of both."""

    def __init__(self, group: Fleet, server: LocalConnectServer, folder: Path) -> None:
        self._group = group
        self._server = server
        self._folder = folder
        self._began = self._told = time.time()
        self._ended_at: list[float] = []
        self.found = Found(streams=_STREAMS)

    async def run(self) -> None:
        self._group.start("w1")
        config = {"culprit": _CULPRIT.index, "after_s": _AFTER_S}
        job: dict[str, Any] = {"entry_point": "benchmarks.jobs:quiet", "kind": TaskKind.STREAMING, "config": config}
        self._began = self._told = time.time()
        await self._group.submit(_CULPRIT.job, tasks=_STREAMS, **job)
        while self.found.over_s is None and self._now() < _LIMIT_S:
            await self._look()
            await asyncio.sleep(_LOOK_S)
        await self._read()

    async def _look(self) -> None:
        if self._server.pid is None:
            self._ended_at.append(time.time())
            self.found.ends.append(round(self._now(), 1))
            self._tell(f"the server has ended for the time {len(self.found.ends)}")
            await asyncio.to_thread(self._server.start)
        tasks = self._tasks()
        if self.found.failed_s is None and (last := tasks.get(_CULPRIT)) and last.state is TaskState.FAILED:
            self.found.failed_s = self._now()
            self._tell(f"the culprit has failed: {last.error}")
        if self.found.failed_s is not None and sum(map(_runs, tasks.values())) == _STREAMS - 1:
            self.found.over_s = self._now()
            self._tell("all others run")
        if time.time() > self._told + _TELL_S:
            self._tell()

    async def _read(self) -> None:
        """Read what is not seen on the way: the timeline and the checkpoints."""
        steps = [step for step in await self._group.steps() if not step.task.is_planner and step.task != _CULPRIT]
        innocent = self._tasks().keys() - {_CULPRIT}
        self.found.failed = len({step.task for step in steps if step.state is TaskState.FAILED})
        self.found.died_alone = len({step.task for step in steps if step.died_alone})
        failures = {step.task: 0 for step in steps}
        for step in steps:
            failures[step.task] = max(failures[step.task], step.failures)
        self.found.retries = sum(failures.values())
        starts = Counter(self._tasks()[task].attempt for task in innocent)
        self.found.starts = dict(sorted(starts.items()))
        self.found.rounds = len(await self._group.rounds())
        self.found.log_lines = self._group.log_of("w1").count("\n")
        self.found.gaps = self._gaps()
        while math.inf in self.found.gaps and self._now() < (self.found.over_s or 0) + _LAST_BATCH_S:
            await asyncio.sleep(_LOOK_S)
            self.found.gaps = self._gaps()

    def _gaps(self) -> list[float]:
        batches, culprit = ends_of_batches(self._folder / "checkpoints"), f"/{_CULPRIT.index}/"
        return [max(without_query(ends, self._ended_at)) for place, ends in batches.items() if culprit not in place]

    def _tasks(self) -> dict[TaskId, TaskStatus]:
        return {task: last for task, last in self._group.topics.status.tasks.items() if not task.is_planner}

    def _now(self) -> float:
        return time.time() - self._began

    def _tell(self, what: str = "") -> None:
        self._told = time.time()
        tasks = self._tasks().values()
        states = Counter(last.state.value for last in tasks)
        deaths = Counter(last.deaths for last in tasks)
        alone = [last.task.index for last in tasks if last.alone and last.state.runs]
        said = [
            f"{sum(map(_runs, tasks))} queries",
            ", ".join(f"{count} {state}" for state, count in states.items()),
            "suspected " + ", ".join(f"{times} times: {count}" for times, count in sorted(deaths.items()) if times),
            f"alone: {alone}" if alone else "",
        ]
        print(f"{self._now():6.0f} s: {what}{'; ' if what else ''}{'; '.join(filter(None, said))}", flush=True)


def _runs(last: TaskStatus) -> bool:
    return last.state is TaskState.RUNNING and last.handle is not None and bool(last.handle["run_id"])


def without_query(batches: Sequence[float], server_ends: Iterable[float]) -> list[float]:
    """How long a stream had no query after ends of its server, in seconds.

    :param batches: when its batches were completed, sorted
    """
    gaps, until = [0.0], 0.0
    for end in server_ends:
        if end > until:
            until = next((batch for batch in batches if batch > end), math.inf)
            gaps.append(until - end)
    return gaps


def run(folder: Path) -> dict[str, Any]:
    folder = folder / f"{time.time():.0f}"
    folder.mkdir(parents=True)
    return asyncio.run(_run(folder))


async def _run(folder: Path) -> dict[str, Any]:
    conf = {"spark.driver.memory": _MEMORY, **_CHEAP}
    with LocalBroker() as broker, LocalConnectServer(conf=conf, start_timeout_s=_START_S) as server:
        options = {
            "--spark-master": server.url,
            "--slots": _STREAMS,
            "--allow": "benchmarks.jobs",
            "--checkpoint-root": folder / "checkpoints",
        }
        flat = (str(part) for option in options.items() for part in option)
        async with Fleet(broker.bootstrap_servers, "culprit", folder, *flat, modules=_ROOT) as group:
            trial = Trial(group, server, folder)
            await trial.run()
    return _say(trial.found)


def _say(found: Found) -> dict[str, Any]:
    most = 4 + math.ceil(math.log2(found.streams))
    gaps = found.gaps or [0.0]
    table = {
        "streams": found.streams,
        "ends of the server": f"{len(found.ends)} (at most {most})",
        "the culprit has failed after": _minutes(found.failed_s),
        "all others run after": _minutes(found.over_s),
        "longest time of the others without a query": _minutes(max(gaps)),
        "median of these times": _minutes(statistics.median(gaps)),
        "starts of each of the others": str(found.starts),
        "retries used by others": found.retries,
        "others that have failed": found.failed,
        "others alone as the server ended": found.died_alone,
        "rounds of the group": found.rounds,
        "lines in the worker's log": found.log_lines,
    }
    for name, value in table.items():
        print(f"{name:44} {value}")
    return {**asdict(found), "most": most}


def _minutes(seconds: float | None) -> str:
    return "not yet" if seconds is None or math.isinf(seconds) else f"{seconds / 60:.1f} min"
