"""``cospark scale`` as a user sees it; the topics are in memory, ``tests/integration`` has real ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from airflow_values import group_record
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands import scale as scale_module
from airflow_provider.cli.main import main
from airflow_provider.cli.shared import reading
from airflow_provider.kafka.topics.errors import NoTopicError
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    Lesson,
    PlanRecord,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.reports.groups.departures import departure_in_words
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.scaling import RULE
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, Epoch, MemberId, TaskId, WorkerId

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
ALL = "to have all workers leave, use cospark workers drain --all"
NONE = "scaling down only asks workers to leave, and starts none"
DRAIN = (
    "this group learns no tasks: they start no more tasks, and leave when their running tasks have finished;"
    " others adopt their detached streams"
)
T0, T1 = TaskId("job", 0), TaskId("job", 1)


class Cli:
    """Runs ``cospark scale`` over a group in memory: w1 and w2 have a task each, w3 none."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.topics = MemoryTopics("g")
        self._capsys = capsys
        members = {worker: MemberId(worker) for worker in (W1, W2, W3)}
        assignment = {W1: frozenset({T0}), W2: frozenset({T1}), W3: frozenset[TaskId]()}
        learning = {W1: frozenset({T1})}
        asyncio.run(self._made(group_record(5, members=members, assignment=assignment, learning=learning)))

    async def _made(self, record: object) -> None:
        job = JobDefinition(name="job", entry_point="m:f", max_tasks=9)
        await self.topics.submit(job)
        await self.topics.publish_plan(PlanRecord.of(job, [{}, {}], planned_by=W1, at_ms=1))
        await self.topics.publish_group(record)  # type: ignore[arg-type]
        for worker in (W1, W2, W3):
            await self.topics.publish_worker(said(worker))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        status = main(["scale", "g", *arguments, "--bootstrap-servers", "nowhere:9"])
        told = self._capsys.readouterr()
        return status, told.out, told.err

    @property
    def wishes(self) -> dict[WorkerId, ControlRecord]:
        return dict(self.topics.jobs.controls)


def said(worker: WorkerId, **changes: object) -> WorkerStatus:
    return replace(
        WorkerStatus(worker=worker, state=WorkerPhase.STABLE, epoch=Epoch(5), slots=1),
        **changes,  # type: ignore[arg-type]
    )


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    made = Cli(capsys)

    async def reach(_settings: object) -> None: ...

    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: made.topics)
    monkeypatch.setattr(scale_module, "_SETTLE_S", 0.0)
    return made


