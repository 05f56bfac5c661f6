"""A worker from its first word to its last: real membership, real executor; the coordinator and the topics stand in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from stand_ins import HandRunner, LonelyCoordinator, MemoryLogs
from suspending import Host
from waiting import eventually

from airflow_provider.kafka import group as group_module
from airflow_provider.kafka import silence
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.errors import Fault, KafkaErrorCode, TransportError
from airflow_provider.kafka.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    PlanRecord,
    TaskKind,
    TaskState,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.kafka.topics.log_errors import LogError, NoTopicError, TopicRenewedError
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.membership.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.spark.job import FencedError
from airflow_provider.spark.runner import OnEvent, TaskOrder
from airflow_provider.worker import journal
from airflow_provider.worker import process as process_module
from airflow_provider.worker.ending import Ending, Outcome
from airflow_provider.worker.executor import TaskExecutor
from airflow_provider.worker.hands import Released, Standby
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process import this_process
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker

ME = WorkerId("w1")
A0, A1 = TaskId("a", 0), TaskId("a", 1)
MEMBER = MemberSettings(
    group_id="g",
    worker=ME,
    session_timeout_ms=600,
    heartbeat_interval_ms=30,
    fast_heartbeat_ms=5,
    lease_margin_ms=200,
    retry_backoff_ms=10,
    retry_backoff_max_ms=40,
)
SHORT = {"rebalance_timeout_ms": MEMBER.session_timeout_ms}
LONG = {"session_timeout_ms": 120_000, "heartbeat_interval_ms": 60_000, "rebalance_timeout_ms": 120_000}
GONE = TransportError("connection refused", fault=Fault.CONNECTION)


class Life:
    """One worker's life: what it lives with, and how it ended."""

    def __init__(self, **settings: Any) -> None:
        self.logs = MemoryLogs()
        self.coordinator = LonelyCoordinator()
        self.runner: Any = None
        self.linger_s = 60.0
        member = replace(MEMBER, **settings.pop("member", {}))
        self.settings = WorkerSettings(**{"member": member, "until": Until.FOREVER, **settings})
        self.worker: Worker
        self._run: asyncio.Task[Outcome]

    def begin(self, saved: Any = None) -> None:
        self.worker = Worker(
            self.settings,
            transport=self.coordinator,  # type: ignore[arg-type]
            logs=self.logs,
            make_hands=self._make_hands,
            saved=saved,
        )
        self._run = asyncio.ensure_future(self.worker.run())

    def _make_hands(
        self, stopped: Released, finished: Released, changed: Callable[[], None], _lease: WorkerLease
    ) -> TaskExecutor:
        def make_runner(on_event: OnEvent) -> HandRunner:
            self.runner = HandRunner(on_event)
            return self.runner  # type: ignore[no-any-return]

        return TaskExecutor(
            worker=ME,
            group_id="g",
            logs=self.logs,
            make_runner=make_runner,
            slots=2,
            checkpoint_root="/checkpoints",
            stopped=stopped,
            finished=finished,
            changed=changed,
            linger_s=self.linger_s,
            lease_ms=MEMBER.session_timeout_ms,
        )

    async def submit(self, *, tasks: int = 2, **definition: Any) -> None:
        job = JobDefinition(name="a", entry_point="m:f", max_tasks=9, **definition)
        await self.logs.submit(job)
        await self.plan(tasks)

    async def plan(self, tasks: int) -> None:
        job = self.logs.jobs.jobs["a"]
        await self.logs.publish_plan(PlanRecord.of(job, [{"i": i} for i in range(tasks)], planned_by=ME, at_ms=0))

    async def runs(self, *tasks: TaskId) -> None:
        await eventually(
            lambda: self.runner.running == frozenset(tasks) and all(self.state(t) is TaskState.RUNNING for t in tasks),
            f"{tasks} run",
        )

    async def outcome(self) -> Outcome:
        return await asyncio.wait_for(asyncio.shield(self._run), 10)

    async def cancel(self) -> None:
        self._run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._run

    def state(self, task: TaskId) -> TaskState | None:
        told = self.logs.status.tasks.get(task)
        return told.state if told else None

    @property
    def phase(self) -> WorkerPhase | None:
        told = self.logs.status.workers.get(ME)
        return told.state if told else None

    @property
    def ended(self) -> bool:
        return self._run.done()


