"""Coordinators, workers and the broker of a declarative group are killed at random under load, with real Spark.

``KILLS`` is the number of kills: by default each kind once and one of them twice; ``make soak`` sets forty.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, cospark
from spark_work import ALLOWED, SparkWork
from waiting import DEADLINE_S, TEST_LIMIT_S, slow_ms

from airflow_provider.servers.local_broker import LocalBroker

KILLS = int(os.environ.get("KILLS", "4"))
WORKERS = ("w1", "w2", "w3")
COORDINATORS = ("c1", "c2")
SESSION = ("--session-timeout-ms", slow_ms(20_000), "--heartbeat-interval-ms", "1000")
"""Longer than a broker takes to be back and then to notice a lost coordinator."""


@pytest.fixture
def chance() -> random.Random:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker that a test can kill."""
    with LocalBroker(data=tmp_path / "broker", start_timeout_s=DEADLINE_S) as broker:
        yield broker


@pytest.mark.thorough
@pytest.mark.timeout(KILLS * TEST_LIMIT_S)
async def test_kills_at_random_lose_and_double_nothing(
    mortal: LocalBroker, chance: random.Random, group_id: str, tmp_path: Path
) -> None:
    joins = ("--group-protocol", "connect", "--coordinators", "dedicated", *SESSION)
    options = (*ALLOWED, "--checkpoint-root", str(tmp_path / "checkpoints"), "--max-delay-ms", "3000")
    sizes = ("--slots", "2", "--spark-master", "local[1]", "--spark-conf", "spark.driver.memory=512m")
    async with Fleet(mortal.bootstrap_servers, group_id, tmp_path, *joins, *options, *sizes) as group:
        for coordinator in COORDINATORS:
            start(group, coordinator)
        work = SparkWork(group, tmp_path, tasks=8 + 4 * KILLS, streams=2)
        await work.submit()
        for worker in WORKERS:
            start(group, worker)
        await group.wait_for(
            lambda jobs, status: all(work.is_at_work(worker, 0, jobs, status) for worker in WORKERS),
            "all three are at work",
        )

        supervisor = asyncio.create_task(start_again(group, chance))
        for victim in victims(chance):
            work.write_lines()
            print(f"kill {victim}")
            if victim == "broker":
                await asyncio.to_thread(mortal.kill)
                await asyncio.sleep(chance.uniform(0, 3))
                await asyncio.to_thread(mortal.start)
            else:
                group.kill(victim)
            await asyncio.sleep(chance.uniform(0, 6))

        described = await cospark(group, "groups", "describe", group_id)
        assert described.status == 0, described.err
        print(described.out)
        await work.complete()
        supervisor.cancel()
        for worker in WORKERS:
            group.send(worker, signal.SIGTERM)
        assert await group.ended(*WORKERS) == [0, 0, 0]
        for coordinator in COORDINATORS:
            group.send(coordinator, signal.SIGTERM)
        assert await group.ended(*COORDINATORS) == [0, 0]

        await work.check()
        for worker in WORKERS:
            assert "a fault of this program" not in group.log_of(worker)
        for coordinator in COORDINATORS:
            assert "Traceback" not in group.log_of(coordinator)


def victims(chance: random.Random) -> list[str]:
    """One victim of each kind, and then random ones, in random order."""
    kinds = (WORKERS, COORDINATORS, ("broker",))
    chosen = [chance.choice(kind) for kind in (*kinds, *chance.choices(kinds, k=KILLS))][:KILLS]
    return chance.sample(chosen, len(chosen))


async def start_again(group: Fleet, chance: random.Random) -> None:
    """Restart whatever has ended, as a supervisor does. Workers also end by themselves when no broker is there."""
    while True:
        for name in WORKERS + COORDINATORS:
            if not group.runs(name):
                start(group, name)
        await asyncio.sleep(chance.uniform(0, 3))


def start(group: Fleet, name: str) -> None:
    if name in COORDINATORS:
        group.start_coordinator(name, *SESSION)
    else:
        group.start(name)
