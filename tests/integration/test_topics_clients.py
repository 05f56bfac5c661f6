"""Sharing the topics' clients: memberships of one process, code with and without an event loop, a forked process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from topic_bench import JOB, PLAN, TASK, W1, task_status
from waiting import DEADLINE_S, eventually

from airflow_provider.integration.one_shot import act, list_groups, read_group, submit_job
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.rights import STEERER, STOPPER, WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import ActionEvent, ControlAction, ControlRecord
from airflow_provider.state.views.topic_view import About
from demo.events import read_events

pytestmark = pytest.mark.usefixtures("nothing_left_open")


async def test_many_memberships_share_one_reader_and_one_writer(settings: KafkaSettings, group_id: str) -> None:
    before = threading.active_count()
    many = [GroupTopics(settings, f"{group_id}-{number % 3}", WORKER) for number in range(60)]
    await asyncio.gather(*(topics.start() for topics in many))
    await asyncio.gather(*(topics.catch_up() for topics in many))
    await many[0].submit(JOB)

    def named() -> list[str]:
        return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("cospark-topic"))

    await eventually(lambda: named() == ["cospark-topic-reader", "cospark-topic-writer"], named)
    assert threading.active_count() <= before + 3
    await asyncio.gather(*(topics.catch_up() for topics in many))
    assert [number for number, topics in enumerate(many) if topics.jobs.jobs] == list(range(0, 60, 3))
    for topics in many[:-1]:
        await topics.aclose()
    await many[-1].catch_up()
    await many[-1].aclose()
    await many[-1].aclose()


async def test_many_concurrent_writes_reach_a_reader_in_a_few_turns(settings: KafkaSettings, group_id: str) -> None:
    """If each record had its own fetch, each write would wake every reader."""
    async with GroupTopics(settings, group_id, WORKER) as topics:
        await topics.publish_task(task_status(0))
        told = []
        topics.subscribe(lambda: told.append(topics.status.offset), About.TASKS)
        began = asyncio.get_running_loop().time()
        writes = []
        for epoch in range(1, 301):
            writes.append(asyncio.ensure_future(topics.publish_task(task_status(epoch))))
            await asyncio.sleep(0.003)
        await asyncio.gather(*writes)
        await eventually(lambda: told and topics.status.tasks[TASK].epoch == 300)
        took_s = asyncio.get_running_loop().time() - began
    assert len(told) <= 10 + took_s / 0.015, f"told {len(told)} times in {took_s:.1f} s"


async def test_closed_topics_say_so(settings: KafkaSettings, group_id: str) -> None:
    topics = GroupTopics(settings, group_id, WORKER)
    with pytest.raises(TopicError, match=r"are not open: call start\(\) first"):
        _ = topics.jobs
    async with topics:
        await topics.catch_up()
    with pytest.raises(TopicError, match="are not open"):
        await topics.publish_plan(PLAN)


async def test_from_code_without_a_loop_and_from_code_within_one(settings: KafkaSettings, group_id: str) -> None:
    assert group_id not in list_groups(settings)

    def work() -> None:
        assert submit_job(settings, group_id, JOB).changed
        assert not submit_job(settings, group_id, JOB).changed
        stop = ControlRecord(worker=W1, action=ControlAction.STOP, at_ms=1)
        act(settings, group_id, STOPPER, lambda topics: topics.publish_control(stop))
        assert set(read_group(settings, group_id).jobs.controls) == {W1}

    await asyncio.to_thread(work)
    assert act(settings, group_id, STEERER, lambda topics: topics.remove("flights"))
    assert dict(read_group(settings, group_id).jobs.jobs) == {}
    assert group_id in list_groups(settings)
    done = [event.action for event in read_events(settings, group_id) if isinstance(event, ActionEvent)]
    assert done == ["submit", "stop", "remove"]


FORK = """
import asyncio, os, sys
from airflow_provider.kafka.topics.topic_writer import GroupTopics, Submission
from airflow_provider.integration.one_shot import read_group, submit_job
from airflow_provider.state.records import JobDefinition
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.state.views.topic_view import About

settings = KafkaSettings.from_extra({"bootstrap.servers": sys.argv[1]}, conn_id="c")
group, how = sys.argv[2:]

async def main():
    topics = GroupTopics(settings, group, WORKER)
    await topics.start()
    await topics.submit(JobDefinition(name="parent", entry_point="m:f"))
    return topics

topics = asyncio.run(main())
child = os.fork()
if child == 0:
    submit_job(settings, group, JobDefinition(name="child", entry_point="m:f"))
    if how == "_exit":
        os._exit(0)
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert set(read_group(settings, group).jobs.jobs) == {"parent", "child"}
print("both")
"""


@pytest.mark.parametrize("how", ["_exit", "exit"])
def test_a_forked_process_has_clients_of_its_own(
    settings: KafkaSettings, group_id: str, how: str, tmp_path: Path
) -> None:
    """As in Airflow, whose supervisor forks, and whose task process writes."""
    script = tmp_path / "fork.py"
    script.write_text(FORK)
    done = subprocess.run(
        [sys.executable, str(script), settings.bootstrap_servers, group_id, how],
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "both"), done.stderr