@asynccontextmanager
async def living(**settings: Any) -> AsyncIterator[Life]:
    life = Life(**settings)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    try:
        await life.runs(A0, A1)
        yield life
    finally:
        if life.runner is not None:
            life.runner.stubborn.clear()
        await life.cancel()
    assert len(asyncio.all_tasks()) == 1, f"left behind: {asyncio.all_tasks()}"


# ---- endings


async def test_a_jvm_that_its_last_process_has_left_running_is_killed_before_it_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[tuple[int, str]] = []
    monkeypatch.setattr(process_module, "end_orphan", lambda pid, start: killed.append((pid, start)))
    life = Life()
    mine = process_module.this_process()
    last = f"{mine.rpartition('/')[0]}/1/{os.getpid()}/{mine.rpartition('/')[2]}"
    await life.logs.publish_worker(
        WorkerStatus(worker=ME, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1, process=last)
    )
    life.begin()
    await eventually(lambda: killed)
    assert killed == [(os.getpid(), mine.rpartition("/")[2])]
    await life.cancel()


async def test_its_record_names_its_jvm_as_soon_as_a_task_has_started_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor has to know of it however soon this process is killed, with no round in between."""
    async with living() as life:
        before = life.logs.status.workers[ME]
        monkeypatch.setattr(process_module, "present_jvm", lambda: "7/77")
        life.runner.streams(A0)
        await eventually(lambda: life.logs.status.workers[ME].process == f"{before.process}/7/77")
        assert life.logs.status.workers[ME].state is before.state


async def test_a_worker_that_leaves_stops_everything_says_so_and_is_out_of_the_group() -> None:
    async with living() as life:
        life.worker.leave("enough")
        outcome = await life.outcome()
        assert (outcome.ending, outcome.error, outcome.epoch) == (Ending.LEFT, None, life.logs.status.group.epoch)
        assert life.coordinator.left == ["enough"]
        assert life.phase is WorkerPhase.LEFT
        assert {life.state(A0), life.state(A1)} == {TaskState.STOPPED}


async def test_its_last_words_are_stored_before_it_ends() -> None:
    life = Life()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    life.logs.takes_s = 0.05
    life.worker.leave("enough")
    await life.outcome()
    assert life.phase is WorkerPhase.LEFT


async def test_a_drained_group_lets_its_worker_go() -> None:
    life = Life(until=Until.DRAINED)
    await life.submit(tasks=1)
    life.begin()
    await life.runs(A0)
    life.runner.finish(A0)
    outcome = await life.outcome()
    assert outcome.ending is Ending.DRAINED
    assert life.coordinator.left == ["the group is drained"]
    assert life.phase is WorkerPhase.LEFT


async def test_without_jobs_a_group_is_not_drained() -> None:
    life = Life(until=Until.DRAINED)
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    await asyncio.sleep(0.05)
    assert not life.ended
    await life.cancel()


async def test_a_worker_that_is_cancelled_stops_everything_and_does_not_leave() -> None:
    async with living() as life:
        await life.cancel()
        assert life.coordinator.left == []
        assert life.runner.running == frozenset()
        assert {life.state(A0), life.state(A1)} == {TaskState.STOPPED}
        assert life.coordinator.released == 1


async def test_a_worker_that_is_cancelled_twice_still_lets_go_of_its_membership() -> None:
    async with living() as life:
        life.runner.stubborn |= {A0, A1}
        run = life._run
        run.cancel()
        await eventually(lambda: life.runner.told)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        assert life.coordinator.released == 1


async def test_another_process_under_its_name_ends_it() -> None:
    async with living() as life:
        life.coordinator.heartbeats_say = KafkaErrorCode.FENCED_INSTANCE_ID
        outcome = await life.outcome()
        assert outcome.ending is Ending.FENCED
        assert "another process joined" in (outcome.error or "")
        assert life.runner.running == outcome.still_running == frozenset()
        assert life.coordinator.left == []


@pytest.mark.parametrize("error", [KafkaErrorCode.GROUP_MAX_SIZE_REACHED, KafkaErrorCode(999)])
async def test_a_coordinator_that_refuses_ends_it_with_the_codes_name(error: KafkaErrorCode) -> None:
    life = Life()
    life.coordinator.joins_say = error
    life.begin()
    outcome = await life.outcome()
    assert outcome.ending is Ending.FAILED
    assert error.name in (outcome.error or "")
    assert life.phase is WorkerPhase.LEFT, "it does not look as if it were still joining"


async def test_a_worker_that_was_let_in_and_is_refused_later_does_not_say_that_it_has_left() -> None:
    async with living() as life:
        life.coordinator.joins_say = life.coordinator.heartbeats_say = KafkaErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (await life.outcome()).ending is Ending.FAILED
        assert life.phase is WorkerPhase.STABLE, "the group waits a session for it"


async def test_a_broker_that_is_too_old_ends_it() -> None:
    life = Life()
    life.coordinator.away = TransportError("JoinGroup: the broker is too old", fault=Fault.VERSION)
    life.begin()
    outcome = await life.outcome()
    assert (outcome.ending, outcome.error) == (Ending.FAILED, "JoinGroup: the broker is too old")
    assert life.phase is WorkerPhase.LEFT


@pytest.mark.parametrize("gone", [NoTopicError("g.jobs"), TopicRenewedError("g.jobs")])
async def test_a_group_whose_topics_are_gone_ends_it_with_a_clear_error(gone: LogError) -> None:
    async with living() as life:
        life.logs.failing = gone
        life.coordinator.heartbeats_say = KafkaErrorCode.UNKNOWN_MEMBER_ID
        await eventually(lambda: life.coordinator.generation > 1)
        life.coordinator.heartbeats_say = KafkaErrorCode.NONE
        outcome = await life.outcome()
        assert outcome.ending is Ending.FAILED
        assert "the topic 'g.jobs' of group 'g' is gone" in (outcome.error or "")
        assert life.coordinator.left == ["the topics of the group are gone"]


async def test_a_task_that_does_not_stop_keeps_a_worker_that_leaves_no_longer_than_the_rebalance_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with living(member=SHORT) as life:
        life.runner.stubborn.add(A0)
        life.worker.leave("enough")
        outcome = await life.outcome()
        assert outcome.ending is Ending.FAILED
        assert "still running: a:0" in (outcome.error or "")
        assert life.coordinator.left == [], "the group must not give to others what still runs"


async def test_a_task_that_does_not_stop_does_not_keep_a_fenced_worker() -> None:
    async with living(member=SHORT) as life:
        life.runner.stubborn.add(A0)
        life.coordinator.heartbeats_say = KafkaErrorCode.FENCED_INSTANCE_ID
        outcome = await life.outcome()
        assert (outcome.ending, outcome.still_running) == (Ending.FENCED, {A0}), "this process must not join again"


async def test_a_task_that_does_not_stop_does_not_keep_a_worker_whose_topics_are_gone() -> None:
    async with living(member=SHORT) as life:
        life.runner.stubborn.add(A0)
        life.logs._followed().status.take([Record(b"worker:w0", None, 0)])  # an offset that comes again
        outcome = await life.outcome()
        assert outcome.ending is Ending.FAILED
        assert "still running: a:0" in (outcome.error or "")
        assert life.coordinator.left == []


# ---- faults of this program


async def test_a_fault_in_the_membership_fails_the_worker_visibly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with living() as life:

        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(group_module, "handle", broken)
        outcome = await life.outcome()
        assert outcome.ending is Ending.FAILED
        assert outcome.error == "a fault of this program: RuntimeError: a bug"
        assert life.runner.running == frozenset()
        assert life.coordinator.left == [], "its next process goes on with its tasks"
    (fault,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "completing rebalance -> stable: Synced(" in fault.getMessage(), "with what happened last"
    assert fault.exc_info is not None


async def test_a_fault_in_a_background_step_fails_the_worker_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with living() as life:

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(life.coordinator, "heartbeat", broken)
        outcome = await life.outcome()
        assert (outcome.ending, outcome.error) == (Ending.FAILED, "a fault of this program: RuntimeError: a bug")


async def test_a_fault_in_running_tasks_fails_the_worker_visibly() -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    async with living() as life:
        assert isinstance(life.worker.hands, TaskExecutor)
        life.worker.hands._steps.guarded(broken)
        outcome = await life.outcome()
        assert (outcome.ending, outcome.error) == (Ending.FAILED, "a fault of this program: RuntimeError: a bug")
        assert life.runner.running == frozenset()


async def test_after_a_fault_nothing_may_be_written() -> None:
    async with living() as life:
        life.worker.lease.check(life.worker.lease.grant)
        life.worker.member.fail(RuntimeError("a bug"))
        with pytest.raises(FencedError):
            life.worker.lease.check(life.worker.lease.grant)
        await life.outcome()


# ---- the broker goes and comes back


async def test_without_a_broker_tasks_stop_before_the_lease_is_over_and_go_on_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with living() as life:
        life.coordinator.away = GONE
        await eventually(lambda: life.runner.running == frozenset(), "the tasks are stopped")
        with pytest.raises(FencedError):
            life.worker.lease.check(life.worker.lease.grant - 1)
        await asyncio.sleep(0.1)
        life.coordinator.away = None
        await life.runs(A0, A1)
        assert life.runner.order_of(A0).attempt == 2
    words = [record.getMessage() for record in caplog.records if record.name == silence.__name__]
    assert len([word for word in words if "trying again" in word]) == 1, words
    assert len([word for word in words if "back in the group" in word]) == 1, words


async def test_a_short_outage_stops_nothing_and_is_told_to_be_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with living() as life:
        for times in (1, 2):
            life.coordinator.away = GONE
            await eventually(lambda times=times: caplog.text.count("trying again until it is") == times)
            life.coordinator.away = None
            await eventually(lambda times=times: caplog.text.count("back in the group") == times)
        await life.runs(A0, A1)
        assert len(life.runner.orders) == 2


async def test_the_age_of_a_record_counts_from_its_writing() -> None:
    """A delay that began before this process did ends when the others think that it does."""
    life = Life()
    async with living() as other:
        record = other.logs.status.group
    assert record is not None
    await life.logs.publish_group(replace(record, at_ms=wall_ms() - 5_000))
    life.coordinator.away = GONE
    life.begin()
    await eventually(lambda: life.worker.member.state.record is not None)
    assert 5_000 <= now_ms() - life.worker.member.state.record_at < 9_000
    await life.cancel()


# ---- controls


async def test_whoever_is_asked_to_stop_stops_and_leaves_and_the_wish_is_fulfilled() -> None:
    async with living() as life:
        await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms()))
        assert (await life.outcome()).ending is Ending.LEFT
        assert ME not in life.logs.jobs.controls


async def test_whoever_is_asked_to_drain_finishes_what_runs_and_starts_nothing_more() -> None:
    life = Life()
    await life.submit(tasks=3)
    life.begin()
    await life.runs(A0, A1)
    await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.DRAIN, at_ms=wall_ms()))
    life.runner.finish(A0)
    await eventually(lambda: life.state(A0) is TaskState.FINISHED)
    await asyncio.sleep(0.05)
    assert life.runner.running == {A1}
    life.runner.finish(A1)
    assert (await life.outcome()).ending is Ending.LEFT
    assert life.state(TaskId("a", 2)) is None, "it has never started"


OTHER_CLOCKS = pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000], ids=["behind", "ahead"])
"""By so much the clock of whoever asks differs from the worker's."""


