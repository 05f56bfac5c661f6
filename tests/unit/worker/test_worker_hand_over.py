"""A worker whose membership changes hands, whose name another process has, or whose host was suspended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record
from stand_ins import MemoryTopics
from suspending import Host
from turned_clock import time_passes
from waiting import eventually
from worker_life import A0, A1, GONE, LONG, ME, OTHER_CLOCKS, Life, living

from airflow_provider.group.live.classic.leading import absent_since
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.spark.job import FencedError
from airflow_provider.spark.runner import TaskOrder
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    TaskKind,
    TaskState,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import TaskId, Tasks, planner_of
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.hands.standby import Standby
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.reporting import journal

pytestmark = pytest.mark.turned_clock

# ---- hand-over


async def test_with_nothing_to_run_the_membership_goes_on_elsewhere_as_the_same_member() -> None:
    life = Life()
    life.linger_s = 0.05
    life.begin()
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    member_id, generation = life.member.state.member_id, life.member.state.generation
    assert life.coordinator.left == []
    said = life.topics.status.workers[life.worker.settings.member.worker]
    assert (said.process, said.member_id) == (this_process(), ""), "its process ends, and the member stays"

    await life.submit(kind=TaskKind.STREAMING)
    life.linger_s = 60
    life.begin(outcome.saved)
    await life.runs(A0, A1)
    assert life.member.state.member_id == member_id
    assert life.member.state.generation > generation
    await life.cancel()


@OTHER_CLOCKS
async def test_a_wish_that_comes_while_the_membership_changes_hands_is_heard(ahead_ms: int) -> None:
    life = Life()
    life.linger_s = 0.05
    life.begin()
    outcome = await life.outcome()
    await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=wall_ms() + ahead_ms))
    life.linger_s = 60
    life.begin(outcome.saved)
    assert (await life.outcome()).ending is Ending.LEFT


async def test_a_wish_that_comes_after_the_topics_were_made_anew_is_heard() -> None:
    """Offsets are counted from the beginning again, so that it comes before the worker began."""
    life = Life()
    life.linger_s = 0.05
    await life.submit()
    await life.topics.remove("a")
    life.begin()
    outcome = await life.outcome()
    life.topics = MemoryTopics()
    life.linger_s = 60
    life.begin(outcome.saved)
    await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=0))
    assert (await life.outcome()).ending is Ending.LEFT


async def test_a_membership_that_a_release_without_offsets_has_saved_hears_what_is_asked_from_now_on() -> None:
    life = Life()
    life.linger_s = 0.05
    await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=0))
    life.begin()
    saved = dict((await life.outcome()).saved or {})
    del saved["began_at"]
    life.linger_s = 60
    life.begin({**saved, "began_ms": 0})
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    assert not life.ended
    await life.topics.publish_control(ControlRecord(worker=ME, action=ControlAction.STOP, at_ms=0))
    assert (await life.outcome()).ending is Ending.LEFT


def with_standby() -> Life:
    """With hands that run nothing, as in the triggerer."""
    life = Life(phase=WorkerPhase.DEFERRED)

    def standby(stopped: Released, finished: Released, _changed: Callable[[], None], _lease: WorkerLease) -> Standby:
        return Standby(lambda _task: True, lambda _task: False, lambda _task: True, stopped, lambda: None, 0.0)

    life.make_hands = standby
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
    said = life.topics.status.workers[life.worker.settings.member.worker]
    assert said.condition.startswith("waits for Airflow to start its process (since "), "its pool may be full"
    assert said.returns_ms == 10_000, "when its session is over, its tasks soon go to workers that run"


async def test_what_is_handed_over_to_a_triggerer_that_has_no_room_soon_goes_to_others() -> None:
    """And not as late as if its task was tried again, which Airflow does not do."""
    life = Life(returns_ms=90_000)
    life.linger_s = 0.0
    life.begin()
    assert (await life.outcome()).ending is Ending.HANDED_OVER
    said = life.topics.status.workers[ME]
    assert said.condition.startswith("waits for a triggerer of Airflow (since ")
    absent = absent_since(group_record(said.epoch, members={ME: life.member.state.member_id}), [], {ME: said})
    assert absent[ME].at_most_ms == 10_000


async def test_a_membership_that_runs_nothing_is_handed_over_when_that_is_asked_for() -> None:
    """Also while its coordinator can't be reached, for new credentials may be the reason to ask."""
    life = with_standby()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.DEFERRED)
    member_id, generation = life.member.state.member_id, life.member.state.generation
    life.coordinator.away = GONE
    life.worker.hand_over()
    outcome = await life.outcome()
    assert (outcome.ending, life.coordinator.left) == (Ending.HANDED_OVER, [])
    life.coordinator.away = None
    began = now_ms()
    life.begin(outcome.saved)
    await eventually(lambda: life.member.state.heard_at > began, "a heartbeat was answered")
    assert (life.member.state.member_id, life.member.state.generation) == (member_id, generation)
    await life.cancel()


