"""``cospark workers`` as a user sees it; the topics are in memory, ``tests/integration`` has real ones."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
from airflow_values import group_record
from stand_ins import MemoryTopics

from airflow_provider.cli.main import main
from airflow_provider.cli.shared import reading
from airflow_provider.kafka.topics.errors import NoTopicError
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.values.model import Epoch, MemberId, TaskId, WorkerId
from airflow_provider.values.procfs import start_of
from airflow_provider.worker.process_identity import this_process

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")


class Cli:
    """Runs ``cospark workers`` over a group in memory: w1 and w2 are in it, w3 has left since the last round."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.topics = MemoryTopics("g")
        self._capsys = capsys
        members = {worker: MemberId(worker) for worker in (W1, W2, W3)}
        asyncio.run(self.topics.publish_group(group_record(5, members=members)))
        self.told(W3, WorkerPhase.LEFT)

    def told(self, worker: WorkerId, phase: WorkerPhase, condition: str = "") -> None:
        said = WorkerStatus(worker=worker, state=phase, epoch=Epoch(5), slots=1, condition=condition)
        asyncio.run(self.topics.publish_worker(said))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        status = main(["workers", *arguments, "--bootstrap-servers", "nowhere:9"])
        told = self._capsys.readouterr()
        return status, told.out, told.err

    @property
    def wishes(self) -> dict[WorkerId, ControlAction]:
        return {worker: wish.action for worker, wish in self.topics.jobs.controls.items()}


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    made = Cli(capsys)

    async def reach(_settings: object) -> None: ...

    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: made.topics)
    return made


def test_one_worker_is_asked_to_leave(cli: Cli) -> None:
    assert cli("drain", "g", "w1") == (0, "asked to drain: w1\n", "")
    assert cli.wishes == {W1: ControlAction.DRAIN}
    (wish,) = cli.topics.jobs.controls.values()
    assert abs(wish.at_ms - time.time() * 1000) < 60_000, "a wish older than the worker would be none"


def test_all_are_asked_who_are_in_the_group(cli: Cli) -> None:
    assert cli("stop", "g", "--all") == (0, "asked to stop: w1, w2\n", "")
    assert cli.wishes == {W1: ControlAction.STOP, W2: ControlAction.STOP}


@pytest.mark.parametrize("name", ["w3", "w9"])
def test_who_is_not_in_the_group_is_named_and_nobody_is_asked(cli: Cli, name: str) -> None:
    told = f"cospark workers stop: {name}: not in the group 'g'; in it: w1, w2\n"
    assert cli("stop", "g", "w1", name) == (1, "", told)
    assert cli.wishes == {}


def test_it_waits_until_they_have_left_but_not_for_ever(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    late = "cospark workers stop: after 0.05 s these have not left: w1\n"
    assert cli("stop", "g", "w1", "--wait", "0.05") == (1, "asked to stop: w1\n", late)

    published = cli.topics.publish_control

    async def publish_control(control: ControlRecord) -> None:
        await published(control)
        await cli.topics.publish_worker(WorkerStatus(worker=W1, state=WorkerPhase.LEFT, epoch=Epoch(5), slots=1))

    monkeypatch.setattr(cli.topics, "publish_control", publish_control)
    assert cli("stop", "g", "w1", "--wait", "20") == (0, "asked to stop: w1\n", "")


def test_what_keeps_a_worker_is_named(cli: Cli) -> None:
    """A stream keeps one that drains for ever."""

    async def tell() -> None:
        for index, state in enumerate((TaskState.RUNNING, TaskState.FINISHED)):
            task = TaskId("clicks", index)
            await cli.topics.publish_task(TaskStatus(task=task, state=state, epoch=Epoch(5), worker=W1))

    asyncio.run(tell())
    _, _, err = cli("drain", "g", "--all", "--wait", "0.05")
    assert err == "cospark workers drain: after 0.05 s these have not left: w1, which runs clicks:0; w2\n"


@pytest.mark.parametrize(
    ("number", "what"), [(1, "1 stream, and leaves when it has"), (2, "2 streams, and leaves when they have")]
)
def test_streams_that_keep_a_draining_worker_are_told_of(cli: Cli, number: int, what: str) -> None:
    async def tell() -> None:
        for index, kind in enumerate([TaskKind.STREAMING] * number + [TaskKind.BATCH]):
            task = TaskId("clicks", index)
            running = TaskStatus(task=task, state=TaskState.RUNNING, kind=kind, epoch=Epoch(5), worker=W1)
            await cli.topics.publish_task(running)

    asyncio.run(tell())
    told = f"w1 runs {what} ended; to have it leave now, use `cospark workers stop`\n"
    these = ", ".join(f"clicks:{index}" for index in range(number + 1))
    asked = "asked to drain: w1, w2\nthey leave when these have ended: "
    assert cli("drain", "g", "--all") == (0, f"{asked}{these}\n{told}", "")
    assert cli("stop", "g", "w1") == (0, f"asked to stop: w1\nit leaves when these have stopped: {these}\n", "")


def test_who_stands_back_can_be_asked_and_is_waited_for(cli: Cli) -> None:
    cli.told(W3, WorkerPhase.LEFT, "no master")
    status, out, err = cli("stop", "g", "w3", "--wait", "0.05")
    assert (status, out) == (1, "asked to stop: w3\n")
    assert err == "cospark workers stop: after 0.05 s these have not left: w3\n"
    cli.told(W3, WorkerPhase.LEFT)
    assert cli("stop", "g", "w3")[0] == 1, "it has ended"


def test_nobody_named_is_a_mistake(cli: Cli) -> None:
    with pytest.raises(SystemExit):
        cli("stop", "g")
    assert cli.wishes == {}


def test_a_group_that_does_not_exist(cli: Cli) -> None:
    cli.topics.failing = NoTopicError("g.jobs")
    status, _, told = cli("stop", "g", "--all")
    assert (status, "g.jobs" in told) == (1, True)


@pytest.mark.parametrize(("phase", "waits"), [(WorkerPhase.STABLE, True), (WorkerPhase.DEFERRED, False)])
def test_it_waits_until_the_process_has_ended_too_but_never_for_a_triggerer(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, phase: WorkerPhase, waits: bool
) -> None:
    """Who upgrades it, or starts it anew, does so then; on another host that can't be seen."""
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = f"{this_process().rpartition('/')[0].rpartition('/')[0]}/{sleeper.pid}/{start_of(sleeper.pid)}"
    published = cli.topics.publish_control

    def said(state: WorkerPhase) -> WorkerStatus:
        return WorkerStatus(worker=W1, state=state, epoch=Epoch(5), slots=1, process=process)

    async def leave(wish: ControlRecord) -> None:
        await published(wish)
        await cli.topics.publish_worker(said(WorkerPhase.LEFT))

    monkeypatch.setattr(cli.topics, "publish_control", leave)
    asyncio.run(cli.topics.publish_worker(said(phase)))
    try:
        status, _, complaint = cli("stop", "g", "w1", "--wait", "0.2")
        assert status == int(waits)
        assert ("after 0.2 s they have left the group, but their processes still run: w1" in complaint) is waits
    finally:
        sleeper.communicate(b"\n")
    asyncio.run(cli.topics.publish_worker(said(phase)))
    assert cli("stop", "g", "w1", "--wait", "20")[0] == 0