@OTHER_CLOCKS
async def test_a_wish_from_before_it_began_is_not_its_own(ahead_ms: int) -> None:
    life = Life()
    await life.submit(kind=TaskKind.STREAMING)
    await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms() + ahead_ms))
    life.begin()
    await life.runs(A0, A1)
    await life.cancel()


@OTHER_CLOCKS
async def test_a_wish_is_heard_whatever_clock_it_was_made_by(ahead_ms: int) -> None:
    async with living() as life:
        await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms() + ahead_ms))
        assert (await life.outcome()).ending is Ending.LEFT


# ---- hand-over


async def test_with_nothing_to_run_the_membership_goes_on_elsewhere_as_the_same_member() -> None:
    life = Life()
    life.linger_s = 0.05
    life.begin()
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    member_id, generation = life.worker.member.state.member_id, life.worker.member.state.generation
    assert life.coordinator.left == []

    await life.submit(kind=TaskKind.STREAMING)
    life.linger_s = 60
    life.begin(outcome.saved)
    await life.runs(A0, A1)
    assert life.worker.member.state.member_id == member_id
    assert life.worker.member.state.generation > generation
    await life.cancel()


@OTHER_CLOCKS
async def test_a_wish_that_comes_while_the_membership_changes_hands_is_heard(ahead_ms: int) -> None:
    life = Life()
    life.linger_s = 0.05
    life.begin()
    outcome = await life.outcome()
    await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms() + ahead_ms))
    life.linger_s = 60
    life.begin(outcome.saved)
    assert (await life.outcome()).ending is Ending.LEFT


