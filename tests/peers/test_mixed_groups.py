"""Java Connect's workers and ours in one group on a real broker, led by either, with each embedded protocol.

Under either leader: tasks are shared out to both kinds by what they report, each worker runs what it is given, a
newcomer stops only the tasks that move to it, and nothing ever runs twice.

What does not work while one of ours leads, because our workers have no REST interface for others:

- Every Java worker refuses Connect's REST requests that change something (create, change, delete a connector) with
  status 500, because it forwards them to the leader's URL. Requests that only read are answered.
- A connector on a Java worker that needs other tasks than are configured does not get them: the worker asks the leader
  for them over REST, too. It goes on trying, and gets them when a Java worker leads. Connectors whose tasks were
  configured before are not affected.
- A connector that is assigned to one of ours is not run, so nobody computes its tasks; existing ones are assigned.
- Nobody makes session keys (``sessioned``, KIP-507). They are only used to sign those requests.

Under either leader, Connect's REST status shows a task of ours as a Java worker left it (mostly ``UNASSIGNED``),
because ours do not write to Connect's status topic.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
from pathlib import Path

import pytest
from confluent_kafka import Producer
from mixed_group import MixedGroup, javas
from waiting import DEADLINE_S, eventually

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.values.deadlines import Deadline
from airflow_provider.values.model import ConnectProtocol, TaskId, Tasks

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

EACH_PROTOCOL = pytest.mark.parametrize("protocol", ConnectProtocol)


async def moved_by_a_newcomer(group: MixedGroup, name: str, protocol: ConnectProtocol) -> Tasks:
    """What moves when a worker joins. Checks that in a cooperative group only that stops, and only once."""
    before, words = {worker: group.running(worker) for worker in group.workers}, len(group.said)
    await group.start(name, protocol)
    await group.balanced()
    moved = group.running(name)
    stops = group.stops(since=words)
    if protocol is not ConnectProtocol.EAGER:
        assert stops == dict.fromkeys(group.seen_to_stop(moved, before), 1)
        assert all(group.running(worker) == had - moved for worker, had in before.items())
    return moved


@EACH_PROTOCOL
async def test_led_by_java(group: MixedGroup, protocol: ConnectProtocol) -> None:
    await group.start_java("java-1", protocol)
    for job in ("a", "b", "c"):
        await group.configure("java-1", job, tasks=3)
    await group.balanced()

    ours = await group.start_ours("ours-1", protocol)
    await group.balanced()
    assert not ours.state.is_leader
    assert ours.state.protocol is javas(protocol).offered[0]
    assert len(group.running("ours-1")) in (5, 6)

    had = group.running("ours-1")
    moved = await moved_by_a_newcomer(group, "java-2", protocol)
    assert protocol is ConnectProtocol.EAGER or moved & had, (
        "Java's leader moves some of its tasks to us, and some of ours to its workers"
    )

    words = len(group.said)
    job = next(task.job for task in group.running("java-1") if task.is_planner)
    await group.configure("java-2", job, tasks=6)
    await group.balanced()
    if protocol is not ConnectProtocol.EAGER:
        assert {task.job for task in group.stops(since=words)} <= {job}

    await group.stop_java("java-2")
    await group.balanced()
    await group.stop_ours("ours-1")
    await group.balanced()
    assert not group.overlaps()


@EACH_PROTOCOL
async def test_led_by_us(group: MixedGroup, protocol: ConnectProtocol) -> None:
    await group.configured_by_java({"a": 3, "b": 3, "c": 3}, protocol)
    ours = await group.start_ours("ours-1", protocol)
    await group.balanced()
    assert ours.state.is_leader
    assert ours.state.protocol is protocol.offered[0]

    await moved_by_a_newcomer(group, "java-1", protocol)
    await moved_by_a_newcomer(group, "java-2", protocol)
    assert ours.state.is_leader
    assert ours.state.protocol is javas(protocol).offered[0]
    for java in ("java-1", "java-2"):
        await reported_running(group, java, group.running(java))

    await group.stop_java("java-2")
    await group.balanced()
    await moved_by_a_newcomer(group, "ours-2", protocol)
    await group.stop_ours("ours-1")
    await group.balanced()
    assert not group.overlaps()


async def reported_running(group: MixedGroup, java: str, tasks: Tasks) -> None:
    """Wait until these run in a Java worker at once, according to Connect's REST interface, too."""
    here, deadline = group.address(java), Deadline(DEADLINE_S)
    while True:
        found = set[TaskId]()
        for job, told in (await group.rest(java, "/connectors?expand=status")).items():
            status = told["status"]
            for index, part in [(-1, status["connector"]), *((task["id"], task) for task in status["tasks"])]:
                if (part["worker_id"], part["state"]) == (here, "RUNNING"):
                    found.add(TaskId(job, index))
        if tasks <= found:
            return
        assert deadline.left_s(), f"of {sorted(tasks)} there run {sorted(found)}"
        await asyncio.sleep(0.05)


