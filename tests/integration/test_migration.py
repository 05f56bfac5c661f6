"""A group changes from the classic protocol to the declarative one and back, on a real broker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from fleet import Fleet, MakeFleet, overlaps
from waiting import DEADLINE_S

from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import spoken_epoch
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import MemberId

CONNECT = ("--group-protocol", "connect")


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Workers with the noop runner and enough slots; lost tasks go to others immediately."""
    return partial(fleet, "--runner", "noop", "--slots", "20", "--max-delay-ms", "0")


@pytest.fixture
def coordinators(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Starts a coordinator that bridges groups with classic workers, then stops the one before."""
    started: list[subprocess.Popen[bytes]] = []

    def start(bootstrap_servers: str) -> None:
        with (tmp_path / f"coordinator-{len(started)}.log").open("ab") as log:
            command = [sys.executable, "-m", "airflow_provider.cli.main", "coordinator"]
            options = ["--bootstrap-servers", bootstrap_servers, "--migration-policy", "bidirectional"]
            started.append(subprocess.Popen([*command, *options], stdout=log, stderr=log))
        end(*started[:-1])

    def end(*processes: subprocess.Popen[bytes]) -> None:
        for each in processes:
            each.terminate()
        for each in processes:
            each.wait(DEADLINE_S)

    yield start
    end(*started)


async def test_a_group_changes_its_protocol_when_nobody_is_in_it(fleet: MakeFleet) -> None:
    """A worker that comes too early is refused, nothing runs twice, and no status wins over later ones."""
    async with fleet() as group:
        await group.submit("streams", tasks=4, kind=TaskKind.STREAMING)
        last_epoch = 0
        for worker, options in (("c1", ()), ("d1", CONNECT), ("c1", ()), ("d1", CONNECT)):
            group.start(worker, *options)
            await group.balanced(worker)
            statuses = [status for task, status in group.topics.status.tasks.items() if not task.is_planner]
            assert len(statuses) == 4
            assert all(each.epoch > last_epoch and each.worker == worker for each in statuses), group.story()
            if options == ():
                group.start("d0", *CONNECT)
                assert await group.ended("d0") == [1]
                assert "has workers in the classic protocol: c1" in group.log_of("d0")
            else:
                group.start("c0")
                assert await group.ended("c0") == [2]
                assert "has workers in the declarative protocol: d1" in group.log_of("c0")
            group.send(worker, signal.SIGTERM)
            assert await group.ended(worker) == [0]
            last_epoch = spoken_epoch(group.topics.status)
        assert not overlaps(await group.steps()), group.story()


async def test_workers_are_restarted_one_by_one_with_the_other_protocol_and_back(
    fleet: MakeFleet, coordinators: Callable[[str], None]
) -> None:
    """Nothing runs twice, and nothing stops when another coordinator takes over the bridge, but to even out what the
    bridge's workers have.
    """
    async with fleet("--coordinators", "dedicated") as group:
        coordinators(group.settings.bootstrap_servers)
        await group.submit("streams", tasks=6, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2", "w3"):
            group.start(worker)
        await group.balanced("w1", "w2", "w3")
        for options in (CONNECT, ()):
            for worker in ("w1", "w2", "w3"):
                group.send(worker, signal.SIGTERM)
                assert await group.ended(worker) == [0]
                group.start(worker, *options)
                await all_run(group, "w1", "w2", "w3", even=worker)
                if worker == "w1":
                    stops, surplus = await group.stops(), above_two(group)
                    before = group.topics.status.workers[BRIDGE].member_id
                    coordinators(group.settings.bootstrap_servers)
                    await taken_over(group, before)
                    await all_run(group, "w1", "w2", "w3", even=worker)
                    assert len(await group.stops() - stops) <= surplus, group.story()
        assert not overlaps(await group.steps()), group.story()
        assert BRIDGE not in group.record.members


async def taken_over(group: Fleet, before: MemberId) -> None:
    """Wait until another coordinator has the bridge, with another member id."""

    def holds(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        return status.workers[BRIDGE].member_id != before

    await group.wait_for(holds, "another coordinator has the bridge")


def shares(status: StatusSnapshot) -> Counter[str]:
    """How many tasks run on each worker."""
    return Counter(
        word.worker for task, word in status.tasks.items() if word.state is TaskState.RUNNING and not task.is_planner
    )


def above_two(group: Fleet) -> int:
    """How many of the six tasks would have to stop so that each of the three workers has two."""
    return sum(max(0, share - 2) for share in shares(group.topics.status).values())


async def all_run(group: Fleet, *workers: str, even: str) -> None:
    """Wait until all six tasks run, and each of these workers has some.

    :param even: this one has its even share
    """

    def holds(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        running = shares(status)
        return running.keys() == set(workers) and running.total() == 6 and running[even] == 2

    await group.wait_for(holds, f"all tasks run on {workers}")
