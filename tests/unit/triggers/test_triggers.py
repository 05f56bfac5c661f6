"""The triggers: what is stored of them, and what ends a membership that they hold."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string  # type: ignore[attr-defined]  # as triggerers do
from airflow.triggers.base import TaskSuccessEvent
from airflow_values import group_record, group_snapshot, job, jobs_snapshot, status_snapshot
from trigger_bench import SETTINGS, SPEC, STORY, FakeTopics, Triggerer, events_of, worker_trigger
from turned_clock import time_passes
from waiting import DEADLINE_S, eventually

from airflow_provider.assignment.model import LeaveReason, Memory
from airflow_provider.assignment.policy import IMMEDIATE, Deferred
from airflow_provider.group.live import shared
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.task_instance import TaskPage
from airflow_provider.integration.memberships.worker_values import WatchSpec, WorkerSpec, WorkerStory
from airflow_provider.integration.task_failures import patience
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import BrokerAwayError
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers import resume_delay
from airflow_provider.triggers import worker as worker_module
from airflow_provider.triggers.conditions import EpochCondition
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker import holding
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.hands.standby import Standby
from airflow_provider.worker.reporting.narrator import narrated

pytestmark = pytest.mark.turned_clock

pytestmark = pytest.mark.turned_clock


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """``asyncio.timeout``, which Python 3.10 does not have."""
    task = asyncio.current_task()
    assert task is not None
    timer = asyncio.get_running_loop().call_later(seconds, task.cancel)
    try:
        yield
    finally:
        timer.cancel()


@pytest.fixture
async def triggerer(monkeypatch: pytest.MonkeyPatch) -> Triggerer:
    return Triggerer(monkeypatch)


TRIGGERS = [
    worker_trigger(push_summary=False, ends_task=False),
    GroupTrigger(kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json(), carried={"x": 1}),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=["worker", "group"])
def test_a_trigger_is_stored_as_plain_json_and_made_again_from_it(trigger: Any) -> None:
    path, arguments = trigger.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert type(again) is type(trigger)
    assert again.serialize() == trigger.serialize()
    assert arguments["v"] == 1


@pytest.mark.parametrize("trigger", TRIGGERS, ids=["worker", "group"])
def test_what_a_newer_release_has_stored_is_refused(trigger: Any) -> None:
    path, arguments = trigger.serialize()
    with pytest.raises(ValueError, match="upgrade the triggerer"):
        import_string(path)(**{**arguments, "v": 2})


class TestPause:
    """A task that is resumed within moments of deferring is taken for killed by Airflow's scheduler."""

    def test_the_pause_counts_from_the_deferral(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resume_delay, "wall_ms", lambda: 100_000)
        assert resume_delay.pause_left_s(100_000) == 7
        assert resume_delay.pause_left_s(94_000) == 1
        assert resume_delay.pause_left_s(0) == 0
        assert resume_delay.pause_left_s(200_000) == 7, "another host's clock can't make it wait for ever"

    async def test_work_waits_for_it_while_the_membership_goes_on(self) -> None:
        changed = asyncio.Event()
        released: list[Any] = []
        hands = Standby(lambda _task: True, lambda _task: False, lambda _task: True, released.append, changed.set, 0.05)
        hands.take(frozenset({TaskId("job", 0)}), Epoch(1))
        assert not hands.done
        async with _within(10):
            while not hands.done:
                await changed.wait()
                changed.clear()
        await hands.close()

    async def test_work_that_is_taken_away_meanwhile_wants_no_process(self) -> None:
        released: list[Any] = []
        hands = Standby(lambda _task: True, lambda _task: False, lambda _task: True, released.append, lambda: None, 0.0)
        task = frozenset({TaskId("job", 0)})
        hands.take(task, Epoch(1))
        hands.stop(task, "revoked")
        assert released == [task]
        assert not hands.done
        await hands.close()

    async def test_an_answer_at_once_is_told_when_it_is_over(
        self, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(resume_delay, "PAUSE_MS", 300)
        triggerer.topics.now(status=group_snapshot(3))
        trigger = GroupTrigger(
            kafka_conn_id="c",
            group="g",
            condition=EpochCondition(at_least=2).to_json(),
            deferred_at_ms=wall_ms(),
        )
        before = time.monotonic()
        assert len(await asyncio.wait_for(events_of(trigger), DEADLINE_S)) == 1
        assert time.monotonic() - before >= 0.2


class TestGroupTrigger:
    async def test_it_fires_when_the_topics_say_so_and_ends(self, triggerer: Triggerer) -> None:
        trigger = GroupTrigger(
            kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json(), carried={"x": 1}
        )
        running = asyncio.ensure_future(events_of(trigger))
        triggerer.topics.now(status=group_snapshot(1))
        triggerer.topics.now(status=group_snapshot(3))
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        assert event.payload["report"]["epoch"] == 3
        assert event.payload["carried"] == {"x": 1}
        assert event.payload["link"].startswith("http://airflow.example/")
        assert not triggerer.topics.listeners

    async def test_a_broker_that_is_away_is_waited_for(
        self, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        reachable = shared.watched_topics
        tries: list[int] = []

        def watched_topics(settings: KafkaSettings, group: str) -> Any:
            tries.append(1)
            if len(tries) < 3:
                raise BrokerAwayError("broker:9092", "reading", "refused")
            return reachable(settings, group)

        monkeypatch.setattr(shared, "watched_topics", watched_topics)
        monkeypatch.setattr(patience, "_AGAIN_S", 0.001)
        triggerer.topics.now(status=group_snapshot(3))
        trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json())
        assert len(await asyncio.wait_for(events_of(trigger), DEADLINE_S)) == 1
        assert caplog.text.count("no broker answered") == 1, "told once, not at each try"


class TestWorkerTrigger:
    async def test_when_there_is_work_it_fires_once_with_the_membership(self, triggerer: Triggerer) -> None:
        running = await triggerer.start(worker_trigger())
        assert triggerer.worker
        triggerer.worker.end(Ending.HANDED_OVER, saved={"v": 1, "member": {"epoch": 5}})
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        payload = json.loads(json.dumps(event.payload))
        assert (payload["worker"], payload["epoch"], payload["ending"]) == ("w1", 5, "handed over")
        assert payload["saved"] == {"v": 1, "member": {"epoch": 5}}
        assert payload["summary"] == {}, "it goes on: nobody looks through all tasks yet"
        assert WorkerStory.from_json(payload["story"]) == STORY
        assert "hunter2" not in json.dumps(payload)

    async def test_having_waited_in_vain_it_has_the_operator_fail_the_task(self, triggerer: Triggerer) -> None:
        running = await triggerer.start(worker_trigger())
        assert triggerer.worker
        triggerer.worker.end(Ending.IDLE, error="group g has no jobs yet")
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        assert (event.payload["ending"], event.payload["error"]) == ("idle", "group g has no jobs yet")

    @pytest.mark.parametrize("push", [True, False])
    async def test_drained_it_ends_the_task_by_itself(self, push: bool, triggerer: Triggerer) -> None:
        running = await triggerer.start(worker_trigger(push_summary=push))
        assert triggerer.worker
        triggerer.worker.end(Ending.DRAINED)
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        assert isinstance(event, TaskSuccessEvent)
        if push:
            assert triggerer.xcoms["return_value"]["ended"] == "drained"
        else:
            assert not triggerer.xcoms

    async def test_drained_it_leaves_the_end_of_a_task_with_outlets_to_a_worker(self, triggerer: Triggerer) -> None:
        """Airflow tells of updated assets only when a worker ends the task."""
        running = await triggerer.start(worker_trigger(ends_task=False))
        assert triggerer.worker
        triggerer.worker.end(Ending.DRAINED)
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        assert (event.payload["ending"], event.payload["summary"]["ended"]) == ("drained", "drained")
        assert not triggerer.xcoms

    async def test_while_another_trigger_imports_what_both_need_the_loop_goes_on(
        self, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, imported, real = threading.Event(), threading.Event(), importlib.import_module

        def import_module(name: str) -> Any:
            asked.set()
            imported.wait(DEADLINE_S)
            return real(name)

        monkeypatch.setattr(importlib, "import_module", import_module)
        running = triggerer.run(worker_trigger())
        await eventually(asked.is_set)
        assert triggerer.worker is None
        imported.set()
        await asyncio.wait_for(triggerer.held.wait(), DEADLINE_S)
        assert triggerer.worker
        triggerer.worker.end(Ending.DRAINED)
        await asyncio.wait_for(running, DEADLINE_S)

    @pytest.mark.parametrize(("option", "frozen"), [(None, []), ("False", []), ("True", ["freeze", (10_000, 4, 8)])])
    async def test_a_triggerer_is_shared_so_its_garbage_collector_is_left_alone_unless_that_is_asked_for(
        self, option: str | None, frozen: list[object], triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[object] = []
        monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
        monkeypatch.setattr(gc, "get_threshold", lambda: (700, 9, 8))
        monkeypatch.setattr(gc, "set_threshold", lambda *numbers: done.append(numbers))
        worker_module._freeze.cache_clear()
        if option is not None:
            monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__GC_FREEZE", option)
        for _ in range(2):
            triggerer.held.clear()
            running = await triggerer.start(worker_trigger())
            assert triggerer.worker
            triggerer.worker.end(Ending.DRAINED)
            await asyncio.wait_for(running, DEADLINE_S)
        worker_module._freeze.cache_clear()
        assert done == frozen * 2, "when the first worker comes, and when what it needs is loaded"

    async def test_a_membership_that_ends_badly_is_the_operators_matter(self, triggerer: Triggerer) -> None:
        running = await triggerer.start(worker_trigger())
        assert triggerer.worker
        triggerer.worker.end(Ending.FENCED, error="another process")
        (event,) = await asyncio.wait_for(running, DEADLINE_S)
        assert (event.payload["ending"], event.payload["error"]) == ("fenced", "another process")

    async def test_a_broker_that_is_away_is_waited_for(
        self, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        reachable = vars(holding)["shared_topics"]  # the stand-in
        tries: list[int] = []

        def shared_topics(settings: KafkaSettings, group: str, needs: Any) -> Any:
            tries.append(1)
            if len(tries) < 3:
                raise BrokerAwayError("broker:9092", "reading", "refused")
            return reachable(settings, group, needs)

        monkeypatch.setattr(holding, "shared_topics", shared_topics)
        monkeypatch.setattr(patience, "_AGAIN_S", 0.001)
        running = await triggerer.start(worker_trigger())
        assert triggerer.worker
        triggerer.worker.end(Ending.DRAINED)
        assert len(await asyncio.wait_for(running, DEADLINE_S)) == 1
        assert caplog.text.count("no broker answered") == 1, "told once, not at each try"

    async def test_a_triggerer_that_ends_keeps_the_membership_for_the_next(self, triggerer: Triggerer) -> None:
        trigger = worker_trigger()
        running = await triggerer.start(trigger)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert triggerer.worker
        assert not triggerer.worker.cancelled, "Airflow has not said yet what it means"
        await trigger.cleanup()
        assert triggerer.worker.cancelled, "it holds it no more, and has not left"

    @pytest.mark.parametrize("state", ["failed", "success", "skipped", "removed", None])
    async def test_a_user_who_ends_the_task_ends_the_membership(self, state: str | None, triggerer: Triggerer) -> None:
        trigger = worker_trigger()
        running = await triggerer.start(trigger)
        running.cancel("a user did it")
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await running
        if sys.version_info >= (3, 11):  # asyncio loses the message on its way up before
            assert cancelled.value.args == ("a user did it",), "by this Airflow knows that it has to call on_kill"
        triggerer.task_state = state
        await asyncio.wait_for(trigger.on_kill(), DEADLINE_S)
        assert triggerer.worker
        assert triggerer.worker.outcome.result().ending is Ending.LEFT
        assert triggerer.worker.absence.left is LeaveReason.KILLED
        await trigger.cleanup()

    async def test_a_user_who_ends_it_before_it_holds_the_membership_ends_it_too(
        self, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Airflow may take ten seconds and more for a triggerer's first look-up of a connection."""
        asked, answered = asyncio.Event(), asyncio.Event()

        async def aget_settings(_hook: SparkGroupHook) -> KafkaSettings:
            asked.set()
            await answered.wait()
            return SETTINGS

        monkeypatch.setattr(SparkGroupHook, "aget_settings", aget_settings)
        trigger = worker_trigger()
        running = triggerer.run(trigger)
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        triggerer.task_state = "failed"
        killing = asyncio.ensure_future(trigger.on_kill())
        await asyncio.sleep(0)
        assert not killing.done(), "cleanup would end the membership without leaving"
        answered.set()
        await asyncio.wait_for(killing, DEADLINE_S)
        assert triggerer.worker
        assert triggerer.worker.outcome.result().ending is Ending.LEFT
        await trigger.cleanup()

    @pytest.mark.parametrize("state", ["failed", "deferred"])
    async def test_airflow_does_not_wait_for_what_it_asked_for(
        self, state: str, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It cancels a trigger that was ended again each second, whether or not on_kill and cleanup have ended."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(worker_module, "state_of", lambda _ti: asyncio.shield(answer))
        trigger = worker_trigger()
        running = await triggerer.start(trigger)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for called in (trigger.on_kill, trigger.cleanup):
            ending = asyncio.ensure_future(called())
            await time_passes(1)
            assert not ending.done()
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
        assert triggerer.worker
        assert not triggerer.worker.outcome.done()
        answer.set_result(state)
        await eventually(lambda: triggerer.worker and (triggerer.worker.cancelled or triggerer.worker.outcome.done()))
        assert triggerer.worker.cancelled is (state == "deferred"), "a copy, which just ends"
        if state == "failed":
            assert triggerer.worker.outcome.result().ending is Ending.LEFT

    @pytest.mark.parametrize("state", ["deferred", "running", "scheduled", "queued", "up_for_retry", "restarting"])
    async def test_a_stale_copy_or_an_earlier_try_does_not_end_it(self, state: str, triggerer: Triggerer) -> None:
        trigger = worker_trigger()
        running = await triggerer.start(trigger)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        triggerer.task_state = state
        await asyncio.wait_for(trigger.on_kill(), DEADLINE_S)
        assert triggerer.worker
        assert not triggerer.worker.outcome.done()
        await trigger.cleanup()
        assert triggerer.worker.cancelled

    async def test_killed_or_cleaned_up_before_it_ran(self, triggerer: Triggerer) -> None:
        trigger = worker_trigger()
        await trigger.on_kill()
        await trigger.cleanup()
        assert triggerer.worker is None, "there is nothing to leave"
        assert triggerer.used == []


class TestPages:
    def test_a_page_tells_which_task_instance_it_shows(self) -> None:
        page = TaskPage.of(
            "http://h:1/base/dags/d.x/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00/tasks/t?try_number=3"
        )
        assert page == TaskPage(
            airflow="http://h:1/base",
            dag_id="d.x",
            run_id="manual__2026-01-01T00:00:00+00:00",
            task_id="t",
            map_index=-1,
        )
        mapped = TaskPage.of("https://h/dags/d/runs/r/tasks/t/mapped/3?try_number=1")
        assert mapped == TaskPage(airflow="https://h", dag_id="d", run_id="r", task_id="t", map_index=3)
        zeroth = TaskPage.of("https://h/dags/d/runs/r/tasks/t/mapped/0")
        assert zeroth is not None
        assert zeroth.map_index == 0

    @pytest.mark.parametrize("url", ["", "process://host/12", "http://h/dags/d", "javascript:alert(1)"])
    def test_other_urls_are_no_pages(self, url: str) -> None:
        assert TaskPage.of(url) is None


class TestValues:
    def test_plans_and_stories_are_stored_as_json(self) -> None:
        for policy in (SPEC.policy, Deferred(), IMMEDIATE):
            spec = replace(SPEC, policy=policy)
            assert WorkerSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
        watches = replace(SPEC, watches=WatchSpec(server="sc://host:15002", progress_s=1.0, max_spark_deaths=3))
        assert WorkerSpec.from_json(json.loads(json.dumps(watches.to_json()))) == watches

    def test_a_plan_that_an_older_release_stored_has_a_delay_and_no_policy(self) -> None:
        stored = {key: value for key, value in SPEC.to_json().items() if key not in ("policy", "idle_timeout_ms")}
        assert WorkerSpec.from_json(stored).policy == Deferred(max_delay_ms=1_000)
        assert WorkerSpec.from_json(stored).idle_timeout_ms is None
        assert WorkerStory.from_json(json.loads(json.dumps(STORY.to_json()))) == STORY

    def test_a_story_grows(self) -> None:
        story = WorkerStory(began_ms=1).in_epochs(None, 0).in_epochs(3, 4).deferred().in_epochs(6, 9).stopped_more(2)
        assert story == WorkerStory(began_ms=1, deferrals=1, first_epoch=3, last_epoch=9, stopped=2)


async def test_the_log_tells_each_rebalance_and_what_becomes_of_the_workers_own_tasks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    topics: Any = FakeTopics()
    jobs = jobs_snapshot(job(), tasks=3)
    running = status_snapshot(jobs, "job", TaskState.RUNNING, TaskState.RUNNING, TaskState.RUNNING, worker="w2")
    failed = status_snapshot(jobs, "job", TaskState.FAILED, TaskState.FINISHED, TaskState.RUNNING, worker="w2")
    with narrated(topics, WorkerId("w2"), already_narrated=Epoch(2)) as narrator:
        topics.now(status=StatusSnapshot(group=group_record(2)))
        await asyncio.sleep(0)
        assert caplog.text == "", "told already"
        topics.now(status=StatusSnapshot(group=group_record(3), tasks=running.tasks))
        await asyncio.sleep(0)
        lost = Memory(assignment={WorkerId("w3"): frozenset({TaskId("job", 2)})}, deadline_ms=10_000)
        topics.now(
            status=StatusSnapshot(group=group_record(4, delay_ms=5_000, moves=(), memory=lost), tasks=failed.tasks)
        )
        await asyncio.sleep(0)
        topics.now(status=StatusSnapshot(group=group_record(5, delay_ms=9_000, moves=()), tasks=failed.tasks))
    lines = caplog.messages
    assert lines[:3] == [
        "Epoch 3 (generation 3), led by w1, with 2 workers: w1, w2 (w2 joined)",
        "  job:1 moves from w1 to w2: w1 had 3 tasks, its share is 2",
        "  This worker has job:1",
    ]
    assert "  Lost tasks wait for their worker for 5 s" in lines
    assert "  The next moves wait for 9 s" in lines
    assert "Task job:0 is running (epoch 1)" in lines
    assert "Task job:1 is finished (epoch 1)" in lines
    assert any(line.startswith("Task job:0 failed: no luck with 0\n...") for line in lines), "with its traceback"
    assert (narrator.first_epoch, narrator.epoch) == (3, 5)
    assert not topics.listeners


async def test_a_worker_that_joins_anew_does_not_take_the_run_before_for_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its name is the same in each run of the DAG, and the last round of the run before still lies in the topic."""
    caplog.set_level("INFO")
    topics: Any = FakeTopics()
    topics.now(status=StatusSnapshot(group=group_record(4)))
    applied = [Epoch(0)]
    with narrated(topics, WorkerId("w2"), already_narrated=Epoch(0), applied=lambda: applied[0]) as narrator:
        await asyncio.sleep(0)
        assert caplog.text == ""
        topics.now(status=StatusSnapshot(group=group_record(5)))
        await asyncio.sleep(0)
        assert caplog.text == "", "the group has gone on without it"
        applied[0] = Epoch(6)
        topics.now()
        await asyncio.sleep(0)
        assert caplog.text == "", "it was told of the round before the topic was"
        topics.now(status=StatusSnapshot(group=group_record(6)))
        await asyncio.sleep(0)
    assert caplog.messages[0].startswith("Epoch 6 ")
    assert (narrator.first_epoch, narrator.epoch) == (6, 6)


async def test_a_worker_that_is_back_in_time_tells_the_epoch_that_it_goes_on_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There was no round: its coordinator gave it the last one again."""
    caplog.set_level("INFO")
    topics: Any = FakeTopics()
    topics.now(status=group_snapshot(4))
    applied = [Epoch(0)]
    with narrated(topics, WorkerId("w2"), already_narrated=Epoch(0), applied=lambda: applied[0]) as narrator:
        await asyncio.sleep(0)
        applied[0] = Epoch(4)
        topics.now()  # its own record says that it has applied it
        await asyncio.sleep(0)
        assert "  This worker has job:1" in caplog.messages
    assert narrator.first_epoch == 4
