"""A mixed group goes from the eager protocol to a cooperative one and back, worker by worker, each kind first.

An upgrade needs nothing but that every worker is started anew, one after the other (KIP-415, migration).

A downgrade begins when the first worker comes back as ``eager``. KIP-415 wants its first assignment to be empty, since
the members came into that round with their tasks running, and everybody to join again. Ours do that under either
leader. Java Connect does neither (KAFKA-13816): its leader deals out everything immediately, and its workers run on for
ever what is not in an assignment, beside the worker that has got it; not before that worker is started anew is all
well. When ours lead, they tell each Java worker in the first assignment what it has, which makes it stop that before it
joins again. So a downgrade that one of ours leads runs nothing twice; let one of ours lead, or stop the Java workers
before.
"""

from __future__ import annotations

import asyncio

import pytest
from mixed_group import MixedGroup

from airflow_provider.common.one_shot import read_timeline
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.model import ConnectProtocol, SubProtocol
from airflow_provider.records import RebalanceEvent

# The time limit leaves room for fetching Connect's jars once.
pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

EAGER, COMPATIBLE, SESSIONED = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
JOBS = {"a": 3, "b": 3, "c": 3}


async def formed(group: MixedGroup, protocol: ConnectProtocol, *workers: str) -> None:
    """The workers join in this order; the first one leads."""
    await group.configured_by_java(JOBS, protocol)
    for worker in workers:
        await group.start(worker, protocol)
        await group.balanced()


async def restarted(group: MixedGroup, worker: str, protocol: ConnectProtocol) -> None:
    await group.stop(worker)
    await group.balanced()
    await group.start(worker, protocol)


@pytest.mark.parametrize(
    ("to", "order"),
    [
        (SESSIONED, ("java-1", "java-2", "ours-1")),
        (COMPATIBLE, ("ours-1", "java-1", "java-2")),
    ],
    ids=["Java first", "ours first"],
)
async def test_upgrade(group: MixedGroup, to: ConnectProtocol, order: tuple[str, ...]) -> None:
    await formed(group, EAGER, "java-1", "ours-1", "java-2")
    assert group.ours["ours-1"].state.protocol is SubProtocol.DEFAULT
    for worker in order:
        await restarted(group, worker, to)
        await group.balanced()
    assert group.ours["ours-1"].state.protocol is to.offered[0]
    assert not group.overlaps()


@pytest.mark.parametrize(
    ("of", "order"),
    [
        (SESSIONED, ("ours-2", "ours-1", "java-1")),
        (COMPATIBLE, ("java-1", "ours-1", "ours-2")),
    ],
    ids=["ours first", "Java first"],
)
async def test_downgrade_led_by_us(group: MixedGroup, of: ConnectProtocol, order: tuple[str, ...]) -> None:
    await formed(group, of, "ours-1", "ours-2", "java-1")
    for worker in order:
        await restarted(group, worker, EAGER)
        await group.balanced()
    assert not group.overlaps()

    eager = [record for record in await rounds(group) if not record.protocol.cooperative]
    assert not any(eager[0].assignment.values()), "the first one is empty"
    assert frozenset().union(*eager[1].assignment.values()) == group.configured, "and the next one is not"
    assert eager[1].generation == eager[0].generation + 1


async def rounds(group: MixedGroup) -> list[ClassicRecord]:
    """Those that ours have led."""
    timeline = await asyncio.to_thread(read_timeline, group.settings, group.group_id)
    records = [event.record for event in timeline.events if isinstance(event, RebalanceEvent)]
    return [record for record in records if isinstance(record, ClassicRecord)]


async def test_downgrade_led_by_java(group: MixedGroup) -> None:
    """Ours stop everything and join again; what Java runs twice is over when its workers have been started anew."""
    await formed(group, SESSIONED, "java-1", "ours-1", "java-2")
    ours = group.ours["ours-1"]
    had, words = {task for task in group.running("ours-1") if not task.is_planner}, len(group.said)

    await restarted(group, "java-2", EAGER)
    await group.until(lambda: ours.state.protocol is SubProtocol.DEFAULT and group.running("ours-1"), "ours run again")
    stopped = {said.task for said in group.said[words:] if (said.worker, said.event) == ("ours-1", "stopped")}
    assert stopped >= had
    for worker in ("ours-1", "java-1"):
        await group.stop(worker)
        await group.start(worker, EAGER)
    await group.balanced()
    assert not group.overlaps(of="ours-1")


async def test_java_alone_runs_tasks_twice_after_a_downgrade(group: MixedGroup) -> None:
    """What the deviation in the first assignment is good for. If this fails, Connect has mended it, and ours can go."""
    await formed(group, SESSIONED, "java-1", "java-2", "java-3")
    await restarted(group, "java-3", EAGER)
    await group.until(group.overlaps, "two copies of something run")