async def test_what_it_lets_go_of_by_itself_is_missing_in_what_it_says_it_has() -> None:
    """A plan that shrinks takes a task away, and nobody else knows: if it grows again, somebody has to be given it."""
    life = Life()
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    try:
        await life.runs(A0, A1)
        await eventually(lambda: life.topics.status.workers[ME].owned >= {A0, A1})
        await life.plan(1)
        await eventually(lambda: A1 not in life.runner.running)
        await eventually(lambda: A1 not in life.topics.status.workers[ME].owned, "it says that it has a:1 no more")
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
        await eventually(lambda: life.member.state.owned == life.topics.status.workers[ME].owned)
        said: list[Tasks] = []
        publish = life.topics.publish_worker

        async def say(status: WorkerStatus) -> None:
            said.append(status.owned)
            await publish(status)

        monkeypatch.setattr(life.topics, "publish_worker", say)
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
    await life.topics.submit(JobDefinition(name="a", entry_point="m:f"))
    life.begin()
    try:
        await eventually(lambda: planner in life.runner.running)
        life.runner.fail(planner)
        await eventually(lambda: life.state(planner) is TaskState.FAILED)
        await life.topics.remove("a")
        await life.topics.submit(JobDefinition(name="a", entry_point="m:f"))
        await eventually(lambda: planner in life.runner.running, "its planner runs")
    finally:
        await life.cancel()


# ---- whose membership it is


async def held_by_a_standby() -> tuple[Life, Any]:
    """A worker that was held in a triggerer, with two tasks to run; and its membership."""
    life = Life(phase=WorkerPhase.DEFERRED)
    make_hands = life.make_hands

    def standby(stopped: Released, finished: Released, _changed: Callable[[], None], _lease: WorkerLease) -> Standby:
        return Standby(lambda _task: True, lambda _task: False, lambda _task: True, stopped, lambda: None, 0.0)

    life.make_hands = standby
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    saved = (await life.outcome()).saved
    assert saved is not None
    assert saved["member"]["owned"] == [["a", 0], ["a", 1]]
    assert life.phase is WorkerPhase.DEFERRED
    life.make_hands = make_hands
    life.settings = replace(life.settings, phase=WorkerPhase.STABLE)
    return life, saved


@pytest.mark.slow
@pytest.mark.parametrize("resumed", [True, False], ids=["resumed", "new"])
async def test_no_task_starts_before_it_is_stored_which_process_has_the_membership(*, resumed: bool) -> None:
    """Otherwise the next one of that name sees that nothing of it can run: it was held in a triggerer."""
    life, saved = await held_by_a_standby()
    life.topics.takes_s = 0.1
    life.begin(saved if resumed else None)
    processes: list[str] = []
    start = life.runner.start

    async def noted(order: TaskOrder) -> None:
        processes.append(life.topics.status.workers[ME].process)
        await start(order)

    life.runner.start = noted
    await life.runs(A0, A1)
    assert processes == [this_process()] * 2
    await life.cancel()


async def test_what_it_was_not_to_start_yet_it_gives_up_at_once() -> None:
    life, saved = await held_by_a_standby()
    life.linger_s = 0.01
    with life.topics.out_of_order(TopicError("the disk is full")):
        life.begin(saved)
        await eventually(lambda: life.worker._unstarted == {A0, A1}, "it is to run them")
        await time_passes(60)
        assert not life.ended, "it does not hand over what it has not begun"
        life.worker.leave("enough")
        assert (await life.outcome()).ending is Ending.LEFT
    assert not life.runner.orders


async def test_when_it_can_say_so_at_last_it_starts_what_is_still_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_RETRY_S", 0.01)
    life, saved = await held_by_a_standby()
    publish_worker = life.topics.publish_worker

    async def fails(_status: WorkerStatus) -> None:
        raise TopicError("the disk is full")

    monkeypatch.setattr(life.topics, "publish_worker", fails)
    life.begin(saved)
    await eventually(lambda: life.worker._unstarted == {A0, A1}, "it is to run them")
    epoch = life.member.state.epoch
    life.coordinator.heartbeats_say = KafkaErrorCode.REBALANCE_IN_PROGRESS
    await eventually(lambda: life.member.state.epoch > epoch, "a round has passed")
    life.coordinator.heartbeats_say = KafkaErrorCode.NONE
    assert not life.runner.orders
    monkeypatch.setattr(life.topics, "publish_worker", publish_worker)
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
        await eventually(lambda: life.runner.running == frozenset(), "the tasks are stopped")
        life.coordinator.away = None
        await life.runs(A0, A1)
