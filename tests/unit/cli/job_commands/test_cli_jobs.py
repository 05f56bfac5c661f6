"""``cospark jobs`` as a user sees it; the topics are in memory, ``tests/integration`` has real ones."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from group_records import record_of
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands import deserted
from airflow_provider.cli.job_commands import job_wait
from airflow_provider.cli.job_commands import jobs as jobs_module
from airflow_provider.cli.main import main
from airflow_provider.cli.shared import reading
from airflow_provider.integration.memberships import deserted as asked
from airflow_provider.kafka.topics.errors import NoTopicError, TopicRightsError
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.spark.job import SparkJob
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskFailure, TaskKind, TaskState, TaskStatus
from airflow_provider.state.views.group_view import ChangingView
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of

ME = WorkerId("w1")


class Etl(SparkJob):
    """A job that can be imported here."""


ENTRY_POINT = f"{__name__}:{Etl.__name__}"


class Cli:
    """Runs ``cospark jobs`` over a group in memory."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.topics = MemoryTopics("g")
        self.reached = 0
        self.deserted = False
        self.has_members: bool | None = None
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        status = main(["jobs", *arguments, "--bootstrap-servers", "nowhere:9"])
        told = self._capsys.readouterr()
        return status, told.out, told.err

    def has(
        self, *, name: str = "a", plan: int | None = None, names: Sequence[str] | None = None, **definition: Any
    ) -> JobDefinition:
        job = JobDefinition(
            name=name, entry_point=ENTRY_POINT, **{"max_tasks": 9, "retry_delay_ms": 10_000, **definition}
        )

        async def write() -> None:
            await self.topics.submit(job)
            if plan is not None:
                configs: list[dict[str, Any]] = [{}] * plan if names is None else [{"name": name} for name in names]
                await self.topics.publish_plan(PlanRecord.of(job, configs, planned_by=ME, at_ms=0))

        asyncio.run(write())
        return job

    def told(self, task: TaskId, state: TaskState, error: str | None = None, **more: Any) -> None:
        self.run(self.tell(task, state, error, **more))

    async def tell(self, task: TaskId, state: TaskState, error: str | None = None, **more: Any) -> None:
        why = TaskFailure.of(error) if error else None
        await self.topics.publish_task(TaskStatus(task=task, state=state, epoch=Epoch(1), worker=ME, error=why, **more))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    made = Cli(capsys)

    async def reach(_settings: object) -> None:
        made.reached += 1

    @asynccontextmanager
    async def shared_topics(_settings: object, _group: str, _needs: object) -> AsyncIterator[MemoryTopics]:
        yield made.topics

    async def seems_deserted(_group: str, _settings: object) -> bool:
        return made.deserted

    async def have_classic_members(groups: Collection[str], _settings: object) -> dict[str, bool]:
        return {} if made.has_members is None else dict.fromkeys(groups, made.has_members)

    monkeypatch.setattr(deserted, "seems_deserted", seems_deserted)
    monkeypatch.setattr(asked, "have_classic_members", have_classic_members)
    monkeypatch.setattr(jobs_module, "reach", reach)
    monkeypatch.setattr(jobs_module, "shared_topics", shared_topics)
    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: made.topics)
    return made


# ---- submit