async def test_a_wish_that_comes_after_the_topics_were_made_anew_is_heard() -> None:
    """Offsets are counted from the beginning again, so that it comes before the worker began."""
    life = Life()
    life.linger_s = 0.05
    await life.submit()
    await life.logs.remove("a")
    life.begin()
    outcome = await life.outcome()
    life.logs = MemoryLogs()
    life.linger_s = 60
    life.begin(outcome.saved)
    await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=0))
    assert (await life.outcome()).ending is Ending.LEFT


async def test_a_membership_that_a_release_without_offsets_has_saved_hears_what_is_asked_from_now_on() -> None:
    life = Life()
    life.linger_s = 0.05
    await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=0))
    life.begin()
    saved = dict((await life.outcome()).saved or {})
    del saved["began_at"]
    life.linger_s = 60
    life.begin({**saved, "began_ms": 0})
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    assert not life.ended
    await life.logs.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=0))
    assert (await life.outcome()).ending is Ending.LEFT


def with_standby() -> Life:
    """With hands that run nothing, as in the triggerer."""
    life = Life(phase=WorkerPhase.DEFERRED)

    def standby(stopped: Released, finished: Released, _changed: Callable[[], None], _lease: WorkerLease) -> Standby:
        return Standby(lambda _task: True, stopped)

    life._make_hands = standby  # type: ignore[assignment,method-assign]
    return life


