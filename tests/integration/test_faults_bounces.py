"""Workers that are ended and started again in turn while a bounded job and a stream run, with real Spark.

``BOUNCES`` says how often: each worker once by default, thirty times (ten rounds of three workers) by ``make soak``.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from fleet import Fleet, overlaps
from waiting import eventually

from airflow_provider.broker.local_broker import LocalBroker
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import job_progress
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import TaskId, WorkerId
from airflow_provider.records import TaskKind, TaskState

BOUNCES = int(os.environ.get("BOUNCES", "3"))
WORKERS = ("w1", "w2", "w3")
LINES = 20
TASKS = 8 + 8 * BOUNCES
ROWS = 100 * TASKS
JOBS = "airflow_provider.example_dags.jobs"


@pytest.mark.timeout(400 + 60 * BOUNCES)
async def test_rolling_bounces_lose_and_double_nothing(broker: LocalBroker, group_id: str, tmp_path: Path) -> None:
    """SIGTERM and SIGKILL take turns, so that each worker meets both."""
    options = ("--allow", "jobs_for_tests", "--allow", JOBS, "--checkpoint-root", str(tmp_path / "checkpoints"))
    sizes = ("--slots", "2", "--spark-master", "local[1]", "--spark-conf", "spark.driver.memory=512m")
    delay = ("--max-delay-ms", "3000")
    async with Fleet(broker.bootstrap_servers, group_id, tmp_path, *options, *sizes, *delay) as group:
        write_lines(tmp_path, 0)
        config = {"input": str(tmp_path / "input"), "output": str(tmp_path / "copied")}
        await group.submit("copy", tasks=1, kind=TaskKind.STREAMING, entry_point=f"{JOBS}:CopyLines", config=config)
        numbers = {"rows": ROWS, "seconds": 3, "output": str(tmp_path / "numbers")}
        await group.submit("numbers", tasks=TASKS, entry_point="jobs_for_tests:Numbers", config=numbers)
        for worker in WORKERS:
            group.start(worker)
        await group.wait_for(
            lambda jobs, status: all(is_at_work(group, worker, 0, jobs, status) for worker in WORKERS),
            "all three are at work",
        )

        for number in range(1, BOUNCES + 1):
            write_lines(tmp_path, number)
            await bounce(group, WORKERS[number % 3], number)

        everything = list(range(LINES * (BOUNCES + 1)))
        await group.wait_for(
            lambda jobs, status: (seen := job_progress("numbers", jobs, status)) is not None and seen.complete,
            "the bounded job is complete",
        )
        await eventually(lambda: len(rows(tmp_path / "copied")) >= len(everything), "all lines are copied", within_s=60)
        for worker in WORKERS:
            group.send(worker, signal.SIGTERM)
        assert await group.ended(*WORKERS) == [0, 0, 0]

        assert rows(tmp_path / "copied") == everything, "each line once"
        assert rows(tmp_path / "numbers") == list(range(ROWS)), "each number once"
        steps = await group.steps()
        # The end of one start may be told twice: once more in the epoch that began while it was being written.
        ended = {
            (step.task, step.worker, step.started_at_ms)
            for step in steps
            if step.state is TaskState.FINISHED and step.task.job == "numbers" and not step.task.is_planner
        }
        assert Counter(task for task, _, _ in ended) == {TaskId("numbers", index): 1 for index in range(TASKS)}
        assert not overlaps(steps)
        epochs = [each.record.epoch for each in await group.rounds()]
        assert epochs == sorted(set(epochs))
        for worker in WORKERS:
            assert "a fault of this program" not in group.log_of(worker)


async def bounce(group: Fleet, worker: str, number: int) -> None:
    if number % 2:
        group.send(worker, signal.SIGTERM)
        assert await group.ended(worker) == [0]
    else:
        group.kill(worker)
    group.start(worker)
    since_ms = wall_ms()
    await group.wait_for(
        lambda jobs, status: is_at_work(group, worker, since_ms, jobs, status), f"{worker} is back (bounce {number})"
    )


def is_at_work(group: Fleet, worker: str, since_ms: int, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether the worker's process is in the group and runs something, unless there is nothing left to run."""
    told = status.workers.get(WorkerId(worker))
    if told is None or told.process.split("/")[2] != str(group.pid(worker)) or not told.state.applied:
        return False
    progress = job_progress("numbers", jobs, status)
    return (progress is not None and progress.complete) or any(
        seen.worker == worker and seen.state is TaskState.RUNNING and (seen.started_at_ms or 0) > since_ms
        for seen in status.tasks.values()
    )


def write_lines(folder: Path, number: int) -> None:
    """A file that appears whole or not at all."""
    (folder / "input").mkdir(exist_ok=True)
    hidden = folder / "input" / f".{number}"
    hidden.write_text("".join(json.dumps({"id": each}) + "\n" for each in range(LINES * number, LINES * (number + 1))))
    hidden.rename(folder / "input" / f"{number}.json")


def rows(folder: Path) -> list[int]:
    """What was written, sorted: what was written twice is there twice."""
    parts = folder.glob("*/part-*.json")
    return sorted(json.loads(line)["id"] for part in parts for line in part.read_text().splitlines())
