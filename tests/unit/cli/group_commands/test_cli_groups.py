"""Groups as ``cospark groups`` shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from busy_group import A0, A1, BUSY, JOB, JOBS, W1, W2, coordinator, page, told, worker
from group_records import record_of
from rich.console import Console
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands import declarative_groups
from airflow_provider.cli.group_commands import groups as groups_module
from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import render
from airflow_provider.cli.main import main
from airflow_provider.kafka.group_requests.messages import GroupDescription, ListedGroup, ListGroupsResponse
from airflow_provider.state.records import (
    PlanRecord,
    StreamProgress,
    TaskState,
    WorkerPhase,
)
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.views.groups import group_in_short
from airflow_provider.ui.views.tasks import TaskQuery, found_tasks, task_page
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import TaskId, planner_of
from airflow_provider.values.replacing import replaced

# ---- groups describe


def test_a_group_is_told_by_its_coordinator_and_by_its_records() -> None:
    about = describe(coordinator("w2", "w1"), JOBS, BUSY)
    assert (about["group"], about["state"], about["protocol"]) == ("g", "Stable", "sessioned")
    assert (about["epoch"], about["converged"], about["leader"], about["reason"]) == (5, True, "w1", "w2 joined")
    assert about["members"] == [
        {
            "worker": "w1",
            "state": "stable",
            "epoch": 5,
            "url": "http://w1",
            "time_zone": "",
            "python_time_zone": "",
            "condition": "",
            "drains": False,
            "leaves_soon": False,
            "assigned": [["a", 0], ["a", 1]],
        },
        {
            "worker": "w2",
            "state": "deferred",
            "epoch": 5,
            "url": "http://w2",
            "time_zone": "",
            "python_time_zone": "",
            "condition": "",
            "drains": False,
            "leaves_soon": False,
            "assigned": [["a", 2]],
        },
    ]
    about["members"][0]["condition"] = "waiting for executors"
    about["members"][1]["drains"] = True
    assert "  w1 (stable, waiting for executors): a:0, a:1" in as_lines(about)
    assert "  w2 (deferred, drains): a:2" in as_lines(about)
    about["members"][1]["leaves_soon"] = True
    assert "  w2 (deferred, drains, because the group learns no tasks): a:2" in as_lines(about)
    about["members"][1]["drains"] = False
    assert "  w2 (deferred, leaves soon): a:2" in as_lines(about)
    assert about["tasks"]["a:2"] == {
        "state": "failed",
        "worker": "w2",
        "attempt": 1,
        "started_at": None,
        "seconds": None,
        "name": "",
        "slots": 1,
        "error": "boom",
        "waits_for": "",
    }
    assert list(about["tasks"]) == ["a:planner", "a:0", "a:1", "a:2"], "no task of an older plan, none of a removed job"


def test_what_keeps_a_worker_from_running_its_tasks_is_told_beside_those_that_wait_for_it() -> None:
    workers = {name: replace(said, condition="starting Spark") for name, said in BUSY.workers.items()}
    status = replace(BUSY, workers=workers)
    lines = as_lines(describe(coordinator("w1", "w2"), JOBS, status))
    assert "  task a:1: pending at w1, attempt 1, starting Spark" in lines
    assert "  task a:0: running at w1, attempt 1" in lines, "it has begun"
    job = JobDescription.of("a", replace(JOBS, defined_at={"a": 0}), status)
    assert job is not None
    assert "  a:1: pending on w1, attempt 1, starting Spark" in job.lines(now_ms=0)
    console = Console(width=120)
    with console.capture() as captured:
        console.print(render("g", JOBS, status, wall_ms=0))
    assert "pending (starting Spark): a:1" in captured.get()
    (line,) = [line for line in task_page(found_tasks(JOBS, status), TaskQuery(), status).lines if line.index == 1]
    assert line.waits_for == "starting Spark"
    wrong = group_in_short("g", JOBS, status, now_ms=0).wrong
    assert wrong == ("job a: 1 task has failed",), "that Spark starts is no fault"


def test_a_suspect_that_is_pending_says_that_it_waits_for_its_trial() -> None:
    waits = replaced(BUSY.tasks[A0], state=TaskState.PENDING, worker=W1, spark_deaths=2, waits_for_trial=True)
    status = replace(BUSY, tasks={**BUSY.tasks, A0: waits, A1: replaced(waits, task=A1)})
    lines = "\n".join(as_lines(describe(coordinator("w1", "w2"), JOBS, status)))
    assert "task a:0: pending at w1, attempt 1, suspected 2 times, waits for its trial\n" in lines
    assert "task a:1: pending at w1, attempt 1, suspected 2 times, waits for its trial: 1 task before it\n" in lines
    console = Console(width=120)
    with console.capture() as captured:
        console.print(render("g", JOBS, status, wall_ms=0))
    assert "pending (waits for its trial): a:0, a:1" in captured.get()


def test_that_a_worker_waits_for_its_next_process_is_no_fault_while_it_is_in_the_group() -> None:
    waits = f"{Awaited.PROCESS.in_words} (since 12:00:00 UTC)"
    workers = {name: replace(said, awaits=Awaited.PROCESS, condition=waits) for name, said in BUSY.workers.items()}
    assert group_in_short("g", JOBS, replace(BUSY, workers=workers), now_ms=0).wrong == ("job a: 1 task has failed",)


def test_a_group_that_goes_round_for_nothing_is_told_as_such() -> None:
    assert BUSY.group is not None
    spinning = replace(BUSY, group=replace(BUSY.group, unchanged=9))
    told = "  the last 9 rebalances changed nothing: each is held back longer than before"
    assert told in as_lines(describe(coordinator("w1", "w2"), JOBS, spinning))


def test_in_words() -> None:
    assert as_lines(describe(coordinator("w1", "w2"), JOBS, BUSY)) == [
        "group g: Stable, protocol sessioned",
        "epoch 5 (converged), led by w1",
        "  because: w2 joined",
        "  w1 (stable): a:0, a:1",
        "  w2 (deferred): a:2",
        "  task a:planner: finished at w1, attempt 1",
        "  task a:0: running at w1, attempt 1",
        "  task a:1: pending at w1, attempt 1",
        "  task a:2: failed at w2, attempt 1: boom",
    ]


def test_a_line_of_a_task_has_its_name() -> None:
    plan = PlanRecord.of(JOB, [{"name": "orders"}, {"checkpoint_key": "items"}, {}], planned_by=W1, at_ms=0)
    lines = as_lines(describe(coordinator("w1", "w2"), replace(JOBS, plans={"a": plan}), BUSY), tasks=True)
    assert lines[-4:] == [
        "  task a:planner: finished at w1, attempt 1",
        "  task a:0 (orders): running at w1, attempt 1",
        "  task a:1 (items): pending at w1, attempt 1",
        "  task a:2: failed at w2, attempt 1: boom",
    ]


def test_many_tasks_are_counted_and_those_that_failed_named() -> None:
    job = replace(JOB, max_tasks=900)
    plan = PlanRecord.of(job, [{}] * 900, planned_by=W1, at_ms=0)
    jobs = JobsSnapshot(jobs={"a": job}, plans={"a": plan})
    assert BUSY.group is not None
    many = replace(BUSY, group=replace(BUSY.group, assignment={W1: frozenset(TaskId("a", i) for i in range(900))}))
    failed = {TaskId("a", i): told(TaskId("a", i), TaskState.FAILED, error="boom") for i in range(100, 125)}
    about = describe(coordinator("w1", "w2"), jobs, replace(many, tasks={**BUSY.tasks, **failed}))
    lines = as_lines(about)
    assert lines[3:6] == [
        "  w1 (stable): 872 pending, 1 running, 1 finished, 26 failed of a",
        "  w2 (deferred): nothing",
        "  job a: 872 pending, 1 running, 1 finished, 26 failed",
    ]
    assert lines[6:8] == ["  task a:2: failed at w2, attempt 1: boom", "  task a:100: failed at w1, attempt 1: boom"]
    assert lines[-2:] == ["  and 6 more that failed", "  (--tasks: a line for each task)"]
    assert len(as_lines(about, tasks=True)) == 5 + 901


def test_a_planner_is_counted_only_until_it_has_finished() -> None:
    job = replace(JOB, max_tasks=30)
    jobs = JobsSnapshot(jobs={"a": job}, plans={"a": PlanRecord.of(job, [{}] * 30, planned_by=W1, at_ms=0)})
    planner = planner_of("a")
    mine = frozenset({planner, *(TaskId("a", index) for index in range(30))})
    group = record_of({W1: mine}, reason="w1 joined")
    lines = {}
    for state in (TaskState.RUNNING, TaskState.FINISHED):
        status = StatusSnapshot(group=group, workers={W1: worker(W1)}, tasks={planner: told(planner, state)})
        lines[state] = as_lines(describe(coordinator("w1"), jobs, status))
    assert {"  w1 (stable): planner running, 30 pending of a", "  job a: planner running, 30 pending"} < {
        *lines[TaskState.RUNNING]
    }
    assert {"  w1 (stable): 30 pending of a", "  job a: 30 pending"} < {*lines[TaskState.FINISHED]}


def test_what_runs_is_shown_before_what_waits() -> None:
    tasks = {A0: told(A0, TaskState.PENDING), A1: told(A1, TaskState.RUNNING)}
    console = Console(width=160)
    with console.capture() as captured:
        console.print(render("g", JOBS, replace(BUSY, tasks=tasks), wall_ms=0))
    assert "running: a:1  pending: a:0" in captured.get()


def test_the_error_of_an_attempt_before_is_not_told_as_that_of_the_last_one() -> None:
    error = "ConnectionError: reset"
    tasks = {A0: told(A0, TaskState.FINISHED, error=error), A1: told(A1, TaskState.PENDING, error=error)}
    again = replace(BUSY, tasks={task: replaced(last, attempt=2) for task, last in tasks.items()})
    lines = as_lines(describe(coordinator("w1", "w2"), JOBS, again))
    assert "  task a:0: finished at w1, attempt 2, before that: ConnectionError: reset" in lines
    assert "  task a:1: pending at w1, attempt 2, before that: ConnectionError: reset" in lines


def test_a_task_that_waits_for_its_first_start_is_told_though_its_worker_says_nothing_of_it() -> None:
    silent = replace(BUSY, tasks={task: told for task, told in BUSY.tasks.items() if task != A1})
    assert describe(coordinator("w2", "w1"), JOBS, silent) == describe(coordinator("w2", "w1"), JOBS, BUSY)
    assert page(JOBS, silent) == page(JOBS, BUSY)


def test_what_a_member_was_assigned_of_a_job_that_is_gone_is_not_shown() -> None:
    about = describe(coordinator("w1"), JobsSnapshot(), BUSY)
    assert about["members"][0]["assigned"] == []
    assert "  w1 (stable): nothing" in as_lines(about)


def test_a_group_of_java_workers_has_members_and_no_records() -> None:
    text = "\n".join(as_lines(describe(coordinator("java"), JobsSnapshot(), StatusSnapshot())))
    assert text.splitlines() == [
        "group g: Stable, protocol sessioned",
        "no rebalance has been recorded",
        "  java (no record): nothing",
    ]


def test_a_group_that_waits_for_its_first_worker_has_jobs() -> None:
    unknown = coordinator(state="Dead", error=KafkaErrorCode.GROUP_ID_NOT_FOUND)
    text = "\n".join(as_lines(describe(unknown, JOBS, StatusSnapshot())))
    assert text.splitlines()[0] == "group g: no worker is in it"
    assert text.splitlines()[-1] == "  jobs that wait for a worker: a"


def ended(*states: tuple[WorkerPhase, int]) -> StatusSnapshot:
    """The group with its workers' last words, and when they said them."""
    said = dict(zip((W1, W2), states, strict=True))
    return replace(BUSY, workers={name: replace(worker(name, state), at_ms=ms) for name, (state, ms) in said.items()})