@pytest.fixture
def leaving(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked says that it leaves soon, then that it has left, then takes its wish back: each time that the
    command has told how far it is, and waits for something else to tell.
    """
    waited = cli.topics.wait_for

    async def leave_soon() -> None:
        for worker in cli.wishes:
            await cli.topics.publish_worker(said(worker, leaves_soon=True))
        await cli.topics.publish_worker(said(W1, learning=(Lesson(T1, 0.42, False),)))

    async def leave() -> None:
        await asyncio.sleep(0.01)
        for worker, wish in cli.wishes.items():
            await cli.topics.publish_worker(said(worker, leaves_soon=True, state=WorkerPhase.LEFT))
            await cli.topics.clear_control(wish)

    steps = iter((leave_soon, leave))

    async def wait_for(
        predicate: Callable[[JobsSnapshot, StatusSnapshot], bool], *, timeout_s: float | None = None
    ) -> None:
        if step := next(steps, None):
            await step()
        await waited(predicate, timeout_s=timeout_s)

    monkeypatch.setattr(cli.topics, "wait_for", wait_for)


def test_of_equal_ones_who_has_least_to_move_is_asked_and_it_says_who_and_why(cli: Cli) -> None:
    status, out, err = cli("--workers", "1", "--within", "90")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"group g: asked to leave: 2 of 3 workers, 1 stays ({RULE})",
        "  w3: has 1 slot, and no task",
        "  w1: has 1 slot, runs 0 of 1 task",
        DRAIN,
    ]
    assert {(wish.action, wish.within_ms) for wish in cli.wishes.values()} == {(ControlAction.LEAVE_SOON, 90_000)}
    assert cli.wishes.keys() == {W1, W3}


def test_a_dry_run_asks_nobody(cli: Cli) -> None:
    status, out, _ = cli("--to", "50%", "--dry-run")
    assert (status, out) == (
        0,
        f"group g: would be asked to leave: 1 of 3 workers, 2 stay ({RULE})\n  w3: has 1 slot, and no task\n{DRAIN}\n",
    )
    assert cli.wishes == {}
    about = json.loads(cli("--to", "50%", "--dry-run", "--json")[1])
    assert about == {
        "group": "g",
        "dry_run": True,
        "learns": False,
        "asked": ["w3"],
        "going": [],
        "stay": ["w1", "w2"],
        "to_move": {"w3": {"slots": 1, "stateful": 0, "running": 0, "tasks": 0}},
    }


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("--to", "80"), 2, "--to: '80' must be a percentage of the present workers, such as 80%"),
        (("--to", "0%"), 2, f"--to: '0%' would leave no worker: {ALL}"),
        (("--workers", "0"), 2, f"--workers: 0 would leave no worker: {ALL}"),
        (("--workers", "3"), 2, "group 'g': no worker is left to ask: it has 3 workers, and 3 stay"),
        (("--workers", "9"), 2, f"group 'g': it has 3 workers, and 9 would be more: {NONE}"),
        (("--without", "w3", "w9"), 1, "group 'g': w9: not in it; in it: w1, w2, w3"),
        (("--without", "w3", "w2", "w1"), 2, f"group 'g': no worker would stay: {ALL}"),
        (("--without", "w3", "--timeout", "5"), 2, "--timeout needs --wait"),
    ],
)
def test_what_can_not_be_done_is_said_and_nobody_is_asked(
    cli: Cli, arguments: tuple[str, ...], status: int, told: str
) -> None:
    assert cli(*arguments) == (status, "", f"cospark scale: {told}\n")
    assert cli.wishes == {}


@pytest.mark.parametrize(
    "arguments",
    [(), ("--to", "80%", "--workers", "2"), ("--workers", "x"), ("--without",), ("--to", "80%", "--within", "-1")],
)
def test_what_is_no_question_is_answered_with_the_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli(*arguments)
    assert ended.value.code == 2
    assert cli.wishes == {}


def test_a_group_that_does_not_exist(cli: Cli) -> None:
    cli.topics.failing = NoTopicError("g.jobs")
    status, _, told = cli("--workers", "1")
    assert (status, "g.jobs" in told) == (1, True)


def test_it_shows_how_far_they_are_until_they_have_left(cli: Cli, leaving: None) -> None:
    status, out, err = cli("--without", "w2", "--wait", "--timeout", "20")
    assert (status, err) == (0, "")
    first, leaver, follows, *lines = out.splitlines()
    assert first == f"group g: asked to leave: 1 of 3 workers, 2 stay ({RULE})"
    assert leaver == "  w2: has 1 slot, runs 0 of 1 task"
    assert follows == DRAIN
    steps = [line.rpartition(",")[0] for line in lines]
    assert steps[0] == "0 of 1 have left; w2 (stable): 1 task, w1 learns job:1 of w2 (warming, 0 %)"
    assert "0 of 1 have left; w2 (stable, leaves soon): 1 task, w1 learns job:1 of w2 (warming, 42 %)" in steps
    assert steps[-1] == "it has left"


def test_as_json_it_says_who_has_left_and_how_long_that_took(cli: Cli, leaving: None) -> None:
    status, out, err = cli("--without", "w2", "w3", "--wait", "--json")
    assert status == 0
    about = json.loads(out)
    assert (about["left"], about["still_there"], about["drained"]) == (["w2", "w3"], [], [])
    assert 0 < about["seconds"] < 20
    assert err.splitlines()[-1].startswith("all 2 have left, ")


def test_it_does_not_wait_for_ever(cli: Cli) -> None:
    status, out, err = cli("--without", "w2", "--wait", "--timeout", "0.5")
    assert (status, err) == (1, "cospark scale: after 0.5 s these have not left: w2\n")
    assert out.splitlines()[-1].startswith(
        "0 of 1 have left; w2 (stable): 1 task, w1 learns job:1 of w2 (warming, 0 %), "
    )
    status, out, _ = cli("--without", "w2", "--wait", "--timeout", "0", "--json")
    assert (status, json.loads(out)["still_there"]) == (1, ["w2"])


def test_of_many_that_are_learned_it_names_a_few(cli: Cli) -> None:
    """A worker may have thousands of tasks, and a line is written whenever one of them has got further."""
    tasks = frozenset(TaskId("job", index) for index in range(9))
    members = {worker: MemberId(worker) for worker in (W1, W2)}
    record = group_record(6, members=members, assignment={W1: NO_TASKS, W2: tasks}, learning={W1: tasks})
    lessons = tuple(Lesson(TaskId("job", index), 1.0, True) for index in range(4))

    async def go_on() -> None:
        await cli.topics.publish_control(ControlRecord(worker=W2, action=ControlAction.LEAVE_SOON, at_ms=1))
        await cli.topics.publish_group(record)
        await cli.topics.publish_worker(said(W1, learning=lessons))

    asyncio.run(go_on())
    words = departure_in_words([W2], cli.topics.jobs, cli.topics.status)
    assert words.count("learns") == 5
    assert words.endswith("w1 learns job:4 of w2 (warming, 0 %), and 4 more are learned; of all 9, 4 are ready")