async def test_a_standby_holds_the_membership_until_there_is_something_to_run() -> None:
    life = with_standby()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.DEFERRED)
    assert not life.ended
    await life.submit(tasks=1)
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    assert outcome.saved is not None
    assert outcome.saved["member"]["owned"] == [["a", 0]]


async def test_a_membership_that_runs_nothing_is_handed_over_when_that_is_asked_for() -> None:
    """Also while its coordinator can't be reached, for new credentials may be the reason to ask."""
    life = with_standby()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.DEFERRED)
    member_id, generation = life.worker.member.state.member_id, life.worker.member.state.generation
    life.coordinator.away = GONE
    life.worker.hand_over()
    outcome = await life.outcome()
    assert (outcome.ending, life.coordinator.left) == (Ending.HANDED_OVER, [])
    life.coordinator.away = None
    began = now_ms()
    life.begin(outcome.saved)
    await eventually(lambda: life.worker.member.state.heard_at > began, "a heartbeat was answered")
    assert (life.worker.member.state.member_id, life.worker.member.state.generation) == (member_id, generation)
    await life.cancel()


async def test_what_it_lets_go_of_by_itself_is_missing_in_what_it_says_it_has() -> None:
    """A plan that shrinks takes a task away, and nobody else knows: if it grows again, somebody has to be given it."""
    life = Life()
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    try:
        await life.runs(A0, A1)
        await eventually(lambda: life.logs.status.workers[ME].owned >= {A0, A1})
        await life.plan(1)
        await eventually(lambda: A1 not in life.runner.running)
        await eventually(lambda: A1 not in life.logs.status.workers[ME].owned, "it says that it has a:1 no more")
        await life.plan(2)
        await life.runs(A0, A1)
    finally:
        await life.cancel()