@pytest.mark.parametrize(
    ("status", "empty"),
    [
        (
            ended((WorkerPhase.LEFT, 60_000), (WorkerPhase.LEFT, 61_900)),
            "all workers have left, the last one at 1970-01-01 00:01:01 UTC, epoch 5",
        ),
        (
            ended((WorkerPhase.LEFT, 60_000), (WorkerPhase.STABLE, 5_000)),
            "no worker is there: w2 got lost, 1 has left in order; last heard of at 1970-01-01 00:01:00 UTC, epoch 5",
        ),
        (
            ended((WorkerPhase.DEFERRED, 60_000), (WorkerPhase.STABLE, 5_000)),
            "no worker is there: w1, w2 got lost; last heard of at 1970-01-01 00:01:00 UTC, epoch 5",
        ),
    ],
)
def test_of_a_group_that_all_have_left_is_told_what_was(status: StatusSnapshot, empty: str) -> None:
    lines = as_lines(describe(coordinator(state="Empty"), JOBS, status))
    assert lines[:3] == ["group g: Empty", empty, "  because: w2 joined"]


def test_a_worker_was_last_heard_of_when_it_told_how_far_its_tasks_were() -> None:
    stream = StreamProgress(batch=3, rows_per_second=1.0, at_ms=90_000)
    tasks = {A0: replaced(told(A0, TaskState.RUNNING), progress=stream), A1: told(A1, TaskState.PENDING)}
    lost = replace(ended((WorkerPhase.STABLE, 60_000), (WorkerPhase.STABLE, 5_000)), tasks=tasks)
    empty = describe(coordinator(state="Empty"), JOBS, lost)["empty"]
    assert empty == "no worker is there: w1, w2 got lost; last heard of at 1970-01-01 00:01:30 UTC, epoch 5"


