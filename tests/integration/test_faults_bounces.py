"""Workers are restarted in turn while a bounded job and a stream run, with real Spark.

``BOUNCES`` is the number of restarts: by default one for each worker; ``make soak`` sets thirty (ten rounds of three).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from fleet import Fleet
from spark_work import ALLOWED, SparkWork
from waiting import TEST_LIMIT_S

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker

BOUNCES = int(os.environ.get("BOUNCES", "3"))
WORKERS = ("w1", "w2", "w3")


@pytest.mark.thorough  # each run has workers restarted one by one without Spark (test_rolling_change.py)
@pytest.mark.timeout(BOUNCES * TEST_LIMIT_S)
async def test_rolling_bounces_lose_and_double_nothing(broker: LocalBroker, group_id: str, tmp_path: Path) -> None:
    """SIGTERM and SIGKILL take turns, so that each worker meets both."""
    options = (*ALLOWED, "--checkpoint-root", str(tmp_path / "checkpoints"))
    sizes = ("--slots", "2", "--spark-master", "local[1]", "--spark-conf", "spark.driver.memory=512m")
    delay = ("--max-delay-ms", "3000")
    async with Fleet(broker.bootstrap_servers, group_id, tmp_path, *options, *sizes, *delay) as group:
        work = SparkWork(group, tmp_path, tasks=8 + 8 * BOUNCES)
        await work.submit()
        for worker in WORKERS:
            group.start(worker)
        await group.wait_for(
            lambda jobs, status: all(work.is_at_work(worker, 0, jobs, status) for worker in WORKERS),
            "all three are at work",
        )

        for number in range(1, BOUNCES + 1):
            work.write_lines()
            await bounce(group, work, WORKERS[number % 3], number)

        await work.complete()
        for worker in WORKERS:
            group.send(worker, signal.SIGTERM)
        assert await group.ended(*WORKERS) == [0, 0, 0]

        await work.check()
        for worker in WORKERS:
            assert "a fault of this program" not in group.log_of(worker)


async def bounce(group: Fleet, work: SparkWork, worker: str, number: int) -> None:
    if number % 2:
        group.send(worker, signal.SIGTERM)
        assert await group.ended(worker) == [0]
    else:
        group.kill(worker)
    group.start(worker)
    since_ms = wall_ms()
    await group.wait_for(
        lambda jobs, status: work.is_at_work(worker, since_ms, jobs, status), f"{worker} is back (bounce {number})"
    )
