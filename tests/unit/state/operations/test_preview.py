"""What a plan would change, and to whom its tasks would go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record
from stand_ins import MemoryTopics

from airflow_provider.state.operations.operations import HaltJob
from airflow_provider.state.operations.preview import Change, Preview, preview
from airflow_provider.state.records import (
    Halt,
    JobDefinition,
    JobError,
    PlanRecord,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, TaskId, WorkerId

JOB = JobDefinition(name="etl", entry_point="m:f", max_tasks=9, run_key="r1")
W1, W2 = WorkerId("w1"), WorkerId("w2")
GOES_ON, NEW, ANEW, FINISHED = Change.GOES_ON, Change.NEW, Change.STARTS_ANEW, Change.FINISHED


def group(tasks: int = 3, *, workers: int = 2, finished: int = 0) -> MemoryTopics:
    """A group whose first worker runs all tasks of the job."""
    topics = MemoryTopics()

    async def write() -> None:
        await topics.submit(JOB)
        plan = PlanRecord.of(JOB, [{"i": index} for index in range(tasks)], planned_by=W1, at_ms=0)
        await topics.publish_plan(plan)
        for index in range(tasks):
            await topics.publish_task(
                TaskStatus(
                    task=TaskId("etl", index),
                    state=TaskState.FINISHED if index < finished else TaskState.RUNNING,
                    epoch=Epoch(3),
                    worker=W1,
                    run_key="r1",
                    fingerprint=plan.fingerprints[index],
                )
            )
        if workers:
            names = [WorkerId(f"w{number + 1}") for number in range(workers)]
            has: dict[WorkerId, Any] = dict.fromkeys(names, frozenset[TaskId]())
            has[W1] = frozenset(TaskId("etl", index) for index in range(finished, tasks))
            members = {name: MemberId(f"{name}-member") for name in names}
            record = group_record(3, assignment=has, members=members, moves=(), config_offset=ConfigOffset(99))
            await topics.publish_group(record)

    asyncio.run(write())
    return topics


def would(topics: MemoryTopics, definition: JobDefinition, *configs: dict[str, Any]) -> Preview:
    before = topics.jobs, topics.status
    made = preview(definition, configs, topics.jobs, topics.status, at_ms=9)
    assert (topics.jobs, topics.status) == before
    return made


def changes(made: Preview) -> list[Change]:
    return [task.change for task in made.tasks]


def test_a_new_job_goes_to_those_who_have_least() -> None:
    made = would(group(2), replace(JOB, name="more"), {"table": "a", "name": "first"}, {"table": "b"})
    assert [(task.name, task.change, task.worker) for task in made.tasks] == [("first", NEW, W2), ("", NEW, W2)]
    assert made.moved == ()


def test_what_has_to_make_room_is_named() -> None:
    made = would(group(3), replace(JOB, name="more"), {})
    assert len(made.moved) == 1
    assert made.lines()[-1] == f"  {made.moved[0]}: would move"


def test_where_nobody_is_nobody_would_have_it() -> None:
    made = would(group(1, workers=0), replace(JOB, name="more"), {"a": 1})
    assert made.lines() == [
        "more: 1 task; nothing is written",
        "  more:0: new, on nobody: the group is empty: {'a': 1}",
    ]


def test_an_alteration_starts_what_it_changes_anew_and_leaves_the_rest_where_it_is() -> None:
    altered = replace(JOB, config={"new": 1}, basis=JOB.fingerprint)
    made = would(group(3, workers=1), altered, {"i": 0}, {"i": "other"})
    assert changes(made) == [GOES_ON, ANEW]
    assert made.gone == (TaskId("etl", 2),)
    assert {task.worker for task in made.tasks} == {W1}


def test_another_definition_starts_all_anew_and_another_run_too() -> None:
    topics = group(2)
    assert changes(would(topics, replace(JOB, config={"new": 1}), {"i": 0}, {"i": 1})) == [ANEW, ANEW]
    assert changes(would(topics, replace(JOB, run_key="r2"), {"i": 0}, {"i": 1})) == [ANEW, ANEW]


def test_what_has_finished_stays_so_and_goes_to_nobody() -> None:
    made = would(group(2, finished=1), JOB, {"i": 0}, {"i": 1})
    assert [(task.change, task.worker) for task in made.tasks] == [(FINISHED, None), (GOES_ON, W1)]


def test_a_job_that_is_stopped_is_shown_as_if_it_were_resumed() -> None:
    topics = group(1)
    asyncio.run(topics.carry_out(HaltJob(job="etl", halt=Halt.STOPPED), by="me"))
    assert [task.worker for task in would(topics, JOB, {"i": 0}).tasks] == [W1]


def test_who_drains_is_given_nothing() -> None:
    topics = group(1)
    drains = WorkerStatus(worker=W2, state=WorkerPhase.STABLE, epoch=Epoch(3), slots=0, member_id=MemberId("w2-member"))
    asyncio.run(topics.publish_worker(drains))
    assert [task.worker for task in would(topics, replace(JOB, name="more"), {}).tasks] == [W1]


def test_a_plan_that_would_be_refused_is_refused() -> None:
    with pytest.raises(JobError, match="returned 2 tasks, but max_tasks is 1"):
        would(group(1), replace(JOB, max_tasks=1), {}, {})


def test_it_is_there_as_json() -> None:
    made = would(group(1), JOB, {"i": 0})
    assert made.to_json() == {
        "job": "etl",
        "tasks": [{"index": 0, "name": "", "config": {"i": 0}, "change": "goes on", "worker": "w1"}],
        "gone": [],
        "moved": [],
    }
