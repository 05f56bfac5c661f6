"""What has failed for good is tried again: asked for by name, or by submitting the job once more."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from job_topics import topics_with
from stand_ins import MemoryTopics

from airflow_provider.kafka.topics.topic_writer import Submission
from airflow_provider.state.operations.operations import NoJobError, OperationError
from airflow_provider.state.records import JobDefinition, TaskFailure, TaskKind, TaskState, TaskStatus
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

ME = WorkerId("w1")
STREAM = JobDefinition(name="copy", entry_point="m:f", max_tasks=9, kind=TaskKind.STREAMING)
FAILED, RUNNING, FINISHED = TaskState.FAILED, TaskState.RUNNING, TaskState.FINISHED


def say(topics: MemoryTopics, status: TaskStatus) -> None:
    async def write() -> None:
        await topics.publish_task(status)

    asyncio.run(write())


def submit(topics: MemoryTopics, job: JobDefinition) -> Submission:
    return asyncio.run(topics.submit(job))


@pytest.mark.parametrize(
    "changes", [{}, {"retries": 5}], ids=["the same again", "the same work, with another policy for retries"]
)
def test_submitting_what_has_failed_has_it_tried_again(changes: dict[str, Any]) -> None:
    topics = topics_with(STREAM, FAILED, RUNNING, FAILED)
    submission = submit(topics, dataclasses.replace(STREAM, **changes))
    assert submission.retried == (TaskId("copy", 0), TaskId("copy", 2))
    assert {TaskId("copy", 0), TaskId("copy", 2)} <= configured(topics.jobs, topics.status.tasks)
    again = topics.status.tasks[TaskId("copy", 0)]
    assert (again.attempt, again.failures, again.error) == (4, 0, TaskFailure.of("boom"))
    assert topics.status.tasks[TaskId("copy", 1)].state is RUNNING
    assert submit(topics, STREAM).retried == (), "it has not failed since"


def test_a_planner_that_has_failed_plans_again() -> None:
    topics = topics_with(STREAM)
    say(topics, TaskStatus(task=planner_of("copy"), state=FAILED, epoch=Epoch(4), worker=ME, failures=1))
    assert submit(topics, STREAM).retried == (planner_of("copy"),)


def test_what_failed_in_another_run_or_another_form_is_left_alone() -> None:
    job = dataclasses.replace(STREAM, kind=TaskKind.BATCH, run_key="monday")
    topics = topics_with(job, FAILED, FINISHED)
    assert submit(topics, dataclasses.replace(job, run_key="tuesday")).retried == ()
    assert topics.status.tasks[TaskId("copy", 0)].state is FAILED
    topics = topics_with(job, FAILED, FINISHED)
    assert submit(topics, dataclasses.replace(job, config={"other": 1})).retried == ()


def test_the_retry_is_written_over_the_end_only_because_it_is_of_another_attempt() -> None:
    topics = topics_with(STREAM, FAILED)
    submit(topics, STREAM)
    assert topics.status.tasks[TaskId("copy", 0)].state is TaskState.UNASSIGNED
    assert not topics.status.overwritten, "nothing for a leader to mend"


def test_a_task_that_is_tried_again_has_all_its_chances_again() -> None:
    topics = topics_with(STREAM, FAILED)
    task = TaskId("copy", 0)
    said = topics.status.tasks[task]
    counted: dict[str, Any] = {
        "failures": 9,
        "forgiven": 4,
        "spark_deaths": 3,
        "process_deaths": 2,
        "died_alone": 1,
        "acquitted": 7,
        "conflicts": 5,
        "conflict_since_ms": 6,
        "failed_on": (ME,),
        "last_try": True,
    }
    say(topics, replaced(said, attempt=said.attempt + 1, **counted))
    assert topics.status.tasks[task].conflicts == 5
    submit(topics, STREAM)
    again, never = topics.status.tasks[task], replaced(said, failures=0)
    assert {name: getattr(again, name) for name in counted} == {name: getattr(never, name) for name in counted}


def test_single_tasks_can_be_named() -> None:
    topics = topics_with(STREAM, FAILED, FAILED, RUNNING)
    retried = asyncio.run(topics.retry_failed("copy", {1, 2}, by="me"))
    assert retried == (TaskId("copy", 1),)
    assert topics.status.tasks[TaskId("copy", 0)].state is FAILED
    with pytest.raises(OperationError, match="job 'copy' has no task 7: it has 3 tasks, from 0 on"):
        asyncio.run(topics.retry_failed("copy", {7}, by="me"))
    with pytest.raises(NoJobError, match="the group has no job 'no such job'"):
        asyncio.run(topics.retry_failed("no such job", by="me"))
