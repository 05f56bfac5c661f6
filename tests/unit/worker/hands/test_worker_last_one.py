"""The last worker that leaves: nobody else can adopt the queries that others have let go of."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from executor_bench import A0, ME, Bench
from queries_bench import MINE, STARTED
from queries_bench import Bench as Servers
from stand_ins import MemoryTopics
from waiting import DEADLINE_S

from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.values.model import Epoch, WorkerId
from airflow_provider.worker.process_identity import this_process

pytestmark = pytest.mark.turned_clock

LEAVES = WorkerStatus(worker=ME, state=WorkerPhase.STOPPING, epoch=Epoch(1), slots=2, process=this_process())
LET_GO = TaskStatus(
    task=A0,
    state=TaskState.RUNNING,
    epoch=Epoch(1),
    worker=WorkerId("w2"),
    kind=TaskKind.STREAMING,
    handle=STARTED.to_json(),
)


async def test_it_ends_the_queries_of_others_even_if_it_has_none_itself() -> None:
    servers = Servers()
    bench = Bench(MemoryTopics(), slots=2, linger_s=60, make_queries=lambda _hear: servers.queries)
    await bench.submit(kind=TaskKind.STREAMING)
    await bench.topics.publish_task(LET_GO)
    bench.executor.leave_for_good()
    closing = asyncio.ensure_future(bench.executor.close())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not servers.watches, "others may not have heard yet that it leaves"
    await bench.topics.publish_worker(replace(LEAVES, state=WorkerPhase.LEFT))
    await asyncio.wait_for(closing, DEADLINE_S)
    assert servers.watches[MINE].stopped == [STARTED]
    assert bench.told(A0).state is TaskState.STOPPED


async def test_it_does_not_wait_if_there_is_no_detached_query() -> None:
    bench = Bench(MemoryTopics(), slots=2, linger_s=60)
    bench.executor.leave_for_good()
    await asyncio.wait_for(bench.executor.close(), DEADLINE_S)
