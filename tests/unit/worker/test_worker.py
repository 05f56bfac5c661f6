"""A worker from its first word to its last: real membership, real executor; the coordinator and the topics stand in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import replace

import pytest
from turned_clock import time_passes
from waiting import DEADLINE_S, eventually
from worker_life import A0, A1, GONE, ME, OTHER_CLOCKS, SHORT, Life, living

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.group.live import silence
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError, TopicRenewedError
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.spark.job import FencedError
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    TaskKind,
    TaskState,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.worker import process_identity
from airflow_provider.worker import worker as worker_module
from airflow_provider.worker.endings.ending import KILLED, Ending
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.settings import Until

pytestmark = pytest.mark.turned_clock

RESTARTING = Absence(left=LeaveReason.RESTARTING, returns_ms=5_000)

# ---- endings


async def test_a_jvm_that_its_last_process_has_left_running_is_killed_before_it_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[tuple[int, str]] = []
    monkeypatch.setattr(process_identity, "kill_ownerless_jvm", lambda pid, start: killed.append((pid, start)))
    life = Life()
    mine = process_identity.this_process()
    last = f"{mine.rpartition('/')[0]}/1/{os.getpid()}/{mine.rpartition('/')[2]}"
    await life.topics.publish_worker(
        WorkerStatus(worker=ME, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1, process=last)
    )
    life.begin()
    await eventually(lambda: killed)
    assert killed == [(os.getpid(), mine.rpartition("/")[2])]
    await life.cancel()


async def test_its_record_names_its_jvm_as_soon_as_a_task_has_started_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor has to know of it however soon this process is killed, with no round in between."""
    async with living() as life:
        before = life.topics.status.workers[ME]
        monkeypatch.setattr(process_identity, "present_jvm", lambda: "7/77")
        life.runner.streams(A0)
        await eventually(lambda: life.topics.status.workers[ME].process == f"{before.process}/7/77")
        assert life.topics.status.workers[ME].state is before.state


async def test_a_worker_that_leaves_stops_everything_says_so_and_is_out_of_the_group() -> None:
    async with living() as life:
        life.worker.leave("enough")
        outcome = await life.outcome()
        group = life.topics.status.group
        assert group is not None
        assert (outcome.ending, outcome.error, outcome.epoch) == (Ending.LEFT, None, group.epoch)
        assert life.coordinator.left == ["enough"]
        assert life.phase is WorkerPhase.LEFT
        assert {life.state(A0), life.state(A1)} == {TaskState.STOPPED}


async def test_the_record_that_it_has_left_says_what_became_known_meanwhile() -> None:
    async with living() as life:
        life.worker.confirm(KILLED)
        assert life.topics.status.workers[ME].left is None, "it does not leave"
        life.worker.leave("told to end", RESTARTING)
        await asyncio.sleep(0)
        life.worker.confirm(KILLED)
        await life.outcome()
        said = life.topics.status.workers[ME]
        assert (said.state, said.left) == (WorkerPhase.LEFT, LeaveReason.KILLED)


async def test_it_leaves_only_when_it_is_told_for_sure_what_its_absence_will_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "_FAREWELL_S", DEADLINE_S)
    async with living() as life:
        life.worker.leave("told to end", RESTARTING, DEADLINE_S)
        await eventually(lambda: {life.state(A0), life.state(A1)} == {TaskState.STOPPED}, "its tasks stop meanwhile")
        assert life.coordinator.left == []
        life.worker.confirm(KILLED)
        await eventually(lambda: life.coordinator.left)
        assert life.topics.status.workers[ME].left is LeaveReason.KILLED, "the leader of the next round reads it"
        await life.outcome()


