"""One checkpoint is never run twice, however its key passes from task to task and from worker to worker."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import turned_clock
from executor_bench import A0, A1, A2, AWAY, PLANNER, Bench
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_ins import MemoryTopics
from turned_clock import time_passes
from waiting import eventually

from airflow_provider.assignment.model import Memory
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.spark.runner import TaskOrder
from airflow_provider.state.records import (
    GROUP_KEY,
    CheckpointClaim,
    JobDefinition,
    PlanRecord,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    encode,
    job_key,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import (
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    WorkerId,
)
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.checkpoint_claims import Claims
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun

pytestmark = pytest.mark.turned_clock

W1, W2 = WorkerId("w1"), WorkerId("w2")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=100, replan_interval_ms=3_600_000)


def tables(*names: str) -> list[dict[str, Any]]:
    return [{"table": name, "checkpoint_key": name} for name in names]


@asynccontextmanager
async def two_workers(*names: str, **of_first: Any) -> AsyncIterator[tuple[Bench, Bench]]:
    """The first runs task 0, the second task 1, of a job with these tables."""
    topics = MemoryTopics()
    one = Bench(topics, slots=9, linger_s=60, worker=W1, **of_first)
    other = Bench(topics, slots=9, linger_s=60, worker=W2)
    await topics.submit(JOB)
    await one.plan(JOB, tables(*names))
    one.take(A0)
    other.take(A1)
    await one.runs(A0)
    await other.runs(A1)
    try:
        yield one, other
    finally:
        for bench in (one, other):
            bench.runner.stubborn.clear()
            await bench.executor.close()
    assert one.executor.fault is None
    assert other.executor.fault is None


def running(bench: Bench) -> dict[TaskId, str]:
    return {task: bench.runner.order_of(task).config["table"] for task in bench.runner.running}


async def a_few_looks() -> None:
    """Time enough for a start that comes too early."""
    await time_passes(60)


# ---- the plan


async def test_a_table_that_comes_first_moves_none_of_the_others() -> None:
    async with two_workers("orders", "users") as (one, other):
        one.take(PLANNER)
        await eventually(lambda: PLANNER in one.runner.running)
        one.runner.finish(PLANNER, tables("items", "orders", "users"))
        await eventually(lambda: len(one.topics.jobs.plans["a"].configs) == 3)
        assert [config["table"] for config in one.topics.jobs.plans["a"].configs] == ["orders", "users", "items"]
        await a_few_looks()
        assert one.runner.told == other.runner.told == [], "nothing had to stop"


async def test_also_when_the_job_was_submitted_with_another_configuration() -> None:
    async with two_workers("orders", "users") as (one, _):
        changed = replace(JOB, config={"tables": 3})
        await one.topics.submit(changed)
        one.take(PLANNER)
        await eventually(lambda: PLANNER in one.runner.running)
        one.runner.finish(PLANNER, tables("items", "orders", "users"))
        await eventually(lambda: one.topics.jobs.plan_of("a"))
        assert [config["table"] for config in one.topics.jobs.plans["a"].configs] == ["orders", "users", "items"]


async def test_a_plan_that_gives_two_tasks_one_key_fails() -> None:
    async with two_workers("orders", "users") as (one, _):
        one.take(PLANNER)
        await eventually(lambda: PLANNER in one.runner.running)
        one.runner.finish(PLANNER, tables("items", "items"))
        await one.becomes(PLANNER, TaskState.FAILED)
        error = one.told(PLANNER).error
        assert error is not None
        assert "gives the tasks 0 and 1 the checkpoint_key 'items'" in error.message


# ---- a key that passes to another task


async def test_a_start_waits_until_the_last_holder_of_its_checkpoint_has_stopped() -> None:
    async with two_workers("orders", "users") as (one, other):
        one.runner.stubborn.add(A0)
        await one.plan(JOB, tables("items", "orders", "users"))
        other.take(A2)
        await eventually(lambda: running(other) == {A2: "users"}, "its own has stopped")
        await a_few_looks()
        assert running(one) == {A0: "orders"}
        assert running(other) == {A2: "users"}
        assert other.state(A1) is TaskState.PENDING
        one.runner.let_go(A0)
        await eventually(lambda: running(other) == {A1: "orders", A2: "users"})
        await eventually(lambda: running(one) == {A0: "items"})


async def test_two_that_change_places_wait_for_each_other_to_stop_and_not_to_start() -> None:
    async with two_workers("orders", "users") as (one, other):
        one.runner.stubborn.add(A0)
        other.runner.stubborn.add(A1)
        await one.plan(JOB, tables("users", "orders"))
        await a_few_looks()
        one.runner.stubborn.clear()
        one.runner.let_go(A0)
        await a_few_looks()
        assert running(one) == {}
        other.runner.let_go(A1)
        await eventually(lambda: (running(one), running(other)) == ({A0: "users"}, {A1: "orders"}))


async def test_that_a_task_has_stopped_is_said_until_it_is_stored() -> None:
    """Otherwise it would be waited for as long as this worker lives."""
    async with two_workers("orders", "users") as (one, other):
        one.runner.stubborn.add(A0)
        await one.plan(JOB, tables("users"))
        await eventually(lambda: one.runner.told)
        await eventually(lambda: other.state(A1) is TaskState.STOPPED)
        with one.topics.out_of_order(AWAY):
            one.stop(A0)
            one.runner.let_go(A0)
            await a_few_looks()
        await one.becomes(A0, TaskState.STOPPED)


async def test_nothing_starts_before_its_claim_is_stored() -> None:
    async with two_workers("orders", "users") as (one, other):
        one.stop(A0)
        await one.becomes(A0, TaskState.STOPPED)
        with other.topics.out_of_order(AWAY):
            other.take(A0, epoch=2)
            await a_few_looks()
            assert running(other) == {A1: "users"}
        await eventually(lambda: running(other) == {A0: "orders", A1: "users"})


async def test_a_claim_that_a_later_word_hides_is_made_again_in_the_next_epoch() -> None:
    async with two_workers("orders", "users") as (one, other):
        one.executor.advance(Epoch(5))
        one.stop(A0)
        await one.becomes(A0, TaskState.STOPPED)
        other.take(A0, epoch=4)
        await a_few_looks()
        assert running(other) == {A1: "users"}
        other.executor.advance(Epoch(6))
        await eventually(lambda: running(other) == {A0: "orders", A1: "users"})


async def test_a_job_that_is_submitted_again_waits_for_what_still_stops_of_the_last_one() -> None:
    async with two_workers("orders", "users") as (one, other):
        one.runner.stubborn.add(A0)
        await one.topics.remove("a")
        await eventually(lambda: not other.runner.running)
        await one.topics.submit(replace(JOB, config={"again": True}))
        job = one.topics.jobs.jobs["a"]
        await one.plan(job, tables("users", "orders"))
        other.take(A1, epoch=2)
        await a_few_looks()
        assert running(one) == {A0: "orders"}
        assert running(other) == {}
        one.runner.let_go(A0)
        await eventually(lambda: running(other) == {A1: "orders"})


async def test_a_task_that_only_waited_gives_up_its_checkpoint_when_it_is_revoked() -> None:
    """The next plan may have the key elsewhere, and nobody would say anything more of the task."""
    async with two_workers("orders", "users") as (one, other):
        one.runner.stubborn.add(A0)
        await one.plan(JOB, tables("users", "orders"))
        await eventually(lambda: running(other) == {})
        await eventually(lambda: other.state(A1) is TaskState.PENDING)
        other.stop(A1)
        await one.plan(JOB, tables("orders"))
        one.runner.let_go(A0)
        await eventually(lambda: running(one) == {A0: "orders"})


# ---- a holder that is lost


def round_of(*workers: WorkerId, epoch: int) -> bytes:
    record = ClassicRecord(
        epoch=Epoch(epoch),
        generation=GenerationId(epoch),
        leader=workers[0],
        leader_member=MemberId("m"),
        protocol=SubProtocol.SESSIONED,
        config_offset=ConfigOffset(0),
        members={worker: MemberId(worker) for worker in workers},
        assignment={},
        revoked={},
        moves=(),
        delay_ms=0,
        reason="",
        at_ms=0,
        memory=Memory(),
    )
    return encode(record.to_json())


async def test_a_start_waits_no_longer_when_the_group_has_gone_on_without_the_holder() -> None:
    async with two_workers("users", "orders") as (one, other):
        one.runner.stubborn.add(A0)
        await one.plan(JOB, tables("orders", "users"))
        for still_held in (round_of(W2, epoch=1), round_of(W1, W2, epoch=2)):
            await other.topics._write(other.topics.names.status, GROUP_KEY, still_held)
            await a_few_looks()
            assert running(other) == {}
        await other.topics._write(other.topics.names.status, GROUP_KEY, round_of(W2, epoch=3))
        await eventually(lambda: running(other) == {A1: "users"})


@pytest.mark.parametrize("phase", [WorkerPhase.STABLE, WorkerPhase.DEFERRED])
async def test_nor_when_another_process_has_its_name_since_a_lease(phase: WorkerPhase) -> None:
    async with two_workers("users", "orders", lease_ms=5_000) as (one, other):
        one.runner.stubborn.add(A0)
        await one.plan(JOB, tables("orders", "users"))

        async def held_by(process: str, phase: WorkerPhase) -> None:
            record = WorkerStatus(worker=W1, state=phase, epoch=Epoch(1), slots=1, process=process)
            await other.topics.publish_worker(record)

        claim = one.told(A0).claim
        assert claim is not None
        await held_by(f"{claim.process}/7/7", WorkerPhase.STABLE)
        await time_passes(10)
        assert running(other) == {}, "it is the same process, which has a JVM now"
        await held_by("elsewhere/boot/1/1", WorkerPhase.JOINING)
        await time_passes(10)
        assert running(other) == {}, "who joins may never be let in"
        taken_over = asyncio.get_running_loop().time()
        await held_by("" if phase is WorkerPhase.DEFERRED else "elsewhere/boot/1/1", phase)
        await eventually(lambda: running(other) == {A1: "users"})
        assert 4.9 <= asyncio.get_running_loop().time() - taken_over < 10, "the lease of the claim, not its own"


def test_what_was_noted_of_a_holder_is_forgotten_when_its_claim_stands_no_more() -> None:
    claims = Claims(process="mine", lease_ms=300)
    plan = PlanRecord.of(JOB, tables("users", "orders"), planned_by=W1, at_ms=0)
    work = JobsSnapshot(jobs={"a": JOB}, plans={"a": plan}).work_of(A1)
    assert work is not None
    waiting = TaskRun(work=work, epoch=Epoch(1), claim=claims.of(work))
    claim = CheckpointClaim(key="orders", process="theirs", number=1, lease_ms=300)
    held = TaskStatus(task=A0, state=TaskState.RUNNING, epoch=Epoch(1), worker=W2, claim=claim)
    other = WorkerStatus(worker=W2, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1, process="another")
    for said, noted in ((held, 1), (replaced(held, state=TaskState.STOPPED), 0)):
        status = StatusSnapshot(tasks={A0: said}, workers={W2: other})
        assert claims.blocked([waiting], status, now_ms=0).held == frozenset({A1} if noted else ())
        assert len(claims.replaced) == noted


# ---- any order of things


class OneOfMany(MemoryTopics):
    """Topics that several read, each at its own pace."""

    def __init__(self, all_of_them: list[OneOfMany], pace: random.Random) -> None:
        super().__init__()
        self._all = all_of_them
        self._pace = pace
        self._unread: deque[tuple[str, Record]] = deque()
        self._length: dict[str, int] = {}
        all_of_them.append(self)

    async def _write(self, topic: str, key: str, value: bytes | None) -> None:
        if topic == self.names.events:
            return
        for each in self._all:
            offset = each._length.get(topic, 0)
            each._length[topic] = offset + 1
            each._unread.append((topic, Record(key.encode(), value, offset)))
            asyncio.get_running_loop().call_later(self._pace.choice([0, 0.1, 1, 3]), each._read_one)

    def _read_one(self) -> None:
        topic, record = self._unread.popleft()
        (self._memory.jobs if topic == self.names.jobs else self._memory.status).take([record])


class Trio:
    """Three workers with a task each, which stop when the test says so."""

    def __init__(self, pace: random.Random) -> None:
        self.topics: list[OneOfMany] = []
        self.pace = pace
        self.workers = {
            TaskId("a", i): Bench(OneOfMany(self.topics, pace), slots=9, linger_s=60, worker=WorkerId(f"w{i}"))
            for i in range(3)
        }
        self.twice: list[str] = []
        for bench in self.workers.values():
            bench.runner.start = self._watched(bench.runner.start)

    def _watched(self, start: Callable[[TaskOrder], Any]) -> Callable[[TaskOrder], Any]:
        async def started(order: TaskOrder) -> None:
            self.twice.extend({order.config["table"]} & set(self.running.values()))
            await start(order)

        return started

    @property
    def running(self) -> dict[TaskId, str]:
        return {task: table for bench in self.workers.values() for task, table in running(bench).items()}

    async def plan(self, *names: str) -> None:
        await self.topics[0].publish_plan(PlanRecord.of(JOB, tables(*names), planned_by=W1, at_ms=0))

    def some_get_deaf(self) -> None:
        for task, bench in self.workers.items():
            if task in bench.runner.running and self.pace.random() < 0.5:
                bench.runner.stubborn.add(task)

    def all_stop_at_last(self) -> None:
        for task, bench in self.workers.items():
            if task in bench.runner.stubborn and bench.state_here(task) is RunState.RESTARTING:
                bench.runner.let_go(task)
            bench.runner.stubborn.clear()

    async def play(self, plans: list[tuple[str, ...]]) -> None:
        await self.topics[0]._put(self.topics[0].names.jobs, job_key("a"), JOB.to_json())
        await self.plan(*plans[0])
        await eventually(lambda: all(topics.jobs.plan_of("a") for topics in self.topics))
        for task, bench in self.workers.items():
            bench.take(task)
        for names in plans[1:]:
            await time_passes(self.pace.choice([0, 0.2, 2, 5]))
            self.some_get_deaf()
            await self.plan(*names)
            await time_passes(self.pace.choice([0, 0.2, 2, 5]))
            self.all_stop_at_last()
        wanted = {TaskId("a", index): name for index, name in enumerate(plans[-1])}
        await eventually(lambda: self.running == wanted, f"{wanted} run")
        for bench in self.workers.values():
            await bench.executor.close()


@pytest.mark.slow
@given(
    plans=st.lists(st.permutations("abcd").map(lambda names: tuple(names[:3])), min_size=2, max_size=5),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=examples(10), deadline=None)
def test_no_checkpoint_is_run_twice_whoever_reads_what_when(plans: list[tuple[str, ...]], seed: int) -> None:
    async def play() -> list[str]:
        trio = Trio(random.Random(seed))
        await trio.play(plans)
        return trio.twice

    assert turned_clock.run(play()) == []