def test_of_workers_that_have_left_until_they_can_run_something_is_told_what_keeps_them() -> None:
    left = ended((WorkerPhase.LEFT, 60_000), (WorkerPhase.LEFT, 60_000)).workers
    away = replace(BUSY, workers={W1: left[W1], W2: replace(left[W2], condition="no Spark master")})
    empty = describe(coordinator(state="Empty"), JOBS, away)["empty"]
    assert empty.endswith("epoch 5; w2 stands back: no Spark master")


class Broker:
    """Answers as a new one does: its coordinator comes only after it was asked some times."""

    def __init__(self, *errors: KafkaErrorCode) -> None:
        self.errors = list(errors)

    def _error(self) -> KafkaErrorCode:
        return self.errors.pop(0) if self.errors else KafkaErrorCode.NONE

    async def describe(self, _groups: list[str]) -> list[GroupDescription]:
        return [coordinator("w1", error=self._error())]

    async def list_groups(self) -> ListGroupsResponse:
        listed = ListedGroup(group_id="g", protocol_type="connect", state="Stable")
        return ListGroupsResponse(error=self._error(), groups=(listed,))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Broker]:
    """The command is run against such a broker from now on."""

    def ask(*errors: KafkaErrorCode) -> Broker:
        broker = Broker(*errors)

        @asynccontextmanager
        async def transport(_settings: object) -> AsyncIterator[Broker]:
            yield broker

        monkeypatch.setattr(groups_module, "shared_transport", transport)
        monkeypatch.setattr(groups_module, "GroupTopics", lambda _settings, _group: MemoryTopics("g"))
        monkeypatch.setattr(groups_module, "list_groups", lambda _settings: [])
        monkeypatch.setattr(groups_module, "_AGAIN_S", 0.01)
        return broker

    return ask