def test_a_job_is_submitted_once_and_with_a_new_run_key_again(cli: Cli) -> None:
    submit = ("submit", "g", "etl", ENTRY_POINT, "--config", '{"table": "x"}', "--max-tasks", "4", "--run-key")
    assert cli(*submit, "1") == (0, "job etl: submitted\n", "")
    assert cli(*submit, "1") == (0, "job etl: already submitted, nothing changed\n", "")
    assert cli(*submit, "2") == (0, "job etl: submitted\n", "")
    job = cli.topics.jobs.jobs["etl"]
    assert (job.entry_point, job.config, job.max_tasks, job.run_key) == (ENTRY_POINT, {"table": "x"}, 4, "2")
    assert job.submitted_by == user_at_host()
    cli("submit", "g", "unlimited", ENTRY_POINT)
    assert cli.topics.jobs.jobs["unlimited"].max_tasks is None


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import sys\nsys.exit(0)\n", "importing module cospark_fails failed with SystemExit: 0"),
        ("1 / 0\n", "importing module cospark_fails failed with ZeroDivisionError: division by zero"),
        (
            "import sys\ndef __getattr__(name): sys.exit(0)\n",
            "looking for Etl in module cospark_fails failed with SystemExit: 0",
        ),
        (
            "class Panic(BaseException): ...\nraise Panic('in Rust')\n",
            "importing module cospark_fails failed with Panic: in Rust",
        ),
    ],
)
def test_a_job_whose_module_fails_here_is_refused_by_name(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    (tmp_path / "cospark_fails.py").write_text(code)
    monkeypatch.delitem(sys.modules, "cospark_fails", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    status, out, err = cli("submit", "g", "etl", "cospark_fails:Etl")
    assert (status, out) == (2, "")
    assert f"entry point 'cospark_fails:Etl': {error}" in err
    assert not cli.topics.jobs.jobs


def test_a_job_that_is_not_here_is_submitted_and_what_was_not_checked_is_said(cli: Cli) -> None:
    status, out, err = cli("submit", "g", "etl", "only_on_workers:Etl")
    assert (status, out) == (0, "job etl: submitted\n")
    assert "the config is only checked by the worker that plans the job" in err
    assert "there is no module only_on_workers" in err


def test_every_option_is_part_of_the_job(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"from": "a file"}')
    options = ("--config", f"@{file}", "--kind", "streaming", "--retries", "3", "--retry-delay-ms", "5")
    assert cli("submit", "g", "s", ENTRY_POINT, *options, "--replan-interval-ms", "60000")[0] == 0
    job = cli.topics.jobs.jobs["s"]
    assert (job.config, job.kind, job.retries) == ({"from": "a file"}, TaskKind.STREAMING, 3)
    assert (job.retry_delay_ms, job.replan_interval_ms) == (5, 60_000)
    assert cli("submit", "g", "b", ENTRY_POINT, "--task-timeout-ms", "7", "--session-conf", "spark.sql.x=a=b")[0] == 0
    assert (cli.topics.jobs.jobs["b"].timeout_ms, cli.topics.jobs.jobs["b"].session_conf) == (7, {"spark.sql.x": "a=b"})
    assert cli("describe", "g", "b")[1].splitlines()[3] == "  spark.sql.x = a=b"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("a/b", ENTRY_POINT), "use 1 to 200 letters"),
        (("..", ENTRY_POINT), "use 1 to 200 letters"),
        (("j", "nonsense"), "must have the shape"),
        (("j", ENTRY_POINT, "--config", "{"), "--config is not JSON"),
        (("j", ENTRY_POINT, "--config", "[" * 100_000), "too deeply nested"),
        (("j", ENTRY_POINT, "--config", "[]"), "--config must be a JSON object, not []"),
        (("j", ENTRY_POINT, "--config", '{"x": NaN}'), "config"),
        (("j", ENTRY_POINT, "--config", "@/no/such/file"), "No such file"),
        (("j", ENTRY_POINT, "--max-tasks", "0"), "max_tasks"),
        (("j", ENTRY_POINT, "--retries", "-1"), "retries"),
        (("j", ENTRY_POINT, "--session-conf", "spark.sql.x"), "--session-conf spark.sql.x: must be KEY=VALUE"),
        (("j", ENTRY_POINT, "--session-conf", "spark.cores.max=4"), "'spark.cores.max' applies when Spark starts"),
        (("j", ENTRY_POINT, "--kind", "streaming", "--wait"), "does not end by itself"),
        (("j", ENTRY_POINT, "--replan-interval-ms", "9", "--wait"), "does not end by itself"),
        (("j", ENTRY_POINT, "--timeout", "9"), "--timeout: must be above 0, and needs --wait"),
        (("j", ENTRY_POINT, "--wait", "--timeout", "0"), "--timeout: must be above 0"),
    ],
)
def test_what_cannot_be_a_job_is_refused_before_anybody_is_asked(
    cli: Cli, arguments: tuple[str, ...], complaint: str
) -> None:
    status, out, err = cli("submit", "g", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("cospark jobs submit: ")
    assert complaint in err
    assert err.count("\n") == 1
    assert cli.reached == 0
    assert not cli.topics.jobs.jobs


@pytest.mark.parametrize(
    ("last", "status", "line"),
    [
        (TaskState.FINISHED, 0, "a (run r): finished: 2 finished\n"),
        (TaskState.FAILED, 1, "a (run r): failed: 1 finished, 1 failed\n  a:1: boom\n"),
    ],
)
def test_waiting_ends_with_the_job_and_tells_how(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, last: TaskState, status: int, line: str
) -> None:
    cli.has(plan=2, run_key="r")
    cli.told(TaskId("a", 0), TaskState.FINISHED, run_key="r")
    submit = cli.topics.submit

    async def submit_and_end(definition: JobDefinition) -> Any:
        submission = await submit(definition)
        await cli.tell(TaskId("a", 1), last, "boom" if status else None, run_key="r")
        return submission

    monkeypatch.setattr(cli.topics, "submit", submit_and_end)
    done = cli("submit", "g", "a", ENTRY_POINT, "--max-tasks", "9", "--run-key", "r", "--wait")
    assert done == (status, f"job a: already submitted, nothing changed\n{line}", "")


def said_while_waiting(cli: Cli) -> str:
    """The first line that a submitted job's wait prints, however slow the machine is."""
    for timeout in ("0.05", "1", "10", "100"):
        _, out, _ = cli("submit", "g", "a", ENTRY_POINT, "--wait", "--timeout", timeout)
        if len(lines := out.splitlines()) > 1:
            return lines[1]
    raise AssertionError(f"nothing was said: {out}")


def test_waiting_in_a_group_without_workers_says_so_and_takes_a_limit(cli: Cli) -> None:
    status, out, err = cli("submit", "g", "a", ENTRY_POINT, "--wait", "--timeout", "0.05")
    assert (status, out.splitlines()[0]) == (1, "job a: submitted")
    assert err.startswith("cospark jobs submit: after 0.05 s: group g has no workers")
    assert said_while_waiting(cli).endswith("the job waits for one to join: no worker has joined yet")


def test_waiting_asks_the_coordinator_for_workers_that_were_killed_and_that_are_joining(cli: Cli) -> None:
    cli.run(cli.topics.publish_group(record_of({ME: frozenset()}, epoch=1)))
    cli.has_members = False
    assert "the job waits for one to join: no worker is there: w1 got lost" in said_while_waiting(cli)
    cli.topics = MemoryTopics("g")
    cli.has_members = True
    assert said_while_waiting(cli) == "a: being planned"


def test_waiting_tells_how_far_the_job_is_when_that_changes(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 30 s at most; here 10 ms stand for them."""
    monkeypatch.setattr(job_wait, "SAY_EVERY_S", 0.01)
    cli.has(plan=2)
    cli.run(cli.topics.publish_group(record_of({ME: frozenset({TaskId("a", 0), TaskId("a", 1)})}, epoch=1)))
    steps = [(0, TaskState.RUNNING), (0, TaskState.FINISHED), (1, TaskState.RUNNING), (1, TaskState.FINISHED)]
    wait_for, looks = cli.topics.wait_for, iter(range(1_000))

    async def wait_and_go_on(
        holds: Callable[[JobsSnapshot, StatusSnapshot], bool],
        *,
        timeout_s: float | None = None,
        seen: ChangingView | None = None,
    ) -> None:
        """After each two looks one more step."""
        if next(looks) % 2 and steps:
            index, state = steps.pop(0)
            await cli.tell(TaskId("a", index), state)
        await wait_for(holds, timeout_s=timeout_s, seen=seen)

    monkeypatch.setattr(cli.topics, "wait_for", wait_and_go_on)
    status, out, _ = cli("submit", "g", "a", ENTRY_POINT, "--max-tasks", "9", "--wait", "--timeout", "60")
    assert status == 0
    assert out.splitlines()[1:] == [
        "a: 0 of 2 finished, 0 running, 0 failed",
        "a: 0 of 2 finished, 1 running (longest: a:0), 0 failed",
        "a: 1 of 2 finished, 0 running, 0 failed",
        "a: 1 of 2 finished, 1 running (longest: a:1), 0 failed",
        "a: finished: 2 finished",
    ]


def test_waiting_for_a_job_that_is_removed_ends_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = cli.topics.submit

    async def submit_and_remove(definition: JobDefinition) -> Any:
        submission = await submit(definition)
        await cli.topics.remove(definition.name)
        return submission

    monkeypatch.setattr(cli.topics, "submit", submit_and_remove)
    status, _, err = cli("submit", "g", "a", ENTRY_POINT, "--wait")
    assert status == 1
    assert err.startswith("cospark jobs submit: job a was removed by somebody at 20")


def test_submitting_what_has_failed_tries_it_again_and_says_so(cli: Cli) -> None:
    cli.has(plan=2)
    cli.told(TaskId("a", 1), TaskState.FAILED, "boom")
    submit = ("submit", "g", "a", ENTRY_POINT, "--max-tasks", "9")
    assert cli(*submit) == (0, "job a: already submitted\n1 failed task of job a is tried again: a:1\n", "")
    assert cli.topics.status.tasks[TaskId("a", 1)].state is TaskState.UNASSIGNED
    assert cli(*submit) == (0, "job a: already submitted, nothing changed\n", "")


# ---- list, retry, remove


def test_the_list_says_how_far_each_job_is_and_what_went_wrong(cli: Cli) -> None:
    cli.has(plan=3)
    cli.told(TaskId("a", 0), TaskState.RUNNING)
    cli.told(TaskId("a", 1), TaskState.PENDING, "boom", attempt=2)
    cli.has(name="b", run_key="monday")
    cli.has(name="c")
    cli.told(planner_of("c"), TaskState.FAILED, "no such module")
    status, out, _ = cli("list", "g")
    assert status == 0
    assert out.splitlines() == [
        "a: running: 1 unassigned, 1 pending, 1 running",
        "  a:1, an earlier attempt failed: boom",
        "b (run monday): planning",
        "c: failed",
        "  c:planner: no such module",
    ]


def test_the_list_as_json_is_an_object_a_line(cli: Cli) -> None:
    cli.has(plan=3, names=["orders", "items", "prices"])
    began, a0, a1 = 1_700_000_000_000, TaskId("a", 0), TaskId("a", 1)
    cli.told(a0, TaskState.FAILED, "boom", started_at_ms=began, finished_at_ms=began + 2_500, attempt=2)
    cli.told(a1, TaskState.FINISHED, started_at_ms=began, finished_at_ms=began + 250, result={"rows": 7})
    status, out, _ = cli("list", "g", "--json")
    assert status == 0
    began_at = "2023-11-14T22:13:20+00:00"
    assert json.loads(out) == {
        "job": "a",
        "run_key": "",
        "state": "failed",
        "complete": False,
        "planned": 3,
        "counts": {"unassigned": 1, "finished": 1, "failed": 1},
        "errors": {"a:0": "boom"},
        "names": {"0": "orders", "1": "items", "2": "prices"},
        "results": {"1": {"rows": 7}},
        "runs": {
            "0": {"state": "failed", "worker": "w1", "attempt": 2, "started_at": began_at, "seconds": 2.5},
            "1": {"state": "finished", "worker": "w1", "attempt": 1, "started_at": began_at, "seconds": 0.25},
        },
    }


def test_the_coordinator_is_asked_whether_anybody_is_left(cli: Cli) -> None:
    cli.has(plan=1)
    cli.told(TaskId("a", 0), TaskState.RUNNING, handle={"server": "sc://spark:15002", "session_id": "s"})
    shown = ("list", "g"), ("list", "g", "--expand"), ("describe", "g", "a")
    assert all("running on" in cli(*command)[1] for command in shown[1:])
    cli.deserted = True
    assert cli(*shown[0])[1] == "a: running: 1 unwatched\n"
    for command in shown[1:]:
        assert "unwatched on w1, detached on sc://spark:15002, attempt 1, no worker watches it" in cli(*command)[1]


def test_a_group_without_jobs_says_so_but_not_in_json(cli: Cli) -> None:
    assert cli("list", "g") == (0, "group g has no jobs\n", "")
    assert cli("list", "g", "--json") == (0, "", "")


def test_failed_tasks_are_tried_again_all_or_some(cli: Cli) -> None:
    cli.has(plan=4)
    for index in (0, 1, 2):
        cli.told(TaskId("a", index), TaskState.FAILED, "boom")
    assert cli("retry", "g", "a", "--task", "1", "--task", "3") == (
        1,
        "1 failed task of job a is tried again: a:1\n",
        "cospark jobs retry: these tasks have not failed: a:3\n",
    )
    assert cli("retry", "g", "a", "--task", "3") == (1, "", "cospark jobs retry: these tasks have not failed: a:3\n")
    assert cli("retry", "g", "a") == (0, "2 failed tasks of job a are tried again: a:0, a:2\n", "")
    assert cli("retry", "g", "a") == (0, "nothing of job a has failed\n", "")
    assert cli("retry", "g", "b") == (1, "", "cospark jobs retry: group g has no job b\n")


def test_a_job_is_removed_with_all_that_was_told_of_it(cli: Cli) -> None:
    cli.has(plan=1)
    cli.told(TaskId("a", 0), TaskState.RUNNING)
    assert cli("remove", "g", "a") == (0, "job a: removed\n", "")
    assert not cli.topics.jobs.jobs
    assert not cli.topics.status.tasks
    assert cli("remove", "g", "a") == (1, "", "cospark jobs remove: group g has no job a\n")


@pytest.mark.parametrize(
    ("failure", "status", "complaint"),
    [
        (NoTopicError("g.jobs"), 1, "'g.jobs' does not exist"),
        (NoTopicError("g.jobs"), 1, "no worker started, or it was deleted; `cospark groups list`"),
        (TopicRightsError("g.jobs", "Read"), 2, "no right to READ"),
    ],
)
def test_topics_that_cannot_be_read_are_named(cli: Cli, failure: Any, status: int, complaint: str) -> None:
    cli.topics.failing = failure
    told = cli("list", "g")
    assert told[:2] == (status, "")
    assert complaint in told[2]


def test_without_a_broker_named_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COSPARK_BOOTSTRAP_SERVERS", raising=False)
    assert main(["jobs", "list", "g"]) == 2
    assert "say where Kafka is, by this option or by $COSPARK_BOOTSTRAP_SERVERS" in capsys.readouterr().err
