"""The broker of running workers is killed and comes back, with its data or without."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from fleet import SHORT_SESSION, SHORT_SESSION_S, Fleet
from waiting import DEADLINE_S, eventually, slow_ms

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.values.model import TaskId

LONG_SESSION = ("--session-timeout-ms", slow_ms(60_000))
WORKERS = ("w1", "w2", "w3")
NOOP = ("--runner", "noop", "--slots", "20")
MOST_TOLD = 2
"""How often at most a worker's log tells of one outage, however many tries there are: one of its clients may be late to
reach a broker that another one has reached.
"""


def _is_back(group: Fleet, worker: str) -> bool:
    return "back in the group" in group.log_of(worker)


class MortalBroker:
    """A broker that a test can kill and start again at the same address."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.broker = LocalBroker(data=data, start_timeout_s=DEADLINE_S)

    async def kill(self) -> None:
        await asyncio.to_thread(self.broker.kill)

    async def start(self) -> None:
        await asyncio.to_thread(self.broker.start)

    async def lose_everything(self) -> None:
        await self.kill()
        shutil.rmtree(self._data / "data")
        await self.start()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    made = MortalBroker(tmp_path / "broker")
    with made.broker:
        yield made


async def test_an_outage_shorter_than_the_session_stops_nothing_and_loses_no_end_of_a_task(
    mortal: MortalBroker, group_id: str, tmp_path: Path
) -> None:
    async with Fleet(mortal.broker.bootstrap_servers, group_id, tmp_path, *NOOP, *LONG_SESSION) as group:
        await group.submit("forever", tasks=4, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.balanced("w1", "w2")
        short = [TaskId("short", index) for index in range(4)]
        await group.submit("short", tasks=4, seconds=4)
        await group.wait_for(
            lambda _jobs, status: all(task in status.tasks and status.tasks[task].started_at_ms for task in short),
            "the short tasks run",
        )
        ended_ms = max(group.topics.status.tasks[task].started_at_ms or 0 for task in short) + 4_000
        await group.rested()
        before, stops = group.record, await group.stops()

        await mortal.kill()
        killed_ms = wall_ms()
        await asyncio.sleep((ended_ms + 500 - wall_ms()) / 1000)
        await mortal.start()
        await group.wait_for(
            lambda _jobs, status: all(status.tasks[task].state is TaskState.FINISHED for task in short),
            "the short tasks are recorded as finished",
        )
        for worker in ("w1", "w2"):
            await eventually(partial(_is_back, group, worker), f"{worker} is back")
        assert group.record == before, group.story()
        assert await group.stops() == stops
        for task, starts in (await group.starts()).items():
            assert task.job == "forever" or len(starts) == 1, f"{task} ran twice"
            assert starts[-1].from_ms < killed_ms

        group.start("w3")
        await group.balanced("w1", "w2", "w3")
        assert group.epoch > before.epoch, "epochs go on"
        for worker in ("w1", "w2"):
            log = group.log_of(worker)
            for line in ("trying again until it is", "back in the group after"):
                assert log.count(line) == 1, f"{line}:\n{log}"
            assert 1 <= log.count("no broker of") == log.count("is back after") <= MOST_TOLD, log


@pytest.mark.thorough  # each run has it with topics that are there again
async def test_a_broker_that_comes_back_without_its_data_ends_all_its_workers_with_a_clear_error(
    mortal: MortalBroker, group_id: str, tmp_path: Path
) -> None:
    async with Fleet(mortal.broker.bootstrap_servers, group_id, tmp_path, *NOOP, *SHORT_SESSION) as group:
        await start_workers(group)

        await mortal.lose_everything()

        async def end_of(worker: str) -> float:
            assert await group.ended(worker) == [1]
            return time.monotonic()

        ends = await asyncio.gather(*map(end_of, WORKERS))
        assert max(ends) - min(ends) < SHORT_SESSION_S, "at the same time, not one after the other"
        for worker in WORKERS:
            assert_told_that_topics_are_gone(group, worker)


async def test_recreated_topics_end_running_workers_and_serve_the_next_ones(
    mortal: MortalBroker, group_id: str, tmp_path: Path
) -> None:
    """Statuses that the old workers write last, with high epochs, must not win over those of the new workers."""
    options = (*NOOP, *SHORT_SESSION, "--until", "drained")
    async with Fleet(mortal.broker.bootstrap_servers, group_id, tmp_path, *options) as group:
        await start_workers(group)

        await mortal.lose_everything()
        submitted = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "airflow_provider.cli.main", "jobs", "submit", group_id, "forever", "noop:job"),
            *("--max-tasks", "6", "--config", '{"seconds": 0.5}'),
            *("--bootstrap-servers", mortal.broker.bootstrap_servers),
        )
        assert await submitted.wait() == 0
        assert await group.ended(*WORKERS) == [1, 1, 1]
        for worker in WORKERS:
            assert_told_that_topics_are_gone(group, worker)

        for worker in WORKERS:
            group.start(worker)
        assert await group.ended(*WORKERS) == [0, 0, 0]
        await group.topics.catch_up()
        assert group.topics.jobs.jobs["forever"].config == {"seconds": 0.5}
        told = [status for task, status in group.topics.status.tasks.items() if not task.is_planner]
        assert [status.state for status in told] == [TaskState.FINISHED] * 6
        finished = [step for step in await group.steps() if step.state is TaskState.FINISHED]
        ends = Counter(
            task for task, _ in {(step.task, step.started_at_ms) for step in finished if not step.task.is_planner}
        )
        assert max(ends.values()) == 1, "the end of a task was overlooked, and it ran again"


async def start_workers(group: Fleet) -> None:
    await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
    for worker in WORKERS:
        group.start(worker)
    await group.balanced(*WORKERS)


def assert_told_that_topics_are_gone(group: Fleet, worker: str) -> None:
    log = group.log_of(worker)
    assert f"of group '{group.group_id}' is gone; was the broker started again without its data?" in log, log
    assert "jobs have to be submitted again" in log
    assert "Traceback" not in log
    assert log.count("no broker of") <= MOST_TOLD, log