NOT_YET = [KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


@pytest.mark.parametrize("action", [("describe", "g"), ("list",)], ids=["describe", "list"])
def test_a_broker_that_has_just_begun_is_asked_until_it_knows(
    action: tuple[str, ...], asked: Callable[..., Broker], capsys: pytest.CaptureFixture[str]
) -> None:
    broker = asked(*NOT_YET, KafkaErrorCode.NOT_COORDINATOR)
    assert main(["groups", *action, "--bootstrap-servers", "nowhere:9"]) == 0
    told = capsys.readouterr()
    assert (broker.errors, told.err) == ([], "")
    assert "g: Stable" in told.out


def test_a_cluster_that_never_has_a_coordinator_is_not_asked_for_ever(
    asked: Callable[..., Broker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "DEFAULT_TIMEOUT_S", 0.1)
    asked(*NOT_YET[:1] * 10_000)
    assert main(["groups", "describe", "g", "--bootstrap-servers", "nowhere:9"]) == 2
    told = capsys.readouterr()
    assert "COORDINATOR_NOT_AVAILABLE for 0.1 s" in told.err
    assert "offsets.topic.replication.factor" in told.err


def test_what_will_not_change_is_told_at_once(asked: Callable[..., Broker], capsys: pytest.CaptureFixture[str]) -> None:
    broker = asked(*[KafkaErrorCode.GROUP_AUTHORIZATION_FAILED] * 2)
    assert main(["groups", "describe", "g", "--bootstrap-servers", "nowhere:9"]) == 2
    assert len(broker.errors) == 1
    assert "no right to DESCRIBE it" in capsys.readouterr().err


def test_the_list_tells_of_a_group_that_all_have_left_what_was(
    asked: Callable[..., Broker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked()
    status = ended((WorkerPhase.LEFT, 60_000), (WorkerPhase.LEFT, 61_900))

    async def read(
        _settings: object, group: str, *, timeout_s: float, tell: Callable[[], None]
    ) -> tuple[JobsSnapshot, StatusSnapshot, bool]:
        assert (group, timeout_s) == ("left", 5.0)
        return JobsSnapshot(), status, True

    monkeypatch.setattr(groups_module, "list_groups", lambda _settings: ["g", "left"])
    monkeypatch.setattr(groups_module, "_read_topics", read)
    monkeypatch.setattr(declarative_groups, "read_groups", lambda _settings, *, timeout_s, only=None: {})
    assert main(["groups", "list", "--bootstrap-servers", "nowhere:9"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "g: Stable",
        "left: all workers have left, the last one at 1970-01-01 00:01:01 UTC, epoch 5",
    ]
