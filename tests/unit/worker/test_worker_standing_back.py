"""A worker that can't run tasks: it leaves them to others, and comes back when it can, or after a pause to try."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from stand_ins import HandRunner
from turned_clock import time_passes
from waiting import DEADLINE_S, eventually
from worker_life import A0, A1, ME, MEMBER, Life, living

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.cli.group_commands.status import render
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.connect.connection import ServerConnection
from airflow_provider.spark.local.errors import SparkAwayError, SparkStartError
from airflow_provider.spark.runners import local
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    StreamProgress,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.presence import stands_back
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker import standing_back
from airflow_provider.worker.endings.ending import STOPPED, Ending, Outcome
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands import in_process
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.in_process import SparkOfProcess, SparkOfServer
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.standing_back import NoSpark, SteadyWorker
from airflow_provider.worker.worker import Worker

pytestmark = pytest.mark.turned_clock


class SlowStarter:
    """Something that is there when the test says so."""

    def __init__(self) -> None:
        self.there = False
        self.away = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.tries = 0
        self.released = False
        self.ended: list[TaskStatus] = []

    async def start(self) -> NoSpark | None:
        self.tries += 1
        self.meanwhile()
        return None if self.there else NoSpark("no master", away=self.away)

    async def release(self) -> None:
        self.released = True

    async def end_detached_queries(self, topics: GroupTopics) -> None:
        self.ended += topics.status.living()


class SteadyLife(Life):
    """A worker's life with breaks; each of its runners has Spark or not, as the starter says."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.starter = SlowStarter()

    def begin(self, saved: Any = None) -> None:
        self.steady = SteadyWorker(self.settings, self.topics, self._make, self.starter, saved)
        self._run: asyncio.Task[Outcome] = asyncio.ensure_future(self.steady.run())

    def _make(self, saved: Mapping[str, Any] | None) -> Worker:
        self.worker = Worker(
            self.settings,
            topics=self.topics,
            memberships=self.memberships(),
            make_hands=self._make_hands,
            saved=saved,
        )
        assert isinstance(self.runner, HandRunner)
        self.runner.without_spark = "" if self.starter.there else "no master"
        return self.worker

    async def away(self) -> None:
        await eventually(lambda: self.starter.tries > 0 or self.phase is WorkerPhase.LEFT, "it has left")


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A worker that stands back for want of Spark."""

    @asynccontextmanager
    async def live(*, wait_s: float = 0.02, **settings: Any) -> AsyncIterator[SteadyLife]:
        monkeypatch.setattr(standing_back, "_FIRST_WAIT_S", wait_s)
        life = SteadyLife(**settings)
        await life.submit(retries=0)
        life.begin()
        try:
            await life.away()
            yield life
        finally:
            with contextlib.suppress(Exception):
                await life.cancel()
        assert life.starter.released

    return live


async def test_it_leaves_its_tasks_to_others_says_so_and_uses_up_no_attempt(
    standing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with standing(wait_s=60) as life:
        await eventually(lambda: life.coordinator.left, "it has left the group")
        await eventually(lambda: "stands back, and tries again in 60 s: no master" in caplog.text)
        told = life.topics.status.workers[ME]
        assert (told.state, told.left, told.condition) == (WorkerPhase.LEFT, LeaveReason.STOPPED, "no master")
        page = Console(width=200)
        with page.capture() as shown:
            page.print(render("g", life.topics.jobs, life.topics.status, wall_ms=0))
        assert "stands back: no master" in shown.get()
        for task in (A0, A1):
            status = life.topics.status.tasks.get(task)
            assert status is None or (status.state, status.failures) == (TaskState.STOPPED, 0)


async def test_it_looks_every_few_seconds_where_nothing_answers_and_says_so_each_minute(
    standing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with standing(wait_s=5) as life:
        await eventually(lambda: life.coordinator.left, "it has left the group")
        life.starter.away = True
        await time_passes(600)
        assert 120 <= life.starter.tries <= 200
        assert 9 <= caplog.text.count("stands back, and tries again every 5 s: no master") <= 10
        life.starter.away, tries = False, life.starter.tries
        await time_passes(80)
        assert life.starter.tries - tries <= 5, "it is there now, and does not start: the pauses grow"
        assert "stands back, and tries again in 20 s" in caplog.text


BLAMED = "tasks fail here that go well elsewhere: a:0, a:1; the last one by No module named 'kafka_source'"


async def goes_well_elsewhere(life: SteadyLife, task: TaskId) -> None:
    """It fails here, and another worker takes it and commits its batches."""
    life.runner.fail(task, "No module named 'kafka_source'")
    await eventually(lambda: life.topics.status.tasks[task].failed_on == (ME,))
    last = life.topics.status.tasks[task]
    well = StreamProgress(batch=1, rows_per_second=1.0, at_ms=0)
    taken = replaced(
        last, state=TaskState.RUNNING, worker=WorkerId("w2"), epoch=Epoch(last.epoch + 1), attempt=9, progress=well
    )
    await life.topics.publish_task(taken)


def _is_in(told: str, caplog: pytest.LogCaptureFixture) -> bool:
    return told in caplog.text


async def test_one_on_which_fails_what_goes_well_elsewhere_stands_back_for_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standing_back, "_FIRST_REST_S", 0.1)
    life = SteadyLife()
    life.starter.there = True
    await life.submit(kind=TaskKind.STREAMING, retries=20)
    life.begin()
    try:
        for rest in ("0.1", "0.2"):
            await life.runs(A0, A1)
            for task in (A0, A1):
                await goes_well_elsewhere(life, task)
            await eventually(lambda: BLAMED in stands_back(life.topics.status).get(ME, ""), "it says why")
            told = f"worker {ME} stands back, and joins its group again in {rest} s: {BLAMED}"
            await eventually(partial(_is_in, told, caplog), told)
        await eventually(lambda: life.phase is WorkerPhase.STABLE, "it is back")
        assert life.topics.status.workers[ME].condition == ""
    finally:
        await life.cancel()


async def test_one_that_is_to_blame_rests_no_longer_when_no_other_worker_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rest_s = 1_000.0
    monkeypatch.setattr(standing_back, "_FIRST_REST_S", rest_s)
    life = SteadyLife()
    life.starter.there = True
    other = WorkerStatus(
        worker=WorkerId("w2"),
        state=WorkerPhase.LEFT,
        left=LeaveReason.RESTARTING,
        returns_ms=round(rest_s * 1000),
        epoch=Epoch(1),
        slots=2,
        at_ms=wall_ms(),
    )
    await life.topics.publish_worker(other)
    await life.submit(kind=TaskKind.STREAMING, retries=20)
    life.begin()
    try:
        await life.runs(A0, A1)
        for task in (A0, A1):
            await goes_well_elsewhere(life, task)
        await eventually(lambda: f"joins its group again in {rest_s:g} s" in caplog.text, "it rests")
        began = time.monotonic()
        await time_passes(rest_s / 2)
        assert life.phase is WorkerPhase.LEFT, "another worker is there"
        await life.topics.publish_worker(replace(other, left=LeaveReason.STOPPED))
        await eventually(lambda: life.phase is WorkerPhase.STABLE, "it is back")
        assert time.monotonic() - began < rest_s
    finally:
        await life.cancel()


async def says(life: Life, condition: str) -> None:
    await eventually(lambda: life.topics.status.workers[ME].condition == condition)


async def test_what_keeps_its_tasks_from_running_stands_in_its_record_as_long_as_it_lasts() -> None:
    async with living() as life:
        for condition in ("waiting for executors", ""):
            life.runner.change_condition(condition)
            await says(life, condition)
            page = Console(width=200)
            with page.capture() as shown:
                page.print(render("g", life.topics.jobs, life.topics.status, wall_ms=0))
            assert ("stable, waiting for executors" in shown.get()) == bool(condition)


async def test_one_that_leaves_while_spark_starts_does_not_stand_back() -> None:
    async with living() as life:
        life.runner.change_condition("starting Spark")
        await says(life, "starting Spark")
        life.worker.leave("its task was ended")
        await life.outcome()
        assert life.phase is WorkerPhase.LEFT
        assert not stands_back(life.topics.status)


async def test_where_sparks_own_page_is_stands_in_its_record_as_soon_as_it_has_one() -> None:
    async with living() as life:
        assert life.topics.status.workers[ME].spark_ui == ""
        life.runner.show_ui("http://driver:4040")
        await eventually(lambda: life.topics.status.workers[ME].spark_ui == "http://driver:4040")


async def test_what_a_deferred_worker_watches_and_waits_for_stands_in_its_record() -> None:
    async with living(phase=WorkerPhase.DEFERRED) as life:
        await eventually(lambda: life.topics.status.workers[ME].running == {A0, A1})
        life.runner.finish(A0)
        await eventually(lambda: life.topics.status.workers[ME].running == {A1})
        life.runner.change_condition("waiting for its server")
        await says(life, "waiting for its server")


async def test_it_comes_back_when_spark_starts_and_runs_its_tasks(standing: Any) -> None:
    async with standing() as life:
        await eventually(lambda: life.starter.tries >= 3, "it tries again and again")
        life.starter.there = True
        await life.runs(A0, A1)
        for task in (A0, A1):
            assert (life.topics.status.tasks[task].attempt, life.topics.status.tasks[task].failures) == (1, 0)
        await eventually(lambda: life.phase is WorkerPhase.STABLE)
        assert life.topics.status.workers[ME].condition == ""


async def test_it_is_told_to_leave_meanwhile(standing: Any) -> None:
    async with standing(wait_s=60) as life:
        await eventually(lambda: stands_back(life.topics.status) == {ME: "no master"})
        life.steady.leave("signal SIGTERM")
        assert (await life.outcome()).ending is Ending.LEFT
        assert stands_back(life.topics.status) == {}, "it has ended, and will not come back"


async def test_it_is_told_to_leave_just_as_spark_starts(standing: Any) -> None:
    async with standing() as life:
        life.starter.meanwhile = lambda: life.steady.leave("signal SIGTERM")
        life.starter.there = True
        assert (await life.outcome()).ending is Ending.LEFT


async def test_a_spark_that_does_not_stop_keeps_no_worker_from_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopping = threading.Event()
    application = SimpleNamespace(running_for=lambda _user, _settings: None, release=lambda _user: stopping.wait())
    monkeypatch.setattr(in_process, "APPLICATION", application)
    monkeypatch.setattr(local, "APPLICATION", application)
    monkeypatch.setattr(in_process, "_CLOSE_WAIT_S", 0.05)
    equipment = Equipment(runner="local", allowed=(), checkpoint_root=None, spark_master="local[1]")
    starter = SparkOfProcess(equipment, WorkerSettings(member=MEMBER, until=Until.FOREVER))
    assert await starter.start() is None
    try:
        await asyncio.wait_for(starter.release(), DEADLINE_S)
    finally:
        stopping.set()
    assert "Spark has not stopped within 0.05 s" in caplog.text


@pytest.mark.parametrize(
    ("error", "away"), [(SparkAwayError("nobody answers"), True), (SparkStartError("Spark 3"), False)]
)
async def test_whether_nothing_answers_is_told(
    monkeypatch: pytest.MonkeyPatch, error: SparkStartError, away: bool
) -> None:
    def fail(_connection: ServerConnection) -> None:
        raise error

    monkeypatch.setattr(ServerConnection, "server", fail)
    equipment = Equipment(runner="connect", allowed=(), checkpoint_root=None, spark_master="sc://h")
    starter = SparkOfServer(equipment, WorkerSettings(member=MEMBER, until=Until.FOREVER))
    assert await starter.start() == NoSpark(str(error), away=away)


async def test_an_operator_of_the_group_drains_it_meanwhile(standing: Any) -> None:
    async with standing(wait_s=60) as life:
        await eventually(lambda: life.coordinator.left)
        wish = ControlRecord(worker=ME, action=ControlAction.DRAIN, at_ms=0)
        await life.topics.publish_control(wish)
        assert (await life.outcome()).ending is Ending.LEFT
        assert life.topics.jobs.controls == {}


async def test_others_have_done_the_work_meanwhile(standing: Any) -> None:
    async with standing(wait_s=60, until=Until.DRAINED) as life:
        plan = life.topics.jobs.plan_of("a")
        assert plan is not None
        for task, fingerprint in zip((A0, A1), plan.fingerprints, strict=True):
            finished = TaskStatus(
                task=task,
                state=TaskState.FINISHED,
                epoch=Epoch(9),
                worker=WorkerId("w2"),
                fingerprint=fingerprint,
            )
            await life.topics.publish_task(finished)
        assert (await life.outcome()).ending is Ending.DRAINED


async def test_it_waits_no_longer_than_it_may_for_something_to_run(standing: Any) -> None:
    """Others have done the work, and there is none to come."""
    async with standing(wait_s=60, idle_timeout_ms=150) as life:
        await eventually(lambda: stands_back(life.topics.status) == {ME: "no master"})
        assert not life.ended, "there is something to run, though not here"
        await life.topics.remove("a", by="a test")
        outcome = await life.outcome()
        assert outcome.ending is Ending.IDLE
        assert outcome.error == "group g has no jobs: waited 0.15 s for something to run (idle timeout)"
        assert stands_back(life.topics.status) == {}, "it has ended, and will not come back"


async def test_how_long_it_has_waited_while_it_stood_back_counts_when_it_is_back(standing: Any) -> None:
    async with standing(idle_timeout_ms=600_000) as life:
        await life.topics.remove("a", by="a test")
        tries = life.starter.tries
        await eventually(lambda: life.starter.tries > tries + 1, "it stands back, and there is nothing to run")
        before = wall_ms()
        life.starter.there = True
        await eventually(lambda: life.phase is WorkerPhase.STABLE, "it is back")
        since = life.worker.reasons.waits_since_ms
        assert since is not None
        assert since <= before


async def test_what_goes_on_without_its_process_is_not_ended_for_a_break(
    standing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release with a PySpark of the wrong version must not end the streams of the one before."""
    for_good: list[TaskExecutor] = []
    leave_for_good = TaskExecutor.leave_for_good

    def leaving(hands: TaskExecutor) -> None:
        for_good.append(hands)
        leave_for_good(hands)

    monkeypatch.setattr(TaskExecutor, "leave_for_good", leaving)
    async with standing() as life:
        await eventually(lambda: life.coordinator.left, "it has left the group")
        assert not for_good
        life.starter.there = True
        await eventually(lambda: life.phase is WorkerPhase.STABLE, "it is back")
        life.steady.leave("the test says so")
        assert for_good == [life.worker.hands]


