"""A group with more streams than slots says so, because one of them waits for ever."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from busy_group import coordinator
from group_records import record_of
from rich.console import Console
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import render
from airflow_provider.state.records import (
    Halt,
    HaltRecord,
    JobDefinition,
    PlanRecord,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.report import GroupReport
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Placed
from airflow_provider.state.views.slots.capacity import SlotShortage, slot_shortage
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import PLANNER_INDEX, Epoch, MemberId, TaskId, WorkerId
from airflow_provider.worker.reporting.narrator import Narrator

W1, W2 = WorkerId("w1"), WorkerId("w2")
STREAM = JobDefinition(name="s", entry_point="m:f", max_tasks=9, kind=TaskKind.STREAMING)
GROUP = record_of(members={W1: MemberId("1"), W2: MemberId("2")}, leader=W1)
SAID = "3 streams, 2 slots: 1 of them waits for ever, unless another one ends; add workers, or give them more slots"


def plan_of(job: JobDefinition, tasks: int, slots: int = 1) -> PlanRecord:
    configs = [{"i": index, "slots": slots} for index in range(tasks)]
    return PlanRecord.of(job, configs, planned_by=W1, at_ms=0)


def jobs_of(*jobs: JobDefinition, tasks: int = 3, slots: int = 1) -> JobsSnapshot:
    plans = {job.name: plan_of(job, tasks, slots) for job in jobs}
    return JobsSnapshot(jobs={job.name: job for job in jobs}, plans=plans)


def worker(name: WorkerId, slots: int = 1, state: WorkerPhase = WorkerPhase.STABLE) -> WorkerStatus:
    return WorkerStatus(worker=name, state=state, epoch=GROUP.epoch, slots=slots)


def status_of(*workers: WorkerStatus, tasks: dict[TaskId, TaskStatus] | None = None) -> StatusSnapshot:
    return StatusSnapshot(group=GROUP, workers={each.worker: each for each in workers}, tasks=tasks or {})


SHORT = status_of(worker(W1), worker(W2))


def test_all_streams_and_all_slots_count() -> None:
    assert slot_shortage(jobs_of(STREAM), SHORT) == SlotShortage(unbounded=3, wanted=3, slots=2)
    assert slot_shortage(jobs_of(STREAM, replace(STREAM, name="t")), SHORT) == SlotShortage(
        unbounded=6, wanted=6, slots=2
    )
    assert slot_shortage(jobs_of(STREAM), status_of(worker(W1, 2), worker(W2))) is None
    assert slot_shortage(jobs_of(STREAM, tasks=2), SHORT) is None


@pytest.mark.parametrize(
    ("tasks", "slots", "workers", "short"),
    [
        (2, 2, (2, 2), None),
        (2, 9, (2, 2), None),
        (3, 2, (2, 2), SlotShortage(unbounded=3, wanted=6, slots=4)),
        (1, 3, (2, 2), None),
    ],
    ids=["each has what it wants", "nobody has more", "one has less", "a worker has no more"],
)
def test_a_stream_counts_for_at_most_the_slots_of_one_worker(
    tasks: int, slots: int, workers: tuple[int, int], short: SlotShortage | None
) -> None:
    status = status_of(worker(W1, workers[0]), worker(W2, workers[1]))
    found = slot_shortage(jobs_of(STREAM, tasks=tasks, slots=slots), status)
    assert found == short
    assert found is None or found.in_words() == (
        "3 streams that want 6 slots, 4 slots: some have fewer than they want, or wait for ever, unless others end; add"
        " workers, or give them more slots"
    )


def test_bounded_tasks_do_not_count() -> None:
    assert slot_shortage(jobs_of(replace(STREAM, kind=TaskKind.BATCH)), SHORT) is None
    failed = TaskStatus(task=TaskId("s", 0), state=TaskState.FAILED, epoch=Epoch(1), worker=W1)
    assert slot_shortage(jobs_of(STREAM), status_of(worker(W1), worker(W2), tasks={failed.task: failed})) is None


def test_paused_jobs_do_not_count() -> None:
    paused = Placed(record=HaltRecord(job="s", halt=Halt.PAUSED, by="me", at_ms=0), offset=7)
    assert slot_shortage(replace(jobs_of(STREAM), halts={"s": paused}), SHORT) is None
    both = replace(jobs_of(STREAM, replace(STREAM, name="t")), halts={"s": paused})
    assert slot_shortage(both, SHORT) == SlotShortage(unbounded=3, wanted=3, slots=2)


@pytest.mark.parametrize(("adopted", "missing"), [(3, None), (2, 1), (1, 1)])
def test_adopted_streams_beyond_the_slots_do_not_wait(adopted: int, missing: int | None) -> None:
    handle = {"server": "sc://spark:15002", "session_id": "s"}
    running = [
        TaskStatus(task=TaskId("s", index), state=TaskState.RUNNING, epoch=Epoch(1), worker=W1, handle=handle)
        for index in range(adopted)
    ]
    status = status_of(worker(W1), worker(W2), tasks={last.task: last for last in running})
    found = slot_shortage(jobs_of(STREAM), status)
    assert (None if found is None else found.missing) == missing
    one = status_of(worker(W1), tasks={last.task: last for last in running})
    alone = slot_shortage(jobs_of(STREAM), replace(one, group=replace(GROUP, members={W1: MemberId("1")})))
    assert (0 if alone is None else alone.missing) == 3 - adopted


@pytest.mark.parametrize(("ended", "short"), [(0, False), (PLANNER_INDEX, True)], ids=["a stream", "the planner"])
def test_a_job_of_which_a_stream_has_ended_does_not_count(ended: int, *, short: bool) -> None:
    finished = TaskStatus(task=TaskId("s", ended), state=TaskState.FINISHED, epoch=Epoch(1), worker=W1)
    status = status_of(worker(W1), worker(W2), tasks={finished.task: finished})
    assert (slot_shortage(jobs_of(STREAM, tasks=5), status) is not None) is short


@pytest.mark.parametrize(
    "workers",
    [(worker(W1),), (), tuple(worker(name, state=WorkerPhase.LEFT) for name in (W1, W2))],
    ids=["one has not said", "nobody has said", "all have left"],
)
def test_nothing_is_reported_while_slots_are_unknown(workers: tuple[WorkerStatus, ...]) -> None:
    assert slot_shortage(jobs_of(STREAM), status_of(*workers)) is None


def spread(*shares: tuple[WorkerId, int, int]) -> StatusSnapshot:
    """The streams of a job, spread over workers.

    :param shares: of each worker its name, how many streams it has, and how many slots
    """
    tasks = iter(range(99))
    owned = {name: frozenset(TaskId("s", next(tasks)) for _ in range(number)) for name, number, _ in shares}
    return replace(status_of(*(worker(name, slots) for name, _, slots in shares)), group=record_of(owned))


def test_streams_wait_where_slots_are_fewer_than_the_even_share() -> None:
    found = slot_shortage(jobs_of(STREAM, tasks=8), spread((W1, 4, 20), (W2, 4, 3)))
    assert found is not None
    assert found.missing == 1
    assert found.in_words() == (
        "8 streams, 23 slots, but some workers have more streams than slots: some wait for ever (1 on w2), unless"
        " others end; give all workers the same slots"
    )


def test_streams_that_a_rebalance_will_move_do_not_wait_for_ever() -> None:
    assert slot_shortage(jobs_of(STREAM, tasks=8), spread((W1, 2, 20), (W2, 6, 5))) is None
    even = spread((W1, 4, 20), (W2, 4, 3))
    assert even.group is not None
    revoking = replace(even, group=replace(even.group, revoked={W1: frozenset({TaskId("s", 0)})}))
    assert slot_shortage(jobs_of(STREAM, tasks=8), revoking) is None


def test_adopted_streams_run_beyond_the_slots_of_their_worker() -> None:
    even = spread((W1, 4, 20), (W2, 4, 3))
    assert even.group is not None
    handle = {"server": "sc://spark:15002", "session_id": "s"}
    running = {
        task: TaskStatus(task=task, state=TaskState.RUNNING, epoch=Epoch(1), worker=W2, handle=handle)
        for task in even.group.owned_by(W2)
    }
    assert slot_shortage(jobs_of(STREAM, tasks=8), replace(even, tasks=running)) is None


def test_the_status_and_the_report_show_the_shortage() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(render("g", jobs_of(STREAM), SHORT, wall_ms=0))
    assert SAID in shown.get()
    assert f"  {SAID}" in as_lines(describe(coordinator("w1", "w2"), jobs_of(STREAM), SHORT))
    report = GroupReport.of(jobs_of(STREAM), SHORT)
    assert report is not None
    assert report.to_json()["short_of_slots"] == {"unbounded": 3, "wanted": 3, "slots": 2, "taken": 0, "stuck": {}}


@pytest.mark.parametrize(("me", "says"), [(W1, 1), (W2, 0)], ids=["the leader", "another"])
async def test_the_leader_warns_when_it_assigns_the_tasks(
    caplog: pytest.LogCaptureFixture, me: WorkerId, says: int
) -> None:
    topics = MemoryTopics()
    for each in SHORT.workers.values():
        await topics.publish_worker(each)
    await topics.submit(STREAM)
    await topics.publish_plan(plan_of(topics.jobs.jobs["s"], 3))
    await topics.publish_group(GROUP)
    narrator = Narrator(topics, me, Epoch(0))
    with caplog.at_level(logging.WARNING, "airflow_provider.worker.reporting.narrator"):
        narrator.tell()
        await topics.publish_group(replace(GROUP, epoch=Epoch(GROUP.epoch + 1)))
        narrator.tell()
    assert [record.getMessage() for record in caplog.records] == [SAID] * says, "said once"
