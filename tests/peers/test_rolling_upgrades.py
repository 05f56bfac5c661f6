"""A mixed group changes from the eager protocol to a cooperative one and back, worker by worker, either kind first.

For an upgrade, every worker is restarted, one after the other (KIP-415, migration).

A downgrade begins when the first worker comes back as ``eager``. By KIP-415 its first assignment is empty, because the
members joined that round with their tasks running, and then all join again. Our workers do so under either leader. Java
Connect does neither (KAFKA-13816): its leader assigns everything immediately, and its workers never stop a task that is
missing in an assignment, so that it runs at two workers until the old one is restarted. When ours lead, the first
assignment tells each Java worker what it has, so that it stops that before it joins again. So a downgrade led by one of
ours runs nothing twice: let one of ours lead, or stop the Java workers first.
"""

from __future__ import annotations

import asyncio

import pytest
from mixed_group import MixedGroup

from airflow_provider.state.records import RebalanceEvent
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import ConnectProtocol, SubProtocol
from demo.events import read_events

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

EAGER, COMPATIBLE, SESSIONED = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
JOBS = {"a": 3, "b": 3, "c": 3}


async def formed(group: MixedGroup, protocol: ConnectProtocol, *workers: str) -> None:
    """Start the workers in this order; the first one leads."""
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
        pytest.param(COMPATIBLE, ("ours-1", "java-1", "java-2"), marks=pytest.mark.thorough),
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
        pytest.param(SESSIONED, ("ours-2", "ours-1", "java-1"), marks=pytest.mark.thorough),
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
    assert frozenset().union(*eager[1].assignment.values()) == group.configured, "the second one is not"
    assert eager[1].generation == eager[0].generation + 1


async def rounds(group: MixedGroup) -> list[ClassicRecord]:
    """The rounds that ours led."""
    events = await asyncio.to_thread(read_events, group.settings, group.group_id)
    records = [event.record for event in events if isinstance(event, RebalanceEvent)]
    return [record for record in records if isinstance(record, ClassicRecord)]


async def test_downgrade_led_by_java(group: MixedGroup) -> None:
    """Ours stop everything and join again; what Java runs twice ends when its workers are restarted."""
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


@pytest.mark.thorough  # of Java's own behaviour, which changes with its release only
async def test_java_alone_runs_tasks_twice_after_a_downgrade(group: MixedGroup) -> None:
    """Why our first assignment deviates from KIP-415. If this fails, Connect is fixed and the deviation can go."""
    await formed(group, SESSIONED, "java-1", "java-2", "java-3")
    await restarted(group, "java-3", EAGER)
    await group.until(group.overlaps, "two copies of something run")
