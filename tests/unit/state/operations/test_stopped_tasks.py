"""A single task that somebody has stopped, until somebody has it restarted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from airflow_values import group_record
from stand_ins import MemoryTopics
from test_operations import E0, E1, E2, FAILED, FINISHED, JOB, ME, RUNNING, actions, ask, group_with, state

from airflow_provider.state.operations.operations import HaltJob, OperationError, RestartJob, ResumeJob, StopTasks
from airflow_provider.state.operations.preview import Change, preview
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import Halt, PlanRecord, TaskKind, TaskState, halt_task_key
from airflow_provider.state.views.leftovers import leftovers
from airflow_provider.state.views.task_progress.progress import (
    JobState,
    configured,
    group_drained,
    job_progress,
    needs_running,
)
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.model import ConfigOffset, TaskId
from airflow_provider.values.replacing import replaced

STOP_0 = StopTasks(job="etl", tasks=frozenset({0}))
BATCH = replace(JOB, kind=TaskKind.BATCH)


def runs(topics: MemoryTopics) -> frozenset[TaskId]:
    return configured(topics.jobs, topics.status.tasks)


def word(topics: MemoryTopics, task: TaskId) -> TaskState | None:
    last = effective_status(task, topics.jobs, topics.status)
    return None if last is None else last.state


def test_it_is_given_up_and_the_rest_of_its_job_goes_on() -> None:
    topics = group_with(RUNNING, RUNNING)
    outcome = ask(topics, STOP_0, by="anna")
    assert outcome_in_words(STOP_0, outcome) == (
        "job etl: stopped: etl:0; waits until 1 running task has stopped: etl:0"
    )
    assert runs(topics) == {E1}
    assert topics.jobs.work_of(E0) is None
    assert not needs_running(E0, topics.jobs, topics.status.tasks)
    assert state(topics) is JobState.RUNNING
    assert actions(topics)[-1] == ("stop tasks", "etl", "anna")
    assert not ask(topics, STOP_0).changed, "it is so already"


def test_it_stays_so_whatever_happens_to_its_job_until_it_is_restarted() -> None:
    topics = group_with(RUNNING, RUNNING)
    ask(topics, STOP_0)
    ask(topics, HaltJob(job="etl", halt=Halt.STOPPED))
    assert runs(topics) == frozenset()
    ask(topics, ResumeJob(job="etl"))
    ask(topics, RestartJob(job="etl", tasks=frozenset({1})))
    ask(topics, RestartJob(job="etl", only_failed=True))
    assert runs(topics) == {E1}
    again = ask(topics, RestartJob(job="etl", tasks=frozenset({0})))
    assert (again.changed, again.resumed) == (True, (E0,))
    assert runs(topics) == {E0, E1}
    assert topics.jobs.restart_since(E0, 0), "what has not stopped yet starts anew"


def test_a_restart_of_the_whole_job_has_it_go_on_too() -> None:
    topics = group_with(RUNNING, RUNNING)
    ask(topics, STOP_0)
    assert ask(topics, RestartJob(job="etl")).resumed == (E0,)
    assert runs(topics) == {E0, E1}


@pytest.mark.parametrize("config", [{"i": 0}, {"i": 7}])
def test_in_another_run_or_with_another_config_it_is_another_task(config: dict[str, int]) -> None:
    topics = group_with(RUNNING)
    ask(topics, STOP_0)
    after = replace(JOB, run_key="" if config == {"i": 7} else "next")
    asyncio.run(topics.submit(after))
    asyncio.run(topics.publish_plan(PlanRecord.of(after, [config], planned_by=ME, at_ms=0)))
    assert E0 in runs(topics)


def test_a_job_that_was_removed_and_comes_back_has_it_run_and_leaves_nothing_behind() -> None:
    topics = group_with(RUNNING)
    ask(topics, STOP_0)
    stale = topics.jobs.task_halts
    asyncio.run(topics.remove("etl"))
    assert not topics.jobs.task_halts
    left = leftovers(replace(topics.jobs, task_halts=stale), topics.status, wall_ms=0)
    assert set(left.jobs) == {halt_task_key(E0)}
    asyncio.run(topics.submit(JOB))
    asyncio.run(topics.publish_plan(PlanRecord.of(topics.jobs.jobs["etl"], [{"i": 0}], planned_by=ME, at_ms=0)))
    assert replace(topics.jobs, task_halts=stale).halt_of_task(E0) is None


def test_its_job_is_not_complete_and_workers_stay_for_it() -> None:
    topics = group_with(RUNNING, FINISHED, job=BATCH)
    ask(topics, STOP_0)
    progress = job_progress("etl", topics.jobs, topics.status)
    assert progress is not None
    assert not progress.complete
    assert not group_drained(topics.jobs, topics.status.tasks)

    async def finish() -> None:
        await topics.publish_task(replaced(topics.status.tasks[E0], state=FINISHED))

    asyncio.run(finish())
    assert group_drained(topics.jobs, topics.status.tasks), "it came to its end as it was told to stop"


def test_what_has_not_begun_is_shown_as_stopped_though_nobody_says_so() -> None:
    topics = group_with(RUNNING, TaskState.PENDING)
    asyncio.run(topics.publish_plan(PlanRecord.of(JOB, [{"i": n} for n in range(3)], planned_by=ME, at_ms=0)))
    topics_record = group_record(4, config_offset=ConfigOffset(99), assignment={ME: frozenset({E0, E1, E2})})
    asyncio.run(topics.publish_group(topics_record))
    ask(topics, StopTasks(job="etl", tasks=frozenset({0, 1, 2})))
    assert word(topics, E0) is RUNNING, "until its worker says otherwise"
    assert (word(topics, E1), word(topics, E2)) == (TaskState.STOPPED, TaskState.STOPPED)
    progress = job_progress("etl", topics.jobs, topics.status)
    assert progress is not None
    assert progress.counts == {RUNNING: 1, TaskState.STOPPED: 2}


@pytest.mark.parametrize(
    ("tasks", "refusal"),
    [
        ({0, 1}, "task etl:1 has finished already, so it can't be stopped"),
        ({2}, "task etl:2 has failed already, so it can't be stopped"),
        ({-1}, "job 'etl': a planner can't be stopped alone; stop the job"),
        ({9}, "job 'etl' has no task 9: it has 3 tasks, from 0 on"),
    ],
)
def test_what_can_not_be_stopped_is_refused_and_nothing_is_written(tasks: set[int], refusal: str) -> None:
    topics = group_with(RUNNING, FINISHED, FAILED)
    with pytest.raises(OperationError) as refused:
        ask(topics, StopTasks(job="etl", tasks=frozenset(tasks)))
    assert str(refused.value) == refusal
    assert not topics.jobs.task_halts


def test_a_preview_of_a_plan_shows_it_as_if_it_ran() -> None:
    topics = group_with(RUNNING)
    ask(topics, STOP_0)
    shown = preview(JOB, [{"i": 0}], topics.jobs, topics.status, at_ms=0)
    assert [task.change for task in shown.tasks] == [Change.GOES_ON]
