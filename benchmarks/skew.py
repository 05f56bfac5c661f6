"""Tasks that differ by factors of a hundred: how long does a group take for all? ``python -m benchmarks skew``.

200 tasks with a heavy tail (Pareto, fixed seeds) on 4 worker processes of 2 slots, with a real broker and the runner
``noop``. The tasks of each seed run as a first run, with unknown costs; as the next run of the same job, when the times
of the first are known; and as a job whose plan has the costs. Compared with: the bound, which is LPT's result for eight
slots if only the tasks take time; one Spark script with as many threads, each of which takes the next task of the plan
when it has finished one (without starting its session); and, for the first seed, mapped Airflow tasks without a
session, as many at a time.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from heapq import heapreplace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import JobDefinition, TopicNames, decode
from airflow_provider.state.views.task_progress.progress import job_progress
from benchmarks.load import measure
from benchmarks.overload import records_of
from benchmarks.skew_peers import mapped_s, script

_ROOT: Final = Path(__file__).parent.parent
_GROUP: Final = "skew"
_START_S: Final = 180.0
_TAIL: Final = 1.3
"""The shape of the distribution: the longest of 200 takes fifty to a hundred times as long as the shortest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many tasks there are, and what runs them.

    :param bound_s: how long LPT takes for them
    :param seeds: how many sets of tasks
    """

    tasks: int = 200
    workers: int = 4
    slots: int = 2
    bound_s: float = 20.0
    seeds: int = 3
    protocol: str = "compatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The results of one set of tasks: seconds from the submission to the end of the last task.

    :param threads_s: of one script, without starting its session
    :param script_start_s: starting it
    :param rounds: of the group, in each of the runs
    """

    seed: int
    longest_s: float
    work_s: float
    bound_s: float
    threads_s: float
    script_start_s: float
    first_s: float
    next_s: float
    weighted_s: float
    rounds: tuple[int, int, int]


def run(folder: Path, load: Load = Load()) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    with LocalBroker() as broker, ExitStack() as ending:
        settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="benchmark")
        for number in range(load.workers):
            _worker(settings, load, folder / f"w{number}.log", ending)
        measured = asyncio.run(_measure(settings, load))
    _show(load, measured)
    mapped = mapped_s(durations_s(load, 1), load.workers * load.slots, folder)
    print(f"  mapped Airflow tasks, seed 1: {mapped / measured[0].bound_s:.2f}", flush=True)
    return {"load": asdict(load), "seeds": [asdict(figures) for figures in measured], "mapped_s": mapped}


def _worker(settings: KafkaSettings, load: Load, log: Path, ending: ExitStack) -> None:
    output = ending.enter_context(log.open("wb"))
    program = (sys.executable, "-m", "airflow_provider.cli.main", "worker", _GROUP, "--worker", log.stem)
    how = ("--runner", "noop", "--slots", str(load.slots), "--connect-protocol", load.protocol)
    process = subprocess.Popen(
        [*program, *how, "--bootstrap-servers", settings.bootstrap_servers], cwd=_ROOT, stdout=output, stderr=output
    )
    ending.callback(process.wait)
    ending.callback(process.kill)


async def _measure(settings: KafkaSettings, load: Load) -> list[Figures]:
    async with shared_topics(settings, _GROUP, WORKER) as topics:
        await topics.wait_for(
            lambda _jobs, status: status.group is not None and len(status.group.members) == load.workers,
            timeout_s=_START_S,
        )
        return [await _of_seed(topics, settings, load, seed) for seed in range(1, load.seeds + 1)]