async def test_many_tasks_that_it_lets_go_of_one_by_one_are_missing_in_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record names all that it has left: one for each of a thousand would be a thousand times a thousand names."""
    life = Life(slots=2)
    await life.submit(tasks=9, kind=TaskKind.STREAMING)
    life.begin()
    try:
        await life.runs(A0, A1)
        await eventually(lambda: life.worker.member.state.owned == life.logs.status.workers[ME].owned)
        said, publish = [], life.logs.publish_worker
        monkeypatch.setattr(life.logs, "publish_worker", lambda status: said.append(status.owned) or publish(status))
        waiting = [TaskId("a", index) for index in range(2, 9)]
        for task in waiting:
            life.worker._stopped(frozenset({task}))
        await eventually(lambda: said)
        assert said[0].isdisjoint(waiting)
        assert len([owned for owned in said if owned == said[0]]) == 1
    finally:
        await life.cancel()


async def test_a_job_whose_plan_failed_is_planned_when_it_was_removed_and_is_submitted_again() -> None:
    life, planner = Life(), planner_of("a")
    await life.logs.submit(JobDefinition(name="a", entry_point="m:f"))
    life.begin()
    try:
        await eventually(lambda: planner in life.runner.running)
        life.runner.fail(planner)
        await eventually(lambda: life.state(planner) is TaskState.FAILED)
        await life.logs.remove("a")
        await life.logs.submit(JobDefinition(name="a", entry_point="m:f"))
        await eventually(lambda: planner in life.runner.running, "its planner runs")
    finally:
        await life.cancel()


# ---- whose membership it is


async def held_by_a_standby() -> tuple[Life, Any]:
    """A worker that was held in a triggerer, with two tasks to run; and its membership."""
    life = Life(phase=WorkerPhase.DEFERRED)
    make_hands = life._make_hands

    def standby(stopped: Released, finished: Released, _changed: Callable[[], None], _lease: WorkerLease) -> Standby:
        return Standby(lambda _task: True, stopped)

    life._make_hands = standby  # type: ignore[assignment,method-assign]
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    saved = (await life.outcome()).saved
    assert saved is not None
    assert saved["member"]["owned"] == [["a", 0], ["a", 1]]
    assert life.phase is WorkerPhase.DEFERRED
    life._make_hands = make_hands  # type: ignore[method-assign]
    life.settings = replace(life.settings, phase=WorkerPhase.STABLE)
    return life, saved


@pytest.mark.parametrize("resumed", [True, False], ids=["resumed", "new"])
async def test_no_task_starts_before_it_is_stored_which_process_has_the_membership(*, resumed: bool) -> None:
    """Else whoever takes the name up sees that nothing of it can run: it was held in a triggerer."""
    life, saved = await held_by_a_standby()
    life.logs.takes_s = 0.1
    life.begin(saved if resumed else None)
    processes: list[str] = []
    start = life.runner.start

    async def noted(order: TaskOrder) -> None:
        processes.append(life.logs.status.workers[ME].process)
        await start(order)

    life.runner.start = noted
    await life.runs(A0, A1)
    assert processes == [this_process()] * 2
    await life.cancel()


async def test_what_it_was_not_to_start_yet_it_gives_up_at_once() -> None:
    life, saved = await held_by_a_standby()
    life.linger_s = 0.01
    with life.logs.out_of_order(LogError("the disk is full")):
        life.begin(saved)
        await eventually(lambda: life.worker._unstarted == {A0, A1}, "it is to run them")
        await asyncio.sleep(0.05)
        assert not life.ended, "it does not hand over what it has not begun"
        life.worker.leave("enough")
        assert (await life.outcome()).ending is Ending.LEFT
    assert not life.runner.orders


async def test_when_it_can_say_so_at_last_it_starts_what_is_still_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_RETRY_S", 0.01)
    life, saved = await held_by_a_standby()
    publish_worker = life.logs.publish_worker

    async def fails(_status: WorkerStatus) -> None:
        raise LogError("the disk is full")

    monkeypatch.setattr(life.logs, "publish_worker", fails)
    life.begin(saved)
    await eventually(lambda: life.worker._unstarted == {A0, A1}, "it is to run them")
    epoch = life.worker.member.state.epoch
    life.coordinator.heartbeats_say = KafkaErrorCode.REBALANCE_IN_PROGRESS
    await eventually(lambda: life.worker.member.state.epoch > epoch, "a round has passed")
    life.coordinator.heartbeats_say = KafkaErrorCode.NONE
    assert not life.runner.orders
    monkeypatch.setattr(life.logs, "publish_worker", publish_worker)
    await life.runs(A0, A1)
    assert life.runner.order_of(A0).epoch > epoch
    await life.cancel()


# ---- a host that was suspended


async def test_a_host_that_was_suspended_for_longer_than_a_lease_finds_it_over_and_stops_its_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(monkeypatch)
    async with living(member=LONG) as life:
        granted = life.worker.lease.grant
        life.worker.lease.check(granted)
        life.coordinator.away = GONE
        host.was_suspended(LONG["session_timeout_ms"])
        with pytest.raises(FencedError):
            life.worker.lease.check(granted)
        await eventually(lambda: life.runner.running == frozenset(), "the tasks are stopped", within_s=5)
        life.coordinator.away = None
        await life.runs(A0, A1)
