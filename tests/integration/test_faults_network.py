"""Workers whose network to the broker is cut, stalled or slow, while others are not affected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fleet import SHORT_SESSION, SHORT_SESSION_S, Fleet, MakeFleet, overlaps
from proxied import Network
from waiting import eventually, slow_ms

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import ControlAction, ControlRecord, JobDefinition, TaskKind, TaskState
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import TaskId, WorkerId

WORKERS = ("w1", "w2", "w3")


@pytest.fixture
def fleet(network: Network, group_id: str, tmp_path: Path) -> MakeFleet:
    def make(*options: str) -> Fleet:
        return Fleet(network.near, group_id, tmp_path, "--runner", "noop", "--slots", "20", *options)

    return make


async def start_three(group: Fleet, network: Network) -> None:
    """w1 reaches the broker directly, w2 and w3 through a proxy each."""
    group.start("w1")
    for worker, way in zip(("w2", "w3"), network.ways, strict=True):
        group.start(worker, "--bootstrap-servers", way.address)
    await group.balanced(*WORKERS)
    await group.rested()
    assert all(way.connections for way in network.ways)


async def test_a_cut_that_is_shorter_than_the_session_moves_and_stops_nothing(
    fleet: MakeFleet, network: Network
) -> None:
    stalled, broken = network.ways
    async with fleet("--max-delay-ms", "0") as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        await start_three(group, network)
        before, tasks, stops = group.record, dict(group.topics.status.tasks), await group.stops()

        stalled.stall()
        broken.cut()
        await eventually(lambda: "trying again until" in group.log_of("w3"), "w3 has noticed it")
        for way in network.ways:
            way.heal()

        await eventually(lambda: "back in the group" in group.log_of("w3"))
        await group.topics.catch_up()
        assert dict(group.topics.status.tasks) == tasks
        await assert_nobody_was_lost(group, before, stops)
        for worker in ("w2", "w3"):
            assert group.log_of(worker).count("trying again until") <= 2, "once for the group, once for the topics"


async def assert_nobody_was_lost(group: Fleet, before: ClassicRecord, stops: set[tuple[TaskId, str]]) -> None:
    """So far there was no round. The round for a new worker shows that all members have kept their membership: only the
    tasks that the new worker is given are stopped.
    """
    assert group.record == before, group.story()
    assert await group.stops() == stops
    group.start("w4")
    await group.balanced(*WORKERS, "w4")
    since = [record for record in group.records if record.epoch >= before.epoch]
    assert all(set(WORKERS) <= set(record.members) for record in since), group.story()
    assert {task for task, _worker in await group.stops() - stops} == group.owned("w4")


async def test_a_connection_that_died_silently_is_replaced_before_the_session_is_over(
    fleet: MakeFleet, network: Network
) -> None:
    """No error shows that it is dead: a firewall dropped it, or the broker's address moved to another host."""
    async with fleet("--max-delay-ms", "0", "--session-timeout-ms", slow_ms(20_000)) as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        await start_three(group, network)
        before, stops = group.record, await group.stops()

        network.ways[0].strand()
        await eventually(lambda: "back in the group" in group.log_of("w2"))
        await assert_nobody_was_lost(group, before, stops)


async def test_topics_are_read_and_written_again_in_time_after_a_connection_died_silently(
    network: Network, group_id: str
) -> None:
    near, far = (
        KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id="tests")
        for servers in (network.near, network.ways[0].address)
    )
    async with GroupTopics(near, group_id, WORKER) as here, GroupTopics(far, group_id, WORKER) as there:
        await there.submit(JobDefinition(name="before", entry_point="noop:job"))
        network.ways[0].strand()
        await here.submit(JobDefinition(name="after", entry_point="noop:job"))
        wish = ControlRecord(worker=WorkerId("w1"), action=ControlAction.STOP, at_ms=0)
        await asyncio.gather(there.catch_up(), there.publish_control(wish))
        assert there.jobs.jobs.keys() == {"before", "after"}


async def test_workers_cut_off_for_longer_than_the_session_stop_before_others_start(
    fleet: MakeFleet, network: Network
) -> None:
    stalled, broken = network.ways
    async with fleet(*SHORT_SESSION, "--max-delay-ms", "0") as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        await start_three(group, network)
        kept = group.owned("w1")
        lost = group.owned("w2") | group.owned("w3")

        cut_ms = wall_ms()
        stalled.stall()
        broken.cut()
        await group.balanced("w1")
        moved_ms = wall_ms()
        for way in network.ways:
            way.heal()
        await group.balanced(*WORKERS)

        starts = await group.starts()
        for task in lost:
            before_cut = sum(start.from_ms < cut_ms for start in starts[task])
            there, here = starts[task][before_cut - 1 :][:2]
            assert there.worker in ("w2", "w3")
            assert here.worker == "w1"
            assert there.until_ms is not None, "it recorded the stop when it was back"
            assert cut_ms < there.until_ms < cut_ms + SHORT_SESSION_S * 1000
            assert there.until_ms < here.from_ms <= moved_ms
        assert not overlaps(await group.steps())
        for task in kept & group.owned("w1"):
            assert starts[task][-1].from_ms < cut_ms, "the tasks of w1 ran on"
        for worker in ("w2", "w3"):
            log = group.log_of(worker)
            assert log.count("back in the group after") == 1, log
            assert log.count("no broker of") <= 2, f"a client may hear late of what is over\n{log}"
            assert "Traceback" not in log


async def test_slow_answers_cost_no_worker_its_membership(fleet: MakeFleet, network: Network) -> None:
    """Each answer takes a third of a second: in the steady state, during rebalances, and for the leader."""
    way = network.ways[0]
    async with fleet("--max-delay-ms", "0") as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        way.slow_down(0.15)  # each way
        group.start("w2", "--bootstrap-servers", way.address)
        await group.balanced("w2")
        assert group.record.leader == "w2"
        group.start("w1")
        await group.balanced("w1", "w2")
        await group.rested()
        before = group.record

        await asyncio.sleep(6)  # so many heartbeats

        assert group.record == before, group.story()
        stopped = {worker for _task, worker in await group.stops()}
        assert stopped <= {"w2"}, "it gave up the tasks for w1"
        assert {told.worker for told in group.topics.status.tasks.values() if told.state is TaskState.RUNNING} == {
            WorkerId("w1"),
            WorkerId("w2"),
        }
        assert "trying again until" not in group.log_of("w2")