async def _of_seed(topics: GroupTopics, settings: KafkaSettings, load: Load, seed: int) -> Figures:
    times_s = durations_s(load, seed)
    slots = load.workers * load.slots
    plain, weighted = ([{"seconds": s, "number": n, **more(s)} for n, s in enumerate(times_s)] for more in _SAID)
    beside = await asyncio.to_thread(script, times_s, slots)
    runs = [
        await _ran(topics, settings, f"plain-{seed}", "first", plain),
        await _ran(topics, settings, f"plain-{seed}", "next", plain),
        await _ran(topics, settings, f"weighted-{seed}", "first", weighted),
    ]
    return Figures(
        seed=seed,
        longest_s=max(times_s),
        work_s=sum(times_s),
        bound_s=in_turn(sorted(times_s, reverse=True), slots),
        threads_s=beside.tasks_s,
        script_start_s=beside.start_s,
        first_s=runs[0][0],
        next_s=runs[1][0],
        weighted_s=runs[2][0],
        rounds=(runs[0][1], runs[1][1], runs[2][1]),
    )


_SAID: Final[tuple[Callable[[float], dict[str, float]], ...]] = (lambda _s: {}, lambda s: {"weight": s})


def durations_s(load: Load, seed: int) -> list[float]:
    """How long each task takes, in the order of the plan."""
    drawn = random.Random(seed)
    parts = [drawn.paretovariate(_TAIL) for _ in range(load.tasks)]
    whole = in_turn(sorted(parts, reverse=True), load.workers * load.slots)
    return [round(part * load.bound_s / whole, 3) for part in parts]


def in_turn(times_s: Iterable[float], slots: int) -> float:
    """When the last task ends, if each free slot takes the next one."""
    free_at = [0.0] * slots
    for time_s in times_s:
        heapreplace(free_at, free_at[0] + time_s)
    return max(free_at)


async def _ran(
    topics: GroupTopics, settings: KafkaSettings, job: str, run_key: str, tasks: Sequence[dict[str, Any]]
) -> tuple[float, int]:
    """How long a run of the job took, and how many rounds it had."""
    submitted_ms = int(time.time() * 1000)
    definition = JobDefinition(
        name=job,
        entry_point="noop:job",
        config={"tasks": list(tasks)},
        max_tasks=len(tasks),
        run_key=run_key,
        submitted_at_ms=submitted_ms,
    )
    await topics.submit(definition)

    def is_done(jobs: Any, status: Any) -> bool:
        progress = job_progress(job, jobs, status)
        return progress is not None and progress.run_key == run_key and progress.complete

    await topics.wait_for(is_done, timeout_s=600)
    ends_ms, rounds = [], 0
    for key, value, at_ms in records_of(settings, TopicNames.of(_GROUP).status):
        record = {} if value is None else decode(value)
        rounds += key == "group" and at_ms >= submitted_ms
        if record.get("state") == "finished" and record["task"][0] == job and record["run_key"] == run_key:
            ends_ms.append(record["finished_at_ms"])
    return (max(ends_ms) - submitted_ms) / 1000, rounds


def _show(load: Load, measured: Sequence[Figures]) -> None:
    print(f"\n{load.tasks} tasks on {load.workers} workers of {load.slots} slots, {load.protocol}; to the bound:")
    for figures in measured:
        print(
            f"  seed {figures.seed}: bound {figures.bound_s:.1f} s (longest task {figures.longest_s:.1f} s)"
            + "".join(f"; {name} {took_s / figures.bound_s:.2f}" for name, took_s in _ways(figures))
            + f"; rounds {', '.join(map(str, figures.rounds))}",
            flush=True,
        )
    means = {name: [] for name, _ in _ways(measured[0])}  # type: dict[str, list[float]]
    for figures in measured:
        for name, took_s in _ways(figures):
            means[name].append(took_s / figures.bound_s)
    print("  mean: " + "; ".join(f"{name} {fmean(ratios):.2f}" for name, ratios in means.items()), flush=True)


def _ways(figures: Figures) -> list[tuple[str, float]]:
    return [
        ("threads", figures.threads_s),
        ("first run", figures.first_s),
        ("next run", figures.next_s),
        ("weights", figures.weighted_s),
    ]


def main() -> None:
    measure("skew", __doc__, Load, run)


if __name__ == "__main__":
    main()
