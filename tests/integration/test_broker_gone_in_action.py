"""A broker that goes away during an action on a job: what is reported as done, not done or unsure is true."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from fastapi import HTTPException
from proxied import Network
from topic_bench import settings_of
from waiting import DEADLINE_S, slow_ms

from airflow_provider.cli.main import main
from airflow_provider.hooks.shown_connections import Connections, Named
from airflow_provider.integration import one_shot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics import clients
from airflow_provider.kafka.topics.errors import HalfDoneError, UnsureError
from airflow_provider.kafka.topics.producer import NewRecord, TopicWriter
from airflow_provider.kafka.topics.rights import RETRIER, STEERER, WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.operations.operations import HaltJob, RestartJob, StopTasks
from airflow_provider.state.records import Halt, JobDefinition, PlanRecord, TaskFailure, TaskState, TaskStatus
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.routes.action_routes import ToJob, ToTasks, pause_job, restart_job
from airflow_provider.ui.world import World
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from demo.events import read_events

JOB = JobDefinition(name="etl", entry_point="m:f", max_tasks=9, config={"table": "orders"})
ME = WorkerId("w1")
STATES = (TaskState.RUNNING, TaskState.FAILED, TaskState.FAILED, TaskState.RUNNING)
DELIVERY_MS = int(slow_ms(3_000))


async def _prepare(settings: KafkaSettings, group: str) -> None:
    """Submit a job with running and failed tasks."""
    async with GroupTopics(settings, group, WORKER) as topics:
        await topics.submit(JOB)
        plan = PlanRecord.of(JOB, [{"part": part} for part in range(4)], planned_by=ME, at_ms=0)
        await topics.publish_plan(plan)
        for index, state in enumerate(STATES):
            error = TaskFailure.of("boom") if state is TaskState.FAILED else None
            work = plan.fingerprints[index]
            await topics.publish_task(
                TaskStatus(
                    task=TaskId("etl", index), state=state, epoch=Epoch(1), worker=ME, fingerprint=work, error=error
                )
            )


class Scene:
    """A group, and a user who reaches its broker through a proxy that the test can cut. Writers give up after seconds
    there, and not after half a minute.

    :ivar before: the number of records in each of its topics
    """

    def __init__(self, network: Network, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.group = group
        self.way = network.ways[0]
        self.far = settings_of(self.way.address)
        self._near = settings_of(network.near)
        self._monkeypatch = monkeypatch
        one_shot.run(lambda: _prepare(self._near, group))
        self.before = self.now()
        monkeypatch.setattr(clients, "TopicWriter", partial(TopicWriter, delivery_timeout_ms=DELIVERY_MS))

    def now(self) -> tuple[int, int, int]:
        seen = one_shot.read_group(self._near, self.group)
        return seen.jobs.offset, seen.status.offset, len(read_events(self._near, self.group))

    @contextmanager
    def harmed_by(self, harm: Callable[[], None], *, at: int = 1) -> Iterator[None]:
        """Call ``harm`` right before the ``at``-th write."""
        write, times = TopicWriter.write, itertools.count(1)

        def harmed(writer: TopicWriter, *records: NewRecord) -> asyncio.Future[None]:
            if next(times) == at:
                harm()
            return write(writer, *records)

        with self._monkeypatch.context() as patched:
            patched.setattr(TopicWriter, "write", harmed)
            yield


@pytest.fixture
def scene(network: Network, group_id: str, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(network, group_id, monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("pause",), id="pause"),
        pytest.param(("submit", "m:f", "--retries", "2"), id="submit"),
        pytest.param(("alter", "--retries", "3"), id="alter", marks=pytest.mark.thorough),
        pytest.param(("restart",), id="restart", marks=pytest.mark.thorough),
    ],
)
def test_a_command_changes_nothing_when_the_broker_goes_before_it_writes(
    arguments: tuple[str, ...], scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    action, *more = arguments
    with scene.harmed_by(scene.way.cut):
        status = main(["jobs", action, scene.group, "etl", *more, "--bootstrap-servers", scene.way.address])
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert f"cospark jobs {action}: no broker answered at {scene.way.address} while writing" in said.err
    assert "may be stored all the same: check this before you try again" in said.err
    scene.way.heal()
    assert scene.now() == scene.before


@pytest.mark.parametrize(
    "act", [pytest.param(pause_job, marks=pytest.mark.thorough), restart_job], ids=lambda act: act.__name__
)
def test_an_action_on_the_page_changes_nothing_when_the_broker_goes_before_it_writes(act: Any, scene: Scene) -> None:
    world = World(connections=Connections(lambda: [Named("far")], lambda _conn: scene.far), note=lambda *_: None)
    visit = Visit(world=world, by="ann", sees={None}, does={None}, needed="")
    asked: dict[str, Any] = {"conn": "far", "group": scene.group, "job": "etl", "defined_at": 0}
    with scene.harmed_by(scene.way.cut), pytest.raises(HTTPException) as refused:
        act((ToTasks if act is restart_job else ToJob)(**asked), visit)
    assert refused.value.status_code == 502
    assert "may be stored all the same" in refused.value.detail
    scene.way.heal()
    assert scene.now() == scene.before


async def test_an_action_that_was_already_sent_is_carried_out_completely(scene: Scene) -> None:
    """It can't be called back, so the error says that it may be stored all the same."""
    async with GroupTopics(scene.far, scene.group, STEERER) as topics:
        await topics.carry_out(HaltJob(job="etl", halt=Halt.PAUSED), by="me")  # only then does a producer send at once
        jobs, status, events = await asyncio.to_thread(scene.now)
        with scene.harmed_by(scene.way.stall), pytest.raises(UnsureError, match="may be stored all the same"):
            await topics.carry_out(StopTasks(job="etl", tasks=frozenset({0, 3})), by="me")
        scene.way.heal()
    done, deadline = (jobs + 2, status, events + 1), time.monotonic() + DEADLINE_S
    while (now := await asyncio.to_thread(scene.now)) != done:
        assert time.monotonic() < deadline, (now, done)


def test_a_half_done_restart_names_the_missing_part_which_can_be_done_alone(scene: Scene) -> None:
    with scene.harmed_by(scene.way.cut, at=2), pytest.raises(HalfDoneError) as half:
        one_shot.carry_out(scene.far, scene.group, RestartJob(job="etl"), by="me")
    assert "job 'etl': only a part of this was done" in str(half.value)
    assert "(etl:1, etl:2) may not be stored: retry the job's failed tasks" in str(half.value)
    scene.way.heal()
    jobs, status, _ = scene.before
    assert scene.now()[:2] == (jobs + 1, status)
    retried = one_shot.act(scene.far, scene.group, RETRIER, lambda topics: topics.retry_failed("etl", by="me"))
    assert retried == (TaskId("etl", 1), TaskId("etl", 2))
    assert scene.now()[:2] == (jobs + 1, status + 2), "running tasks are not restarted again"
