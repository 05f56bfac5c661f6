"""A group changes from the classic protocol to the declarative one and back, on a real broker."""

from __future__ import annotations

import signal
from collections import Counter
from functools import partial

import pytest
from fleet import Fleet, MakeFleet, overlaps

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


async def test_workers_are_restarted_one_by_one_with_the_other_protocol_and_back(fleet: MakeFleet) -> None:
    """Nothing runs twice, and nothing stops when another coordinator takes over the bridge, but to even out what the
    bridge's workers have.
    """
    async with fleet("--coordinators", "dedicated") as group:
        await coordinated_by(group, "k0")
        await group.submit("streams", tasks=6, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2", "w3"):
            group.start(worker)
        await group.balanced("w1", "w2", "w3")
        for number, options in enumerate((CONNECT, ())):
            for worker in ("w1", "w2", "w3"):
                group.send(worker, signal.SIGTERM)
                assert await group.ended(worker) == [0]
                group.start(worker, *options)
                await all_run(group, "w1", "w2", "w3", even=worker)
                if worker == "w1":
                    stops, surplus = await group.stops(), above_two(group)
                    before = group.topics.status.workers[BRIDGE].member_id
                    await coordinated_by(group, f"k{number + 1}", instead_of=f"k{number}")
                    await taken_over(group, before)
                    await all_run(group, "w1", "w2", "w3", even=worker)
                    assert len(await group.stops() - stops) <= surplus, group.story()
        assert not overlaps(await group.steps()), group.story()
        assert BRIDGE not in group.record.members
        await stopped(group, "k2")


async def coordinated_by(group: Fleet, coordinator: str, *, instead_of: str = "") -> None:
    """Start a coordinator that bridges groups with classic workers, and then stop the one before."""
    group.start_coordinator(coordinator, "--migration-policy", "bidirectional")
    if instead_of:
        await stopped(group, instead_of)


async def stopped(group: Fleet, coordinator: str) -> None:
    """In order, so that others need not wait for the end of its session."""
    group.send(coordinator, signal.SIGTERM)
    await group.ended(coordinator)


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