async def test_connectors_that_we_assign_do_their_work(
    group: MixedGroup, broker: LocalBroker, group_id: str, tmp_path: Path
) -> None:
    """Four connectors each copy a topic to a file of its own, if a Java worker has them; ours run nothing."""
    sinks = {f"sink-{number}": tmp_path / f"sink-{number}" for number in range(4)}
    await group.start_java("java-1", ConnectProtocol.SESSIONED)
    for name, path in sinks.items():
        await group.configure(
            *("java-1", name, 1), connector_class="FileStreamSink", topics=f"{group_id}.lines", file=path
        )
    ours = await group.start_ours("ours-1", ConnectProtocol.SESSIONED)
    await eventually(lambda: len(ours.state.running) == 4)
    await group.stop_java("java-1")
    await eventually(lambda: ours.state.is_leader and len(ours.state.running) == 8)

    await group.start_java("java-2", ConnectProtocol.SESSIONED)
    await eventually(lambda: len(ours.state.running) == 4)  # not those that it is still stopping
    kept = {task.job for task in ours.state.running if not task.is_planner}
    theirs = sinks.keys() - kept
    assert len(theirs) == 2
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for line in ("one", "two"):
        producer.produce(f"{group_id}.lines", value=line)
    assert producer.flush(30) == 0
    await eventually(lambda: all(copied(sinks[name]) == "one\ntwo\n" for name in theirs))
    assert ours.state.is_leader
    assert not any(copied(sinks[name]) for name in kept)

    await group.stop_ours("ours-1")
    await eventually(lambda: all(copied(path) == "one\ntwo\n" for path in sinks.values()))


def copied(path: Path) -> str:
    """What a sink has copied, whose first start makes the file."""
    return path.read_text() if path.exists() else ""


async def test_requests_that_need_a_leader_with_a_rest_interface_wait_for_one(
    group: MixedGroup, broker: LocalBroker, group_id: str
) -> None:
    await group.configured_by_java({"a": 1}, ConnectProtocol.SESSIONED)
    await group.start_ours("ours-1", ConnectProtocol.SESSIONED)
    await group.balanced()
    await group.start_java("java-1", ConnectProtocol.SESSIONED)
    await group.balanced()

    with pytest.raises(urllib.error.HTTPError) as refused:
        await group.configure("java-1", "b", tasks=1)
    assert refused.value.code == 500
    assert b"forward REST request" in refused.value.read()
    assert await group.rest("java-1", "/connectors") == ["a"]

    # Each may come with a round of its own, and a tie be for ours: of four connectors, the Java worker gets two.
    producer, new = Producer({"bootstrap.servers": broker.bootstrap_servers}), {"new-1", "new-2", "new-3"}
    for job in new:
        config = {"name": job, "connector.class": "cospark.peer.IdleSource", "tasks.max": "2"}
        producer.produce(f"{group_id}.connect-config", key=f"connector-{job}", value=json.dumps({"properties": config}))
    assert producer.flush(30) == 0
    await group.until(lambda: new & {task.job for task in group.running("java-1")}, "a new connector runs")
    job = min(new & {task.job for task in group.running("java-1")})
    await group.until_logged(f"Failed to reconfigure connector's tasks ({job}), retrying after backoff")
    await reported_running(group, "java-1", frozenset({TaskId(job, -1)}))
    status = await group.rest("java-1", f"/connectors/{job}/status")
    assert (status["connector"]["state"], status["tasks"]) == ("RUNNING", [])

    group.jobs |= dict.fromkeys(new, 2)
    await group.stop_ours("ours-1")
    await group.balanced()
