"""The coordinator dies while a group's workers change to the other group protocol one by one, on a real broker."""

from __future__ import annotations

import signal
from collections import defaultdict
from functools import partial
from itertools import pairwise

import pytest
from fleet import Fleet, MakeFleet, overlaps
from shard_bench import LAYOUT
from waiting import eventually

from airflow_provider.group.declarative.protocol.sharding import partition_of
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import TaskId

CONNECT = ("--group-protocol", "connect", "--coordinators", "dedicated")
WORKERS = ("w1", "w2", "w3")


@pytest.fixture
def broker(shard_broker: LocalBroker) -> LocalBroker:
    """A broker that soon notices a lost coordinator."""
    return shard_broker


@pytest.mark.thorough
async def test_a_coordinator_is_killed_in_the_middle_of_a_rolling_change(fleet: MakeFleet) -> None:
    """Another one takes over the group and its bridge: nothing runs twice, and the epoch never goes back."""
    async with fleet("--runner", "noop", "--slots", "20", "--max-delay-ms", "0") as group:
        coordinator = await coordinated(group)
        await group.submit("streams", tasks=6, kind=TaskKind.STREAMING)
        for worker in WORKERS:
            group.start(worker)
        await group.balanced(*WORKERS)
        await changed(group, "w1")
        await all_run(group, StatusSnapshot())

        killed_at, bridge = group.topics.status, group.topics.status.workers[BRIDGE].member_id
        await changed(group, "w2")
        group.kill(coordinator)
        await group.wait_for(lambda _, status: status.workers[BRIDGE].member_id != bridge, "the bridge is taken over")
        await all_run(group, killed_at)

        before = group.topics.status
        await changed(group, "w3")
        await all_run(group, before)
        steps = await group.steps()
        assert not overlaps(steps), group.story()
        rounds = [told.record.epoch for told in await group.rounds()]
        assert all(earlier < later for earlier, later in pairwise(rounds)), group.story()
        spoken: defaultdict[TaskId, list[int]] = defaultdict(list)
        for step in steps:
            spoken[step.task].append(step.epoch)
        assert all(epochs == sorted(epochs) for epochs in spoken.values()), spoken


async def coordinated(group: Fleet) -> str:
    """Start two coordinators that share the shards.

    :returns: the name of this group's coordinator
    """
    for name in ("k1", "k2"):
        group.start_coordinator(name, "--migration-policy", "bidirectional")
        await eventually(partial(serves, group, name), f"{name} serves")
    mine = partition_of(group.group_id, LAYOUT.shards)
    return "k2" if f"serving shard {mine}:" in group.log_of("k2") else "k1"


def serves(group: Fleet, coordinator: str) -> bool:
    return "serving shard" in group.log_of(coordinator)


async def changed(group: Fleet, worker: str) -> None:
    """Restart the worker with the other protocol."""
    group.send(worker, signal.SIGTERM)
    assert await group.ended(worker) == [0]
    group.start(worker, *CONNECT)


async def all_run(group: Fleet, before: StatusSnapshot) -> None:
    """Wait until all tasks run, spread over all workers, in a later epoch."""
    epoch = 0 if before.group is None else before.group.epoch

    def holds(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        words = [status.tasks.get(task) for task in configured(jobs, status.tasks)]
        running = [word for word in words if word is not None and word.state is TaskState.RUNNING]
        return (
            len(words) == len(running) == 6
            and {word.worker for word in running} == set(WORKERS)
            and status.group is not None
            and status.group.epoch > epoch
        )

    await group.wait_for(holds, "all tasks run on all workers")
