"""What is written for an operation, and who is said to have asked."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from airflow_values import group_record
from job_topics import topics_with
from stand_ins import MemoryTopics

from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.operations.operations import (
    AlterJob,
    HaltJob,
    LostUpdateError,
    NoJobError,
    Operation,
    OperationError,
    Outcome,
    RestartJob,
    ResumeJob,
)
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import (
    ActionEvent,
    Halt,
    JobDefinition,
    JobError,
    PlanRecord,
    TaskKind,
    TaskState,
    job_key,
)
from airflow_provider.state.views.leftovers import leftovers
from airflow_provider.state.views.task_progress.progress import (
    JobState,
    configured,
    group_drained,
    job_progress,
    may_run,
    needs_running,
)
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.values.model import ConfigOffset, MemberId, TaskId, WorkerId, planner_of

ME = WorkerId("w1")
JOB = JobDefinition(name="etl", entry_point="m:f", max_tasks=9, submitted_by="dag.submit", kind=TaskKind.STREAMING)
FAILED, RUNNING, FINISHED = TaskState.FAILED, TaskState.RUNNING, TaskState.FINISHED
E0, E1, E2 = (TaskId("etl", index) for index in range(3))
PAUSE, STOP = (HaltJob(job="etl", halt=halt) for halt in (Halt.PAUSED, Halt.STOPPED))
RESUME = ResumeJob(job="etl")


def group_with(*states: TaskState, job: JobDefinition = JOB) -> MemoryTopics:
    return topics_with(job, *states)


def ask(topics: MemoryTopics, operation: Operation, by: str = "me@here") -> Outcome:
    return asyncio.run(topics.carry_out(operation, by=by))


def actions(topics: MemoryTopics) -> list[tuple[str, str, str]]:
    return [(event.action, event.subject, event.by) for event in topics.events if isinstance(event, ActionEvent)]


def state(topics: MemoryTopics) -> JobState:
    progress = job_progress("etl", topics.jobs, topics.status)
    assert progress is not None
    return progress.state


def test_each_action_is_an_event_with_the_one_who_asked() -> None:
    topics = group_with(RUNNING, FAILED)
    ask(topics, PAUSE, by="anna")
    ask(topics, RESUME, by="bert")
    ask(topics, RestartJob(job="etl"), by="carl")
    asyncio.run(topics.remove("etl", by="dora"))
    assert actions(topics) == [
        ("submit", "etl", "dag.submit"),
        ("pause", "etl", "anna"),
        ("resume", "etl", "bert"),
        ("restart", "etl", "carl"),
        ("remove", "etl", "dora"),
    ]


def test_what_is_so_already_changes_nothing_and_is_no_event() -> None:
    topics = group_with(RUNNING)
    assert not ask(topics, RESUME).changed
    assert ask(topics, PAUSE).changed
    assert not ask(topics, PAUSE, by="another").changed
    assert not ask(topics, RestartJob(job="etl", only_failed=True)).changed
    assert [action for action, _, _ in actions(topics)] == ["submit", "pause"]


def test_a_paused_job_stays_configured_and_is_not_run() -> None:
    topics = group_with(RUNNING)
    ask(topics, PAUSE)
    assert state(topics) is JobState.PAUSED
    assert E0 in configured(topics.jobs, topics.status.tasks)
    assert not may_run(E0, topics.jobs, topics.status.tasks)
    ask(topics, RESUME)
    assert state(topics) is JobState.RUNNING
    assert may_run(E0, topics.jobs, topics.status.tasks)


def test_who_waits_for_a_job_is_told_that_it_is_paused_and_by_whom() -> None:
    topics = group_with(RUNNING, FINISHED)
    ask(topics, PAUSE, by="anna")
    condition = JobCondition(job="etl", run_key=None, goal=JobGoal.FINISHED)
    assert condition.answer(topics.jobs, topics.status) is None
    standing = condition.so_far(topics.jobs, topics.status).standing
    assert standing is not None
    assert standing.in_words(1_001).startswith("paused by anna: 1 of 2 finished, 1 running")


def test_a_stopped_job_is_configured_no_more_and_forgets_nothing() -> None:
    topics = group_with(RUNNING, FINISHED)
    ask(topics, STOP)
    assert state(topics) is JobState.STOPPED
    assert configured(topics.jobs, topics.status.tasks) == frozenset()
    assert topics.jobs.work_of(E0) is None
    ask(topics, RESUME)
    assert configured(topics.jobs, topics.status.tasks) == {E0}, "what has finished stays finished"


def test_workers_stay_for_a_job_that_is_stopped_and_may_be_resumed() -> None:
    batch = dataclasses.replace(JOB, kind=TaskKind.BATCH)
    topics = group_with(RUNNING, job=batch)
    ask(topics, STOP)
    assert not group_drained(topics.jobs, topics.status.tasks)


def test_a_pause_becomes_a_stop_and_the_other_way_round() -> None:
    topics = group_with(RUNNING)
    ask(topics, PAUSE)
    ask(topics, STOP)
    assert state(topics) is JobState.STOPPED
    ask(topics, PAUSE)
    assert state(topics) is JobState.PAUSED


def test_a_pause_is_not_ended_by_who_submits_the_job_again() -> None:
    topics = group_with(RUNNING)
    ask(topics, PAUSE)
    asyncio.run(topics.submit(dataclasses.replace(JOB, config={"other": 1})))
    assert topics.jobs.is_paused("etl")


def test_a_job_that_was_removed_and_comes_back_runs() -> None:
    topics = group_with(RUNNING)
    ask(topics, PAUSE)
    ask(topics, RestartJob(job="etl", tasks=frozenset({0})))
    asyncio.run(topics.remove("etl"))
    assert (topics.jobs.halts, topics.jobs.task_restarts) == ({}, {})
    asyncio.run(topics.submit(JOB))
    assert not topics.jobs.is_paused("etl")


def test_a_pause_that_a_removal_has_left_behind_is_not_of_the_next_job_of_that_name() -> None:
    """Who removes a job may end half-way; a leader sweeps up what is left."""
    topics = group_with(RUNNING)
    ask(topics, PAUSE)
    asyncio.run(topics._put(topics.names.jobs, job_key("etl"), None))
    assert set(leftovers(topics.jobs, topics.status, wall_ms=9).jobs) == {"halt:etl", "plan:etl"}
    asyncio.run(topics.submit(JOB))
    assert not topics.jobs.is_paused("etl")
    ask(topics, PAUSE)
    assert topics.jobs.is_paused("etl"), "this one is"


def test_what_has_nothing_left_to_run_cannot_be_paused() -> None:
    topics = group_with(FINISHED, job=dataclasses.replace(JOB, kind=TaskKind.BATCH))
    with pytest.raises(OperationError, match="job 'etl' has nothing left to run, so there is nothing to pause"):
        ask(topics, PAUSE)


def test_a_job_that_is_not_there_is_named() -> None:
    for operation in (PAUSE, RESUME, RestartJob(job="etl")):
        with pytest.raises(NoJobError, match="the group has no job 'etl'"):
            ask(MemoryTopics(), operation)


def test_a_restart_is_one_record_for_what_runs_and_a_new_try_for_what_has_failed() -> None:
    topics = group_with(RUNNING, FAILED, FINISHED)
    outcome = ask(topics, RestartJob(job="etl"))
    assert (outcome.restarted, outcome.retried, outcome.finished) == ((E0,), (E1,), ())
    offset = topics.jobs.restarts["etl"].offset
    assert topics.jobs.restart_since(E0, offset)
    assert not topics.jobs.restart_since(E0, offset + 1), "read already as it began"
    assert needs_running(E1, topics.jobs, topics.status.tasks)
    assert not needs_running(E2, topics.jobs, topics.status.tasks)


def test_only_what_has_failed_is_left_to_the_group_and_nothing_that_runs_hears_of_it() -> None:
    topics = group_with(RUNNING, FAILED)
    outcome = ask(topics, RestartJob(job="etl", only_failed=True))
    assert (outcome.restarted, outcome.retried) == ((), (E1,))
    assert not topics.jobs.restarts


def test_single_tasks_are_named_and_those_that_finished_are_told() -> None:
    topics = group_with(RUNNING, RUNNING, FINISHED)
    outcome = ask(topics, RestartJob(job="etl", tasks=frozenset({0, 2})))
    assert (outcome.restarted, outcome.finished) == ((E0,), (E2,))
    assert set(topics.jobs.task_restarts) == {E0}
    with pytest.raises(OperationError, match="job 'etl' has no task 3, 7: it has 3 tasks, from 0 on"):
        ask(topics, RestartJob(job="etl", tasks=frozenset({0, 3, 7})))


def test_before_there_is_a_plan_there_is_a_planner_only() -> None:
    topics = MemoryTopics()
    asyncio.run(topics.submit(JOB))
    assert not ask(topics, RestartJob(job="etl", tasks=frozenset({-1}))).changed, "nobody has it"
    with pytest.raises(OperationError, match="job 'etl' has no task 0: it has no plan yet"):
        ask(topics, RestartJob(job="etl", tasks=frozenset({0})))


def test_a_planner_that_waits_where_it_is_is_started_anew() -> None:
    topics = group_with(job=dataclasses.replace(JOB, replan_interval_ms=60_000))
    has = {ME: frozenset({planner_of("etl")})}
    record = group_record(4, assignment=has, members={ME: MemberId("m")}, moves=(), config_offset=ConfigOffset(99))
    asyncio.run(topics.publish_group(record))
    assert ask(topics, RestartJob(job="etl", tasks=frozenset({-1}))).restarted == (planner_of("etl"),)


def test_an_alteration_merges_and_keeps_the_tasks_that_it_does_not_change() -> None:
    job = dataclasses.replace(JOB, config={"table": "orders", "limit": 1, "until": None})
    topics = group_with(RUNNING, FINISHED, job=job)
    before = {task: topics.jobs.work_of(task) for task in (E0, E1)}
    assert ask(topics, AlterJob(job="etl", config={"limit": None, "since": 3}, settings={"retries": 2})).changed
    after = topics.jobs.jobs["etl"]
    assert after.config == {"table": "orders", "since": 3, "until": None}
    assert (after.retries, after.submitted_by) == (2, "dag.submit")
    for task, work in before.items():
        now = topics.jobs.work_of(task)
        assert work is not None
        assert now is not None
        assert now.is_same(work)
    assert configured(topics.jobs, topics.status.tasks) == {planner_of("etl"), E0}, "planned anew, finished tasks stay"
    plan = PlanRecord.of(after, [{"i": 0}, {"i": "new"}], planned_by=ME, at_ms=0)
    asyncio.run(topics.publish_plan(plan))
    assert configured(topics.jobs, topics.status.tasks) == {E0, E1}, "the one that became another runs again"
    ask(topics, AlterJob(job="etl", config={"limit": 9}))
    assert topics.jobs.work_of(E0) is not None, "and so on, from one alteration to the next"


def test_settings_of_spark_merge_likewise_and_nothing_is_planned_anew_for_them() -> None:
    topics = group_with(RUNNING, job=dataclasses.replace(JOB, session_conf={"spark.sql.a": "1", "spark.sql.b": "2"}))
    changes = {"spark.sql.b": None, "spark.sql.c": "3"}
    assert ask(topics, AlterJob(job="etl", session_conf=changes)).changed
    assert topics.jobs.jobs["etl"].session_conf == {"spark.sql.a": "1", "spark.sql.c": "3"}
    assert configured(topics.jobs, topics.status.tasks) == {E0}
    assert not ask(topics, AlterJob(job="etl", session_conf=changes)).changed, "it is so already"
    (done,) = [event for event in topics.events if isinstance(event, ActionEvent) and event.action == "alter"]
    assert done.details == "spark.sql.b, spark.sql.c", "their values may be secrets"
    with pytest.raises(JobError, match=r"'spark\.executor\.memory' applies when Spark starts"):
        ask(topics, AlterJob(job="etl", session_conf={"spark.executor.memory": "9g"}))


def test_who_alters_in_the_same_moment_and_undoes_another_alteration_is_told() -> None:
    topics = group_with(job=dataclasses.replace(JOB, config={"table": "orders"}))

    async def both() -> list[object]:
        alters = [AlterJob(job="etl", config={"table": "b"}), AlterJob(job="etl", config={"since": 3})]
        return await asyncio.gather(*(topics.carry_out(alter, by="me") for alter in alters), return_exceptions=True)

    topics.takes_s = 0.01
    first, second = asyncio.run(both())
    assert isinstance(first, Outcome)
    assert isinstance(second, LostUpdateError)
    assert "'etl' was altered as asked, but somebody else altered it in the same moment" in str(second)
    assert topics.jobs.jobs["etl"].config == {"table": "orders", "since": 3}
    assert ask(topics, AlterJob(job="etl", config={"table": "b"})).changed, "one after the other nothing is lost"
    assert topics.jobs.jobs["etl"].config == {"table": "b", "since": 3}


def test_that_nothing_was_lost_need_not_be_known_of_what_is_stored() -> None:
    topics = group_with()
    catch_up, looks = topics.catch_up, iter((True, False))

    async def once(*, timeout_s: float | None = None) -> None:
        await catch_up(timeout_s=timeout_s)
        if not next(looks):
            raise TopicError("away")

    topics.catch_up = once  # type: ignore[method-assign]
    assert ask(topics, AlterJob(job="etl", config={"since": 3})).changed


def test_what_is_so_already_is_no_alteration() -> None:
    topics = group_with(RUNNING, job=dataclasses.replace(JOB, config={"limit": 1}, retries=0))
    assert not ask(topics, AlterJob(job="etl", config={"limit": 1}, settings={"retries": 0})).changed


def test_only_settings_make_no_new_plan() -> None:
    topics = group_with(RUNNING)
    ask(topics, AlterJob(job="etl", settings={"retries": 5}))
    assert configured(topics.jobs, topics.status.tasks) == {E0}


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"entry_point": 1}, "entry_point can't be altered while it runs"),
        ({"max_tasks": 0}, "max_tasks: 0 must be a wh"),
    ],
)
def test_what_cannot_be_altered_is_refused(settings: dict[str, int], refusal: str) -> None:
    topics = group_with(RUNNING)
    with pytest.raises(ValueError, match=refusal):
        ask(topics, AlterJob(job="etl", settings=settings))
    assert topics.jobs.jobs["etl"] == JOB


def test_who_waits_for_a_job_goes_on_waiting_for_it_altered() -> None:
    topics = group_with(RUNNING)
    condition = JobCondition(job="etl", run_key="", goal=JobGoal.FINISHED, fingerprint=JOB.fingerprint)
    ask(topics, AlterJob(job="etl", config={"limit": 9}))
    assert condition.answer(topics.jobs, topics.status) is None


@pytest.mark.parametrize(
    ("operation", "outcome", "said"),
    [
        (PAUSE, Outcome(subject="etl", changed=True), "job etl: paused"),
        (STOP, Outcome(subject="etl", changed=False), "job etl: stopped already"),
        (RESUME, Outcome(subject="etl", changed=True), "job etl: resumed"),
        (RESUME, Outcome(subject="etl", changed=False), "job etl: neither paused nor stopped"),
        (RestartJob(job="etl"), Outcome(subject="etl", changed=False), "job etl: nothing runs, and nothing has failed"),
        (RestartJob(job="etl", only_failed=True), Outcome(subject="etl", changed=False), "job etl: nothing has failed"),
        (
            RestartJob(job="etl"),
            Outcome(subject="etl", changed=True, restarted=(E0, E1), retried=(E2,)),
            "job etl: 2 restarted: etl:0, etl:1; 1 tried again: etl:2",
        ),
    ],
)
def test_what_came_of_it_in_a_line(operation: Operation, outcome: Outcome, said: str) -> None:
    assert outcome_in_words(operation, outcome) == said
