"""How a leader watches over its group between rounds: when it looks, what it asks for, and that it stops in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of
from led_group import EPOCH, Group
from turned_clock import time_passes
from waiting import DEADLINE_S, eventually

from airflow_provider.assignment.learners.model import LearnerMemory, Limits
from airflow_provider.assignment.model import LeaveReason, Memory
from airflow_provider.group.live.classic import leader_watch
from airflow_provider.group.live.classic.leader_watch import LeaderWatch
from airflow_provider.group.live.classic.leading import unassigned_work
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import JobDefinition, StreamProgress, WorkerPhase, WorkerStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, MemberId, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

pytestmark = pytest.mark.turned_clock

A0, A1 = TaskId("a", 0), TaskId("a", 1)
W1, W2 = WorkerId("w1"), WorkerId("w2")


class Topics:
    """What the watch reads of a :class:`GroupTopics`; the real one needs a broker."""

    def __init__(self, group: Group) -> None:
        self.jobs = group.jobs
        self.status = group.status

        self.listening = 0

    def subscribe(self, _listener: Callable[[], None]) -> Callable[[], None]:
        self.listening += 1

        def stop() -> None:
            self.listening -= 1

        return stop

    def submit(self, name: str) -> None:
        self.jobs = replace(self.jobs, jobs={**self.jobs.jobs, name: JobDefinition(name=name, entry_point="m:f")})


class Watched:
    """A watch over a group, and what it asked for."""

    def __init__(self, group: Group) -> None:
        self.topics = Topics(group)
        topics: Any = self.topics
        self.record: ClassicRecord | None = group.record
        self.asked: list[str] = []
        self.watch = LeaderWatch(
            topics,
            limits=Limits(),
            record=lambda: self.record,
            want=self.asked.append,
            mend=lambda: self.asked.append("mend"),
            spawn=self._spawn,
        )
        self.spawned: list[asyncio.Task[None]] = []

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self.spawned.append(task)
        return task

    async def asks(self, reason: str) -> None:
        await eventually(lambda: reason in self.asked, reason)

    async def asks_nothing(self) -> None:
        await time_passes(30)
        assert self.asked == []


async def test_only_a_leader_asks() -> None:
    watched = Watched(Group({"w1": "r"}))
    watched.topics.submit("b")
    watched.watch.look()
    await watched.asks_nothing()
    watched.watch.lead(True)
    await watched.asks("new work: b:planner")
    watched.watch.close()


async def test_a_new_leader_looks_without_being_told_that_anything_changed() -> None:
    watched = Watched(Group({"w1": "r p", "w2": ""}))
    watched.watch.lead(True)
    await watched.asks("a worker has a slot free while tasks wait elsewhere")
    watched.watch.close()


async def test_of_a_worker_that_drains_is_said_that_tasks_wait_there() -> None:
    watched = Watched(Group({"w1": "r", "w2": "r p"}))
    w2, state = WorkerId("w2"), WorkerPhase.STABLE
    owned = frozenset({TaskId("a", 1), TaskId("a", 2)})
    drains = WorkerStatus(worker=w2, state=state, epoch=EPOCH, slots=0, member_id=MemberId("w2"), owned=owned)
    watched.topics.status = replace(watched.topics.status, workers={w2: drains})
    watched.watch.lead(True)
    await watched.asks("tasks wait at a worker that drains")
    watched.watch.close()


async def test_whoever_is_heard_to_have_left_after_it_was_missed_is_waited_for_no_longer() -> None:
    memory = Memory(assignment={W1: frozenset({A0}), W2: frozenset({A1})}, deadline_ms=wall_ms() + 600_000)
    watched = Watched(Group({"w1": "r"}, memory=memory))
    left = WorkerStatus(worker=W2, state=WorkerPhase.LEFT, epoch=EPOCH, slots=1, left=LeaveReason.STOPPED)
    watched.watch.lead(True)
    await watched.asks_nothing()
    watched.topics.status = replace(watched.topics.status, workers={W2: left})
    watched.watch.look()
    await watched.asks("w2 will not return")
    watched.watch.close()


async def test_what_is_assigned_is_told_by_the_member_and_not_by_the_topic_which_may_be_behind() -> None:
    watched = Watched(Group({"w1": "r"}))
    watched.topics.submit("b")
    watched.record = record_of({W1: frozenset({A0, planner_of("b")})})
    watched.watch.lead(True)
    watched.watch.look()
    await watched.asks_nothing()
    watched.watch.close()


async def test_what_is_learned_of_a_job_that_was_removed_gives_its_place_to_others() -> None:
    gone = TaskId("gone", 0)
    watched = Watched(Group({"w1": "s", "w2": ""}))
    watched.record = record_of({W1: frozenset({A0, gone}), W2: NO_TASKS}, learning={W2: frozenset({gone})})
    watched.watch.lead(True)
    await watched.asks("a learned task no longer exists")
    watched.watch.close()


async def test_what_is_learned_and_still_there_is_left_alone() -> None:
    watched = Watched(Group({"w1": "s", "w2": ""}))
    watched.record = record_of({W1: frozenset({A0}), W2: NO_TASKS}, learning={W2: frozenset({A0})})
    watched.watch.lead(True)
    await watched.asks_nothing()
    watched.watch.close()


async def test_new_work_does_not_wait_until_a_dry_worker_may_be_helped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_watch, "_BETWEEN_HELPS_S", 60.0)
    watched = Watched(Group({"w1": "r p", "w2": ""}))
    watched.watch.lead(True)
    await watched.asks("a worker has a slot free while tasks wait elsewhere")
    watched.watch.look()
    await time_passes(30)
    assert len(watched.asked) == 1, "not again so soon"
    watched.topics.submit("b")
    watched.watch.look()
    await time_passes(0.1)
    assert watched.asked[1:] == ["new work: b:planner"]
    watched.watch.close()


async def test_a_slot_that_is_free_again_is_noticed_within_half_a_second() -> None:
    watched = Watched(Group({"w1": "r p", "w2": ""}))
    watched.watch.lead(True)
    await time_passes(0.1)
    assert len(watched.asked) == 1
    watched.watch.look()
    await time_passes(0.5)
    assert watched.asked == ["a worker has a slot free while tasks wait elsewhere"] * 2, "without another change"
    watched.watch.close()


async def test_a_failed_task_is_tried_elsewhere_and_many_of_them_in_few_rounds() -> None:
    watched = Watched(Group({"w1": "p p", "w2": "s"}))
    status = watched.topics.status
    assert watched.record is not None
    workers = {
        name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=9, owned=owned)
        for name, owned in watched.record.assignment.items()
    }
    well = replaced(status.tasks[TaskId("a", 2)], progress=StreamProgress(batch=1, rows_per_second=1.0, at_ms=0))
    watched.topics.status = replace(status, workers=workers, tasks={**status.tasks, well.task: well})
    watched.watch.lead(True)
    await time_passes(1)
    assert "a task that has failed is tried on another worker" not in watched.asked
    failed = {task: replaced(status.tasks[task], failures=1, failed_on=(W1,)) for task in (A0, A1)}
    watched.topics.status = replace(watched.topics.status, tasks={**failed, well.task: well})
    for _ in range(20):
        watched.watch.look()
        await time_passes(0.5)
    assert watched.asked.count("a task that has failed is tried on another worker") in (2, 3), "in ten seconds"
    watched.watch.close()


async def test_records_that_a_stale_one_was_written_over_are_mended() -> None:
    watched = Watched(Group({"w1": "r"}))
    task = next(iter(watched.topics.status.tasks.values()))
    watched.topics.status = replace(watched.topics.status, overwritten={"task:a:0": task})
    watched.watch.lead(True)
    await watched.asks("mend")
    watched.watch.close()


async def test_a_leader_looks_after_the_topics_each_minute_also_if_it_never_leads_for_so_long() -> None:
    watched = Watched(Group({"w1": "r"}))
    for _ in range(150):
        watched.watch.lead(True)
        await time_passes(0.5)
        watched.watch.lead(False)
        await time_passes(0.5)
    assert watched.asked == ["mend"] * 2
    watched.watch.lead(True)
    await time_passes(100)
    assert watched.asked == ["mend"] * 4
    watched.watch.close()


async def test_a_closed_watch_asks_nothing() -> None:
    watched = Watched(Group({"w1": "r p", "w2": ""}))
    watched.watch.lead(True)
    watched.watch.close()
    await watched.asks_nothing()


class Slow:
    """In the place of the look for new work: it takes until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self._go_on = threading.Event()
        monkeypatch.setattr(leader_watch, "unassigned_work", self._look)

    def _look(self, jobs: JobsSnapshot, status: StatusSnapshot) -> str | None:
        self.begun += 1
        assert self._go_on.wait(DEADLINE_S), "the loop waits for this, and this for the loop"
        return unassigned_work(jobs, status)

    def go_on(self) -> None:
        self._go_on.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow(monkeypatch)
    yield made
    made.go_on()


