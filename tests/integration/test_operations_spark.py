"""Operations that involve a job's code, on a real broker and a real Spark: log levels, config schemas, plans."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from fleet import Fleet, MakeFleet, cospark
from jobs_for_tests import Declared
from waiting import DEADLINE_S

from airflow_provider.state.records import TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobState, job_progress
from airflow_provider.values.model import TaskId

pytestmark = pytest.mark.thorough
SAYS = "attempt 1 of chatty goes on"


async def _hears(group: Fleet, worker: str, said: str, *, more_than: int = 0) -> int:
    until = time.monotonic() + DEADLINE_S
    while (times := group.log_of(worker).count(said)) <= more_than:
        assert time.monotonic() < until, group.log_of(worker)
        await asyncio.sleep(0.05)
    return times


async def test_the_log_level_of_a_running_task_is_changed_and_the_task_goes_on(fleet: MakeFleet) -> None:
    async with fleet("--runner", "local", "--allow", "jobs_for_tests") as group:
        await group.submit("chatty", tasks=1, entry_point="jobs_for_tests:Chatty")
        group.start("w1")
        task = TaskId("chatty", 0)
        await group.wait_for(
            lambda _jobs, status: task in status.tasks and status.tasks[task].state is TaskState.RUNNING, "it runs"
        )
        assert SAYS not in group.log_of("w1")

        said = await cospark(group, "loggers", "set", group.group_id, "jobs_for_tests", "DEBUG")
        assert said.status == 0, said.err
        await _hears(group, "w1", SAYS, more_than=2)
        await cospark(group, "loggers", "reset", group.group_id, "jobs_for_tests")
        await _hears(group, "w1", "logger jobs_for_tests has its previous level again")
        before = group.log_of("w1").count(SAYS)
        assert (await cospark(group, "jobs", "restart", group.group_id, "chatty")).status == 0
        await group.wait_for(
            lambda _jobs, status: status.tasks[task].attempt == 2 and status.tasks[task].state is TaskState.RUNNING,
            "another attempt runs and logs nothing",
        )
        assert group.log_of("w1").count(SAYS) <= before + 1
        assert "attempt 2 of chatty goes on" not in group.log_of("w1")


async def test_a_plan_is_shown_and_a_bad_config_refused_before_and_by_the_planner(fleet: MakeFleet) -> None:
    declared = ("declared", "jobs_for_tests:Declared", "--max-tasks", "2")
    async with fleet("--runner", "local", "--allow", "jobs_for_tests") as group:
        group.start("w1")
        await group.wait_for(lambda _jobs, status: status.group is not None, "w1 has joined")
        config = ("--config", '{"table": "a"}')
        shown = await cospark(group, "jobs", "plan", group.group_id, *declared, *config, "--dry-run", "--json")
        assert shown.status == 0, shown.err
        assert [(task["config"]["part"], task["worker"]) for task in json.loads(shown.out)["tasks"]] == [
            (0, "w1"),
            (1, "w1"),
        ]
        refused = await cospark(group, "jobs", "submit", group.group_id, *declared, "--config", '{"table": 7}')
        assert (refused.status, group.topics.jobs.jobs) == (2, {})
        assert "table: must have type 'string'" in refused.err

        # If it is submitted by other means, or where the job can't be imported, the planner refuses it.
        await group.submit("declared", tasks=1, entry_point="jobs_for_tests:Declared", config={}, retries=3)

        def refused_by_planner(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            progress = job_progress("declared", jobs, status)
            return progress is not None and progress.state is JobState.FAILED

        await group.wait_for(refused_by_planner, "the planner refuses it")
        progress = job_progress("declared", group.topics.jobs, group.topics.status)
        assert progress is not None
        assert "table' is a required property" in progress.failures_in_words

        await group.submit("again", tasks=1, entry_point="jobs_for_tests:Declared", config={"table": "a"})
        await group.wait_for(lambda jobs, _: "again" in jobs.plans, "it is planned")
        assert group.topics.jobs.plans["again"].config_schema == Declared.config_schema, "others make a form of it"
