"""``cospark jobs`` with pause, stop, resume, restart, describe and list --expand, over topics in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands import deserted
from airflow_provider.cli.main import main
from airflow_provider.cli.shared import reading
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.spark.job import JobContext, SparkJob
from airflow_provider.state.records import ActionEvent, JobDefinition, PlanRecord, TaskFailure, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, WorkerId

JOB = JobDefinition(
    name="etl", entry_point="m:f", max_tasks=9, config={"table": "orders"}, submitted_by="dag.submit", run_key="r1"
)


class Cli:
    """Runs ``cospark jobs`` over a group in memory, whose job has a task that runs and one that has failed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.topics = MemoryTopics("g")
        self._capsys = capsys
        asyncio.run(self._submit())

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        status = main(["jobs", *arguments, "--bootstrap-servers", "nowhere:9"])
        told = self._capsys.readouterr()
        return status, told.out, told.err

    async def _submit(self) -> None:
        await self.topics.submit(JOB)
        configs: list[dict[str, Any]] = [{"part": 0, "name": "first"}, {"part": 1, "slots": 2}]
        plan = PlanRecord.of(JOB, configs, planned_by=WorkerId("w1"), at_ms=0)
        await self.topics.publish_plan(plan)
        for index, state in enumerate((TaskState.RUNNING, TaskState.FAILED)):
            await self.topics.publish_task(
                TaskStatus(
                    task=TaskId("etl", index),
                    state=state,
                    epoch=Epoch(1),
                    worker=WorkerId("w1"),
                    run_key="r1",
                    fingerprint=plan.fingerprints[index],
                    started_at_ms=1,
                    error=TaskFailure.of("boom") if state is TaskState.FAILED else None,
                )
            )


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    made = Cli(capsys)

    async def reach(_settings: object) -> None: ...

    async def seems_deserted(_group: str, _settings: object) -> bool:
        return False

    monkeypatch.setattr(deserted, "seems_deserted", seems_deserted)
    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: made.topics)
    return made


def test_a_job_is_paused_stopped_and_resumed_and_it_is_said_who_did_it(cli: Cli) -> None:
    waits = "waits until 1 running task has stopped: etl:0 (first)"
    assert cli("pause", "g", "etl") == (0, f"job etl: paused; {waits}\n", "")
    assert cli("pause", "g", "etl") == (0, "job etl: paused already\n", "")
    assert cli("stop", "g", "etl") == (0, f"job etl: stopped; {waits}\n", "")
    assert cli("resume", "g", "etl") == (0, "job etl: resumed\n", "")
    assert cli("resume", "g", "etl") == (0, "job etl: neither paused nor stopped\n", "")
    done = [event for event in cli.topics.events if isinstance(event, ActionEvent)][1:]
    assert [(event.action, event.by) for event in done] == [
        (action, user_at_host()) for action in ("pause", "stop", "resume")
    ]


def test_a_job_starts_anew_as_a_whole_or_by_tasks(cli: Cli) -> None:
    assert cli("restart", "g", "etl", "--task", "0") == (0, "job etl: 1 restarted: etl:0\n", "")
    status, told, _ = cli("restart", "g", "etl", "--only-failed", "--json")
    assert status == 0
    assert json.loads(told) == {
        "subject": "etl",
        "changed": True,
        "restarted": [],
        "retried": ["etl:1"],
        "resumed": [],
        "stopped": [],
        "finished": [],
        "notes": [],
    }
    assert cli("restart", "g", "etl", "--task", "7") == (
        1,
        "",
        "cospark jobs restart: job 'etl' has no task 7: it has 2 tasks, from 0 on\n",
    )


def test_one_task_is_stopped_and_goes_on_when_it_is_restarted(cli: Cli) -> None:
    waits = "waits until 1 running task has stopped: etl:0 (first)"
    assert cli("stop", "g", "etl", "--task", "0") == (0, f"job etl: stopped: etl:0; {waits}\n", "")
    assert cli("stop", "g", "etl", "--task", "0") == (0, "job etl: stopped already\n", "")
    assert cli("restart", "g", "etl", "--task", "0") == (0, "job etl: 1 resumed: etl:0\n", "")


def test_a_job_that_is_not_there_is_named(cli: Cli) -> None:
    for action in ("pause", "stop", "resume", "restart", "describe"):
        assert cli(action, "g", "elt") == (1, "", f"cospark jobs {action}: the group has no job 'elt'; it has 'etl'\n")


def test_definition_and_status_are_shown_together(cli: Cli) -> None:
    cli("pause", "g", "etl")
    status, out, _ = cli("describe", "g", "etl")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "etl: paused", "whatever else is wrong with it: its counts say that"
    assert lines[1].startswith(f"  paused by {user_at_host()} at ")
    assert lines[2].startswith("  batch job m:f, submitted by dag.submit at ")
    assert lines[4:] == [
        "  table: 'orders'",
        "  etl:0 (first): running on w1, attempt 1",
        "  etl:1, 2 slots: failed on w1, attempt 1: boom",
    ]


def test_they_are_there_as_json_too_for_one_job_and_for_all(cli: Cli) -> None:
    shown = json.loads(cli("describe", "g", "etl", "--json")[1])
    assert shown["definition"]["config"] == {"table": "orders"}
    assert shown["status"]["halt"] is None
    assert [(task["index"], task["state"], task["slots"], task["config"]) for task in shown["status"]["tasks"]] == [
        (0, "running", 1, {"part": 0, "name": "first"}),
        (1, "failed", 2, {"part": 1, "slots": 2}),
    ]
    assert shown["status"]["tasks"][1]["error"]["message"] == "boom"
    listed = json.loads(cli("list", "g", "--expand", "--json")[1])
    assert listed["definition"] == shown["definition"]