def large() -> Watched:
    watched = Watched(Group({"w1": "r " * 2_500}))
    watched.watch.lead(True)
    return watched


async def test_the_loop_goes_on_while_it_looks_through_very_many_tasks(slow: Slow) -> None:
    watched = large()
    watched.topics.submit("b")
    await eventually(lambda: slow.begun)
    slow.go_on()
    await watched.asks("new work: b:planner")
    watched.watch.close()


async def test_each_learner_that_takes_too_long_is_noticed_also_behind_one_that_is_left_alone() -> None:
    """The last round has seen the first of them, and has let it go on."""
    watched, now = Watched(Group({"w1": "r"})), wall_ms()
    assert watched.record is not None
    longest_ms = Limits().longest_ms
    since = {A0: now - 2 * longest_ms, A1: now - longest_ms - 1}
    memory = LearnerMemory(since_ms={WorkerId("w2"): since})
    watched.record = replace(watched.record, at_ms=now - 5_000, learner_memory=memory)
    watched.watch.lead(True)
    await watched.asks("a task has been learned for too long")
    watched.watch.close()


async def test_what_changes_while_it_looks_is_looked_at_next(slow: Slow) -> None:
    watched = large()
    await eventually(lambda: slow.begun)
    watched.topics.submit("b")
    watched.watch.look()
    watched.watch.look()
    await time_passes(0.1)
    assert slow.begun == 1, "one look at a time"
    slow.go_on()
    await watched.asks("new work: b:planner")
    watched.watch.close()


async def test_what_it_finds_when_it_leads_no_longer_is_of_no_concern(slow: Slow) -> None:
    watched = large()
    watched.topics.submit("b")
    await eventually(lambda: slow.begun)
    watched.watch.lead(False)
    slow.go_on()
    await watched.asks_nothing()
    watched.watch.close()


async def test_a_fault_of_the_look_is_told_to_whoever_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The membership ends then: a leader that has stopped to look must not seem to lead."""
    monkeypatch.setattr(leader_watch, "unassigned_work", lambda _jobs, _status: 1 // 0)
    watched = Watched(Group({"w1": "r"}))
    watched.watch.lead(True)
    (watching,) = watched.spawned
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(watching, DEADLINE_S)
    watched.watch.close()


async def test_only_while_it_leads_it_listens() -> None:
    """In a group of a thousand, all but one are spared every word of every worker."""
    watched = Watched(Group({"w1": "r"}))
    assert watched.topics.listening == 0
    watched.watch.lead(True)
    watched.watch.lead(True)
    assert watched.topics.listening == 1
    watched.watch.lead(False)
    assert watched.topics.listening == 0
    watched.watch.lead(True)
    watched.watch.close()
    watched.watch.close()
    assert watched.topics.listening == 0