BY_ITSELF = TaskStatus(
    task=A0, state=TaskState.RUNNING, epoch=Epoch(1), worker=ME, kind=TaskKind.STREAMING, handle={"session_id": "s"}
)
COMES = WorkerStatus(worker=WorkerId("w2"), state=WorkerPhase.JOINING, epoch=Epoch(1), slots=2)


async def test_who_stands_back_and_leaves_waits_until_it_is_sure_whether_it_comes_back(standing: Any) -> None:
    async with standing(wait_s=60) as life:
        await eventually(lambda: stands_back(life.topics.status) == {ME: "no master"})
        await life.topics.publish_task(replaced(BY_ITSELF, epoch=life.topics.status.workers[ME].epoch))
        life.steady.leave("the test says so", Absence(left=LeaveReason.RESTARTING), DEADLINE_S)
        await asyncio.sleep(0.05)
        assert life.starter.ended == []
        life.steady.confirm(Absence(left=LeaveReason.KILLED))
        assert (await life.outcome()).ending is Ending.LEFT
        assert [each.task for each in life.starter.ended] == [A0]


@pytest.mark.parametrize(
    ("absence", "comes", "ended"),
    [(STOPPED, False, [A0]), (STOPPED, True, []), (Absence(left=LeaveReason.RESTARTING), False, [])],
    ids=["nobody stays", "another one comes", "it comes back"],
)
async def test_who_stands_back_and_leaves_as_the_last_one_leaves_nothing_running(
    standing: Any, absence: Absence, comes: bool, ended: list[TaskId]
) -> None:
    async with standing(wait_s=60) as life:
        await eventually(lambda: stands_back(life.topics.status) == {ME: "no master"})
        await life.topics.publish_task(replaced(BY_ITSELF, epoch=life.topics.status.workers[ME].epoch))
        if comes:
            await life.topics.publish_worker(replace(COMES, at_ms=wall_ms()))
        life.steady.leave("the test says so", absence)
        assert (await life.outcome()).ending is Ending.LEFT
        assert [each.task for each in life.starter.ended] == ended