SCHEMA = {"properties": {"table": {"type": "string"}}, "required": ["table"]}


class Sales(SparkJob):
    config_schema = SCHEMA

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [{"table": job.config["table"], "part": part} for part in range(2)]


class Broken(SparkJob):
    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        raise KeyError("tabel")


class Exits(SparkJob):
    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        raise SystemExit(0)


class Cancels(SparkJob):
    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        raise asyncio.CancelledError


SALES = f"{__name__}:Sales"


def test_a_plan_is_shown_and_nothing_is_written(cli: Cli) -> None:
    before = cli.topics.jobs
    status, out, _ = cli("plan", "g", "sales", SALES, "--config", '{"table": "a"}', "--max-tasks", "2", "--dry-run")
    assert status == 0
    assert out.splitlines() == [
        "sales: 2 tasks; nothing is written",
        "  sales:0: new, on nobody: the group is empty: {'part': 0, 'table': 'a'}",
        "  sales:1: new, on nobody: the group is empty: {'part': 1, 'table': 'a'}",
    ]
    assert cli.topics.jobs is before
    with pytest.raises(SystemExit):
        cli("plan", "g", "sales", SALES)


@pytest.mark.parametrize(
    ("entry_point", "config", "refusal"),
    [
        (SALES, "{}", "'table' is a required property"),
        (f"{__name__}:Broken", "{}", "the planner of job 'sales' failed: KeyError: 'tabel'"),
        (f"{__name__}:Exits", "{}", "the planner of job 'sales' failed: SystemExit: 0"),
        (f"{__name__}:Cancels", "{}", "the planner of job 'sales' failed: CancelledError"),
        ("nowhere_to_be_found:Job", "{}", "the plan is made on this machine: the job must be importable here"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(cli: Cli, entry_point: str, config: str, refusal: str) -> None:
    status, _, told = cli("plan", "g", "sales", entry_point, "--config", config, "--dry-run")
    assert status in (1, 2)
    assert refusal in told


def test_a_bad_config_is_refused_before_anything_is_written(cli: Cli) -> None:
    asyncio.run(cli.topics.submit(JobDefinition(name="sales", entry_point=SALES, config={"table": "a"}, max_tasks=2)))
    allow = ("--allow", __name__)
    status, _, told = cli("plan", "g", "sales", "--dry-run")
    assert (status, "is not allowed here" in told) == (1, True), "somebody else has said what that job is"
    status, out, _ = cli("plan", "g", "sales", "--config", '{"table": "b"}', "--dry-run", "--json", *allow)
    assert (status, json.loads(out)["tasks"][1]["config"]) == (0, {"part": 1, "table": "b"})
    before = cli.topics.jobs
    status, _, told = cli("alter", "g", "sales", "--config", '{"table": 7}', *allow)
    assert (status, told) == (
        2,
        "cospark jobs alter: the config of job 'sales' is not as the job declares it: table: must have type 'string'\n",
    )
    assert cli("submit", "g", "other", SALES)[0] == 2
    assert cli.topics.jobs is before
    status, out, told = cli("alter", "g", "sales", "--config", '{"table": "b"}')
    assert (status, out) == (
        0,
        "job sales: altered; is planned again when a worker joins: the group has none\n",
    )
    assert (
        f"the config is only checked by the worker that plans the job; to check it here too, add --allow {__name__}"
        in told
    )


def test_an_alteration_of_a_version_that_is_no_more_is_refused(cli: Cli) -> None:
    version = json.loads(cli("describe", "g", "etl", "--json")[1])["version"]
    assert f"version: {version}" in cli("describe", "g", "etl")[1]
    mine = ("--if-version", str(version), "--retries", "3")
    assert cli("alter", "g", "etl", "--retries", "2")[0] == 0, "somebody else is quicker"
    status, out, told = cli("alter", "g", "etl", *mine)
    assert (status, out) == (1, "")
    assert "job 'etl' has changed" in told
    assert cli.topics.jobs.jobs["etl"].retries == 2
    version = json.loads(cli("describe", "g", "etl", "--json")[1])["version"]
    assert cli("alter", "g", "etl", "--if-version", str(version), "--retries", "3")[0] == 0


def test_settings_of_spark_are_given_and_removed_by_name(cli: Cli) -> None:
    wide, ansi = "spark.sql.shuffle.partitions", "spark.sql.ansi.enabled"
    given = ("--session-conf", f"{wide}=16", "--session-conf", f"{ansi}=true")
    later = "each task has the new settings of its session from its next start on"
    assert cli("alter", "g", "etl", *given) == (0, f"job etl: altered; {later}\n", "")
    assert f"  {wide} = 16" in cli("describe", "g", "etl")[1].splitlines()
    assert cli("alter", "g", "etl", "--session-conf", f"{wide}=8", "--remove-session-conf", ansi)[0] == 0
    assert cli.topics.jobs.jobs["etl"].session_conf == {wide: "8"}
    assert cli("alter", "g", "etl", "--remove-session-conf", ansi) == (0, "job etl: nothing changed\n", "")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--session-conf", "spark.executor.memory=9g"), "session_conf: 'spark.executor.memory' applies when Spark"),
        (("--session-conf", "spark.sql.a"), "--session-conf spark.sql.a: must be KEY=VALUE"),
        (("--session-conf", "a=1", "--remove-session-conf", "a"), "--remove-session-conf a: --session-conf gives it a"),
    ],
)
def test_settings_that_no_session_takes_are_refused_before_anything_is_written(
    cli: Cli, options: tuple[str, ...], refusal: str
) -> None:
    before = cli.topics.jobs
    status, out, told = cli("alter", "g", "etl", *options)
    assert (status, out) == (2, "")
    assert refusal in told
    assert cli.topics.jobs is before
