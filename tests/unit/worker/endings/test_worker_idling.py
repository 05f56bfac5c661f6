"""A worker in a group that has nothing to run: what it says of that, and how long it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from airflow_values import job, jobs_snapshot, status_snapshot
from rich.console import Console
from trigger_bench import SPEC
from turned_clock import time_passes
from waiting import eventually
from worker_life import A0, LONG, ME, Life

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.cli.group_commands.status import render
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.topics.errors import BrokerAwayError
from airflow_provider.state.records import TaskKind, TaskState, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import why_idle
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.endings import idling as idling_module
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.settings import Until

pytestmark = pytest.mark.turned_clock


def test_a_group_is_idle_without_jobs_and_when_none_has_anything_left_to_run() -> None:
    assert why_idle(JobsSnapshot(), {}) == "has no jobs yet"
    unplanned = jobs_snapshot(job())
    assert why_idle(unplanned, {}) is None
    known = jobs_snapshot(job(), tasks=2)
    for states, idle in (
        ((TaskState.FINISHED, TaskState.RUNNING), None),
        ((TaskState.FINISHED,), None),
        ((TaskState.FINISHED, TaskState.FAILED), "has nothing left to run"),
    ):
        assert why_idle(known, status_snapshot(known, "job", *states).tasks) == idle


async def test_a_worker_in_a_group_without_jobs_says_so_and_gives_up_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    life = Life(until=Until.DRAINED, idle_timeout_ms=150)
    life.begin()
    outcome = await life.outcome()
    assert outcome.ending is Ending.IDLE
    assert outcome.error == "group g has no jobs yet: waited 0.15 s for something to run (idle timeout)"
    assert life.coordinator.left == [outcome.error]
    assert life.phase is WorkerPhase.LEFT
    assert life.topics.status.workers[ME].left is LeaveReason.STOPPED, "nobody waits for it"
    assert caplog.messages.count("Group g has no jobs yet: this worker waits for something to run, 0.15 s at most") == 1


async def test_without_a_limit_it_waits_on_and_says_so_every_ten_minutes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    life = Life(member=LONG)
    life.linger_s = 7_200
    life.begin()
    await time_passes(3_590)
    assert caplog.messages.count("Group g has no jobs yet: this worker waits for something to run") == 6
    assert not life.ended
    await life.cancel()


@pytest.mark.parametrize("until", list(Until))
async def test_work_ends_the_waiting_and_what_is_left_when_it_is_done_counts_anew(until: Until) -> None:
    life = Life(until=until, idle_timeout_ms=5_000, member=LONG)
    life.begin()
    await life.submit(tasks=1, kind=TaskKind.BATCH if until is Until.FOREVER else TaskKind.STREAMING)
    await life.runs(A0)
    await time_passes(3_600)
    assert not life.ended, "it runs something"
    life.runner.finish(A0)
    finished = now_ms()
    outcome = await life.outcome()
    assert outcome.ending is Ending.IDLE
    assert outcome.error is not None
    assert outcome.error.startswith("group g has nothing left to run")
    assert 5_000 <= now_ms() - finished < 5_100


@pytest.mark.parametrize(
    ("since_s", "gives_up"), [(3_600, True), (0, False), (-3_600, False)], ids=["over", "begun", "another clock"]
)
async def test_the_time_goes_on_when_the_membership_does(since_s: int, gives_up: bool) -> None:
    """A worker that waits is deferred: its time runs in the triggerer, and in the one that takes over from that."""
    first = Life()
    first.linger_s = 0.0
    first.begin()
    handed_over = await first.outcome()
    assert handed_over.ending is Ending.HANDED_OVER
    assert handed_over.saved is not None
    assert abs(handed_over.saved["idle_since_ms"] - wall_ms()) < 10_000

    second = Life(idle_timeout_ms=600_000, phase=WorkerPhase.DEFERRED)
    second.topics, second.coordinator = first.topics, first.coordinator
    second.begin({**handed_over.saved, "idle_since_ms": wall_ms() - since_s * 1_000})
    if gives_up:
        assert (await second.outcome()).ending is Ending.IDLE
    else:
        await eventually(lambda: second.phase is WorkerPhase.DEFERRED)
        assert not second.ended
        await second.cancel()


async def test_what_others_have_run_meanwhile_counts_though_it_was_not_told() -> None:
    """A triggerer that takes over has what the task's process saved when it deferred, maybe days ago."""
    life = Life(idle_timeout_ms=600_000)
    known = jobs_snapshot(job(), tasks=1)
    statuses = [
        replaced(status, finished_at_ms=wall_ms())
        for status in status_snapshot(known, "job", TaskState.FINISHED).tasks.values()
    ]
    idling = idling_module.Idling(life.settings, lambda: None)
    idling.go_on(wall_ms() - 3_600_000, "has nothing left to run", statuses)
    assert idling.overdue("has nothing left to run") is None
    idling.close()


class Behind(Life):
    """A worker that has not read what was written while its process was suspended."""

    def __init__(self) -> None:
        super().__init__(idle_timeout_ms=5_000, member=LONG)
        self.caught_up_at: list[int] = []

    async def begins(self, came: Callable[[], Awaitable[None]]) -> None:
        """:param came: writes what it has not read"""
        self.begin()
        await time_passes(1)
        catch_up = self.topics.catch_up

        async def late(*, timeout_s: float | None = None) -> None:
            self.caught_up_at.append(now_ms())
            self.topics.catch_up = catch_up  # type: ignore[method-assign]
            try:
                await came()
            finally:
                self.topics.catch_up = late  # type: ignore[method-assign]

        self.topics.catch_up = late  # type: ignore[method-assign]


async def test_it_does_not_give_up_before_it_has_read_what_came_while_it_was_suspended() -> None:
    life = Behind()
    await life.begins(lambda: life.submit(tasks=1, kind=TaskKind.STREAMING))
    await time_passes(60)
    assert not life.ended
    await life.runs(A0)
    await life.cancel()


async def test_what_others_have_run_meanwhile_counts_for_one_that_was_suspended() -> None:
    life = Behind()
    known = status_snapshot(jobs_snapshot(job(), tasks=1), "job", TaskState.FINISHED)

    async def ended_elsewhere() -> None:
        if len(life.caught_up_at) == 1:
            for ended in known.tasks.values():
                await life.topics.publish_task(replaced(ended, finished_at_ms=wall_ms() - 2_000))

    await life.begins(ended_elsewhere)
    assert (await life.outcome()).ending is Ending.IDLE
    first, second = life.caught_up_at
    assert 2_900 <= second - first <= 3_100


async def test_it_does_not_give_up_while_no_broker_answers() -> None:
    life = Behind()

    async def away() -> None:
        if len(life.caught_up_at) < 10:
            raise BrokerAwayError("nowhere:9", "looking", "")

    await life.begins(away)
    await time_passes(30)
    assert not life.ended
    assert (await life.outcome()).ending is Ending.IDLE
    assert len(life.caught_up_at) == 10


def test_what_a_deferred_worker_lives_by_has_the_limit() -> None:
    assert SPEC.settings(WorkerPhase.DEFERRED).idle_timeout_ms == SPEC.idle_timeout_ms == 600_000


def test_the_status_page_says_it() -> None:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(render("typo", JobsSnapshot(), StatusSnapshot(), wall_ms=0))
    assert "typo has no jobs yet" in captured.get()
