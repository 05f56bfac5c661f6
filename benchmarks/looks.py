"""How long somebody waits for ``cospark status --once``, ``jobs list`` and ``groups describe``.

Each command is a process of its own, as a shell starts it. The time that Python needs to start and do nothing is
subtracted. The processor time is printed, too: the rest was waiting.

Half of the tasks have finished, an eighth runs, the others wait, on four workers. Another group has nine tasks, and as
many unreadable records as there are lines of garbage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from airflow_provider.assignment.model import Memory
from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskState,
    TaskStatus,
    TopicNames,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import ConfigOffset, Epoch, GenerationId, MemberId, SubProtocol, TaskId, WorkerId

_ROOT: Final = Path(__file__).parent.parent
_COMMANDS: Final = (("status", "--once"), ("jobs", "list"), ("groups", "describe"))
_GOALS_S: Final = {9: 0.5, 2_000: 1.0, 20_000: 2.0}
_GARBAGE: Final = 184
_AT_ONCE: Final = 80
"""How many tasks run at a time."""
_WORKERS: Final = tuple(WorkerId(f"w{number}") for number in range(1, 5))
_BEGAN_MS: Final = 1_700_000_000_000


def run(folder: Path, sizes: Sequence[int] = tuple(_GOALS_S), times: int = 10) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    with LocalBroker() as broker:
        settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="benchmark")
        for size in sizes:
            asyncio.run(_fill(settings, f"looks-{size}", size))
        asyncio.run(_fill(settings, "looks-garbage", 9))
        _litter(settings, "looks-garbage")
        start_s = statistics.median(_timed([sys.executable, "-c", "pass"], folder)[0] for _ in range(times))
        figures = [
            _look(settings, command, group, size, times, start_s, folder)
            for group, size in (*((f"looks-{size}", size) for size in sizes), ("looks-garbage", 9))
            for command in _COMMANDS
        ]
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python starts in {start_s:.2f} s, not counted")
    for line in figures:
        print(
            f"  {line['command']:<18} {line['group']:<14} median {line['median_s']:.2f} s,"
            f" worst {line['worst_s']:.2f} s, processor {line['cpu_s']:.2f} s,"
            f" {line['lines']} lines, {line['complaints']} complaints (goal: {line['goal_s']:g} s)",
            flush=True,
        )
    return {"python_s": start_s, "looks": figures}


def _look(
    settings: KafkaSettings, command: Sequence[str], group: str, size: int, times: int, start_s: float, folder: Path
) -> dict[str, Any]:
    program = [sys.executable, "-m", "airflow_provider.cli.main", *command, group]
    runs = [_timed([*program, "--bootstrap-servers", settings.bootstrap_servers], folder) for _ in range(times)]
    return {
        "command": " ".join(command),
        "group": group,
        "median_s": statistics.median(wall_s for wall_s, _ in runs) - start_s,
        "worst_s": max(wall_s for wall_s, _ in runs) - start_s,
        "cpu_s": statistics.median(cpu_s for _, cpu_s in runs),
        "lines": len((folder / "out").read_text().splitlines()),
        "complaints": len((folder / "err").read_text().splitlines()),
        "goal_s": _GOALS_S.get(size, max(_GOALS_S.values())),
    }


def _timed(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """:returns: how long it took, and its processor time, in seconds"""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        subprocess.run(command, cwd=_ROOT, stdout=out, stderr=err, check=True)
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _fill(settings: KafkaSettings, group: str, size: int) -> None:
    """Write the topics as a group leaves them in the middle of its work."""
    job = JobDefinition(name="job", entry_point="noop:job", max_tasks=size, run_key="r")
    plan = PlanRecord.of(job, [{"index": index} for index in range(size)], planned_by=_WORKERS[0], at_ms=_BEGAN_MS)
    async with shared_topics(settings, group, WORKER) as topics:
        await topics.submit(job)
        await topics.publish_plan(plan)
        await topics.catch_up()
        tasks = [TaskId("job", index) for index in range(size)]
        await topics.publish_group(_record(topics.jobs.offset, tasks))
        for worker in _WORKERS:
            await topics.publish_worker(
                WorkerStatus(worker=worker, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=4, at_ms=_BEGAN_MS)
            )
        for begin in range(0, size * 5 // 8, _AT_ONCE):
            batch = tasks[begin : begin + _AT_ONCE]
            await _say(topics, TaskState.RUNNING, batch, plan)
            await _say(topics, TaskState.FINISHED, [task for task in batch if task.index < size // 2], plan)


def _record(offset: int, tasks: Sequence[TaskId]) -> ClassicRecord:
    assignment = {worker: frozenset(tasks[place :: len(_WORKERS)]) for place, worker in enumerate(_WORKERS)}
    return ClassicRecord(
        epoch=Epoch(1),
        generation=GenerationId(1),
        leader=_WORKERS[0],
        leader_member=MemberId(_WORKERS[0]),
        protocol=SubProtocol.SESSIONED,
        config_offset=ConfigOffset(offset),
        members={worker: MemberId(worker) for worker in _WORKERS},
        assignment=assignment,
        revoked={},
        moves=(),
        delay_ms=0,
        reason=", ".join(_WORKERS) + " joined",
        at_ms=_BEGAN_MS,
        memory=Memory(generation=GenerationId(1), assignment=assignment, members=frozenset(_WORKERS)),
    )


async def _say(topics: GroupTopics, state: TaskState, tasks: Sequence[TaskId], plan: PlanRecord) -> None:
    await asyncio.gather(
        *(
            topics.publish_task(
                TaskStatus(
                    task=task,
                    state=state,
                    epoch=Epoch(1),
                    worker=_WORKERS[task.index % len(_WORKERS)],
                    run_key="r",
                    fingerprint=plan.fingerprints[task.index],
                    started_at_ms=_BEGAN_MS,
                    finished_at_ms=_BEGAN_MS + 500 if state.final else None,
                    result={"rows": task.index} if state.final else None,
                )
            )
            for task in tasks
        )
    )


def _litter(settings: KafkaSettings, group: str) -> None:
    """Write unreadable records, as somebody does who writes to the wrong topic."""
    producer = Producer(settings.librdkafka())
    for number in range(_GARBAGE):
        producer.produce(TopicNames.of(group).status, key=f"task:job:{number}", value=b"garbage")
    producer.flush(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_GOALS_S), metavar="TASKS")
    parser.add_argument("--times", type=int, default=10, metavar="N", help="how often each is called (default: 10)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(run(args.folder, args.sizes, args.times), indent=2))


if __name__ == "__main__":
    main()