async def test_what_is_left_of_its_farewell_is_for_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow kills its process soon, and from the record the others learn that it has left."""
    monkeypatch.setattr(worker_module, "_FAREWELL_S", 0.1)
    monkeypatch.setattr(worker_module, "_TO_STORE_S", 0.05)
    async with living() as life:
        life.worker.leave("told to end", RESTARTING, DEADLINE_S)
        assert (await life.outcome()).ending is Ending.LEFT
        assert life.topics.status.workers[ME].left is LeaveReason.RESTARTING


async def test_it_leaves_in_the_end_though_nobody_tells_it_for_sure() -> None:
    async with living() as life:
        life.worker.leave("told to end", RESTARTING, 0.05)
        assert (await life.outcome()).ending is Ending.LEFT
        assert life.topics.status.workers[ME].left is LeaveReason.RESTARTING


async def test_its_last_words_are_stored_before_it_ends() -> None:
    life = Life()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    life.topics.takes_s = 0.05
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


async def test_when_the_last_job_is_removed_its_worker_goes() -> None:
    life = Life(until=Until.DRAINED)
    await life.submit(tasks=1)
    life.begin()
    await life.runs(A0)
    await life.topics.remove(A0.job)
    outcome = await life.outcome()
    assert outcome.ending is Ending.DRAINED
    assert life.runner.running == frozenset()


async def test_a_removal_from_before_it_began_says_nothing_to_a_worker() -> None:
    life = Life(until=Until.DRAINED)
    await life.submit(tasks=1)
    await life.topics.remove(A0.job)
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    await time_passes(30)
    assert not life.ended
    await life.cancel()


async def test_without_jobs_a_group_is_not_drained() -> None:
    life = Life(until=Until.DRAINED)
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    await time_passes(30)
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
async def test_a_group_whose_topics_are_gone_ends_it_with_a_clear_error(gone: TopicError) -> None:
    async with living() as life:
        life.topics.failing = gone
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
        assert outcome.ending is Ending.FENCED
        assert outcome.still_running == {A0}, "this process must not join again"


async def test_a_task_that_does_not_stop_does_not_keep_a_worker_whose_topics_are_gone() -> None:
    async with living(member=SHORT) as life:
        life.runner.stubborn.add(A0)
        life.topics._followed().status.take([Record(b"worker:w0", None, 0)])  # an offset that comes again
        outcome = await life.outcome()
        assert outcome.ending is Ending.FAILED
        assert "still running: a:0" in (outcome.error or "")
        assert life.coordinator.left == []


# ---- faults of this program


async def test_a_fault_in_the_membership_fails_the_worker_visibly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with living() as life:

        def broken(_state: object, _event: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(life.member, "_handle", broken)
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

        async def broken(
            _node: object, _group: str, _generation: int, _member: str, _worker: str, *, timeout_s: float
        ) -> None:
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
        life.member.fail(RuntimeError("a bug"))
        with pytest.raises(FencedError):
            life.worker.lease.check(life.worker.lease.grant)
        await life.outcome()


# ---- the broker goes and comes back


@pytest.mark.slow
async def test_without_a_broker_tasks_stop_before_the_lease_is_over_and_go_on_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with living() as life:
        life.coordinator.away = GONE
        await eventually(lambda: life.runner.running == frozenset(), "the tasks are stopped")
        with pytest.raises(FencedError):
            life.worker.lease.check(life.worker.lease.grant - 1)
        await time_passes(30)
        life.coordinator.away = None
        await life.runs(A0, A1)
        assert life.runner.order_of(A0).attempt == 2
    words = [record.getMessage() for record in caplog.records if record.name == silence.__name__]
    assert len([word for word in words if "trying again" in word]) == 1, words
    assert len([word for word in words if "back in the group" in word]) == 1, words


async def said(caplog: pytest.LogCaptureFixture, words: str, times: int) -> None:
    await eventually(lambda: caplog.text.count(words) == times)


async def test_a_short_outage_stops_nothing_and_is_told_to_be_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with living() as life:
        for times in (1, 2):
            life.coordinator.away = GONE
            await said(caplog, "trying again until it is", times)
            life.coordinator.away = None
            await said(caplog, "back in the group", times)
        await life.runs(A0, A1)
        assert len(life.runner.orders) == 2


async def test_the_age_of_a_record_counts_from_its_writing() -> None:
    """A delay that began before this process did ends when the others think that it does."""
    life = Life()
    async with living() as other:
        record = other.topics.status.group
    assert record is not None
    await life.topics.publish_group(replace(record, at_ms=wall_ms() - 5_000))
    life.coordinator.away = GONE
    life.begin()
    await eventually(lambda: life.member.state.record is not None)
    assert 5_000 <= now_ms() - life.member.state.record_at < 9_000
    await life.cancel()


# ---- controls


async def test_whoever_is_asked_to_stop_stops_and_leaves_and_the_wish_is_fulfilled() -> None:
    async with living() as life:
        await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms()))
        assert (await life.outcome()).ending is Ending.LEFT
        assert ME not in life.topics.jobs.controls


@pytest.mark.slow
async def test_whoever_is_asked_to_drain_finishes_what_runs_and_starts_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    life = Life()
    await life.submit(tasks=3)
    life.begin()
    await life.runs(A0, A1)
    await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.DRAIN, at_ms=wall_ms()))
    await eventually(lambda: life.topics.status.workers[ME].slots == 0)
    life.runner.finish(A0)
    await eventually(lambda: life.state(A0) is TaskState.FINISHED)
    await time_passes(30)
    assert life.runner.running == {A1}
    assert life.topics.status.workers[ME].slots == 0, "a leader has nothing given to it for the sake of a free slot"
    life.runner.finish(A1)
    assert (await life.outcome()).ending is Ending.LEFT
    assert life.state(TaskId("a", 2)) is None, "it has never started"
    assert caplog.text.count("asked this worker to leave its group: it starts no more tasks") == 1


@pytest.mark.slow
@OTHER_CLOCKS
async def test_a_wish_from_before_it_began_is_not_its_own(ahead_ms: int) -> None:
    life = Life()
    await life.submit(kind=TaskKind.STREAMING)
    await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms() + ahead_ms))
    life.begin()
    await life.runs(A0, A1)
    await time_passes(30)
    assert life.runner.running == {A0, A1}
    await life.cancel()


@OTHER_CLOCKS
async def test_a_wish_is_heard_whatever_clock_it_was_made_by(ahead_ms: int) -> None:
    async with living() as life:
        await life.topics.publish_control(
            ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms() + ahead_ms)
        )
        assert (await life.outcome()).ending is Ending.LEFT


async def test_a_worker_does_not_say_of_a_round_that_it_has_what_ended_as_the_round_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record of the end is of the epoch before: a leader goes by what the worker says of itself."""
    async with living() as life:
        rounds: list[Epoch] = []

        def round_comes() -> None:
            if A0 not in life.worker.hands.running and not rounds:
                rounds.append(life.member.view.epoch)
                life.worker.assigned(life.member.view.epoch)

        monkeypatch.setattr(life.worker.hands, "_changed", round_comes)
        life.runner.finish(A0)
        await eventually(lambda: bool(rounds))
        await time_passes(30)
        assert life.topics.status.workers[ME].owned == {A1}


async def test_it_hands_over_nothing_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life()
    life.linger_s = 0
    await life.submit()
    life.begin()
    await life.runs(A0, A1)
    executor = life.worker.hands
    look = life.worker._changed.set

    def look_before_it_is_released() -> None:
        if not executor.running:
            assert not executor.done or not life.member.view.owned
        look()

    monkeypatch.setattr(executor, "_changed", look_before_it_is_released)
    life.runner.finish(A0)
    life.runner.finish(A1)
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    assert outcome.saved is not None
    assert outcome.saved["member"]["owned"] == []
    assert life.worker.hands.fault is None
