"""A worker that lacks what tasks need, among healthy ones; and a job that is wrong everywhere."""

from __future__ import annotations

import pytest
from simulation.world import NO_LIMIT, World

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import ConnectProtocol, TaskId, WorkerId

MAX_DELAY_MS = 20_000
MINUTE_MS = 60_000
W2, W3 = WorkerId("w2"), WorkerId("w3")
TASKS = frozenset(TaskId("a", index) for index in range(9))
MORE, MOST = (frozenset(TaskId(job, index) for index in range(3)) for job in "bc")
WRONG = frozenset(TaskId("wrong", index) for index in range(3))
COOPERATIVE = [ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED, ConnectProtocol.EXTENSIBLE]
in_each_protocol = pytest.mark.parametrize("protocol", COOPERATIVE)
with_each_seed = pytest.mark.parametrize("seed", range(5))


def group_of(protocol: ConnectProtocol, seed: int, *workers: str, slots: int = NO_LIMIT) -> World:
    settings = MemberSettings(group_id="g", worker=WorkerId("template"), protocol=protocol)
    world = World(seed, policy=Deferred(max_delay_ms=MAX_DELAY_MS), slots=(slots,), settings=settings)
    for name in workers:
        world.start(name)
    return world


def starts(world: World) -> dict[TaskId, int | None]:
    """The number of the running attempt of each task."""
    return {task: each.tasks.start_of(task) for each in world.members for task in each.running}


def states(world: World) -> dict[TaskId, TaskState]:
    return {task: last.state for task, last in world.status.snapshot().tasks.items()}


@in_each_protocol
@with_each_seed
@pytest.mark.parametrize("slots", [NO_LIMIT, 8])
def test_no_task_pays_for_a_worker_that_lacks_what_others_have(
    protocol: ConnectProtocol, seed: int, slots: int
) -> None:
    """Without any retries. Each task fails there once at most before the worker has stood back."""
    world = group_of(protocol, seed, "w1", "w2", "w3", slots=slots)
    world.lacking.workers = frozenset({W2})
    for wanted in (TASKS, TASKS | MORE, TASKS | MORE | MOST):
        world.configure(wanted)
        world.run(2 * MINUTE_MS)
    assert TaskState.FAILED not in states(world).values(), world.story()
    assert world.lacking.stood_back.keys() == {W2}, world.story()
    assert max(times[W2] for times in world.lacking.failures.values()) <= 1 + world.lacking.stood_back[W2]
    healthy = world.running("w1") | world.running("w3")
    assert healthy == TASKS | MORE | MOST, world.story()
    assert len(world.coordinator.rounds) <= 40, world.story()


@in_each_protocol
@with_each_seed
def test_a_job_that_is_wrong_everywhere_fails_soon_and_no_worker_stands_back(
    protocol: ConnectProtocol, seed: int
) -> None:
    world = group_of(protocol, seed, "w1", "w2", "w3")
    world.configure(TASKS)
    world.run(2 * MINUTE_MS)
    rounds = len(world.coordinator.rounds)
    world.lacking.wrong = WRONG
    world.configure(TASKS | WRONG)
    world.run(MINUTE_MS)
    told = states(world)
    assert {told[task] for task in WRONG} == {TaskState.FAILED}, world.story()
    assert not world.lacking.stood_back
    assert {task for task, state in told.items() if state is TaskState.RUNNING} == TASKS
    assert len(world.coordinator.rounds) - rounds <= 6, world.story()


@in_each_protocol
@with_each_seed
def test_where_there_is_no_other_job_it_fails_soon_too(protocol: ConnectProtocol, seed: int) -> None:
    """Each task is tried once more on another worker."""
    world = group_of(protocol, seed, "w1", "w2", "w3")
    world.lacking.wrong = WRONG
    world.configure(WRONG)
    world.run(MINUTE_MS)
    assert {states(world)[task] for task in WRONG} == {TaskState.FAILED}, world.story()
    assert {len(times) for times in world.lacking.failures.values()} == {2}
    assert not world.lacking.stood_back
    assert len(world.coordinator.rounds) <= 12, world.story()


@with_each_seed
@pytest.mark.parametrize("for_ever", [False, True])
def test_a_worker_that_learns_and_whose_spark_does_not_start_disturbs_nobody(seed: int, for_ever: bool) -> None:
    """It stands back before any task has stopped for it. When its Spark starts, it gets its share, warm."""
    settings = MemberSettings(group_id="g", worker=WorkerId("template"), protocol=ConnectProtocol.EXTENSIBLE)
    world = World(seed, settings=settings, stateful=frozenset("a"))
    for worker in ("w1", "w2"):
        world.start(worker)
    world.configure(TASKS)
    world.run_until(lambda: world.settled)
    before = starts(world)
    world.lacking.lack_spark("w3", None if for_ever else 2 * MINUTE_MS)
    world.start("w3")
    world.run(MINUTE_MS)
    assert world.lacking.stood_back == {W3: 1}, world.story()
    assert starts(world) == before
    world.run(5 * MINUTE_MS)
    assert world.settled, world.story()
    if for_ever:
        assert starts(world) == before
    else:
        assert [len(world.running(worker)) for worker in ("w1", "w2", "w3")] == [3, 3, 3]
        assert starts(world).items() - before.items() == {(task, starts(world)[task]) for task in world.running("w3")}
