"""What people and DAGs are told of tasks that are made ready before they move: who learns them, whose they are, how far
that is.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record, group_snapshot, job, jobs_snapshot
from rich.console import Console
from stand_ins import MemoryTopics

from airflow_provider.assignment.model import Load, Move, MoveReason
from airflow_provider.cli.group_commands import deserted
from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import render
from airflow_provider.cli.main import main
from airflow_provider.cli.shared import reading
from airflow_provider.kafka.group_requests.messages import DescribedMember, GroupDescription
from airflow_provider.state.metrics.missing_slots import NO_ROOM
from airflow_provider.state.records import FailedWarmUp, Lesson, PlanRecord, WorkerPhase
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.learners import GivenUp, LearnerTask, given_up, learners
from airflow_provider.state.reports.narration import epoch_in_words
from airflow_provider.state.reports.report import GroupReport, JobReport
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, TaskId, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
T0, T1, T2 = (TaskId("job", index) for index in range(3))
JOBS = jobs_snapshot(job(), tasks=3)
WARMING = {"task": ["job", 0], "learner": "w2", "learned": "w1", "state": "warming", "progress": 0.429, "ready": False}
READY = {"task": ["job", 2], "learner": "w2", "learned": None, "state": "ready", "progress": 1.0, "ready": True}


def taught(*lessons: Lesson, by: WorkerId = W2, **changes: Any) -> StatusSnapshot:
    """w1 has job:0, w2 has job:1; one of them learns something, as its leader wants it to."""
    learning = {by: frozenset(lesson.task for lesson in lessons)} if lessons else {}
    status = group_snapshot(5, learning=learning)
    learner = replace(status.workers[by], learning=lessons, **changes)
    return replace(status, workers={**status.workers, by: learner})


LEARNS = taught(Lesson(T2, 1.0, True), Lesson(T0, 0.429, False))
COORDINATOR = GroupDescription(
    error=KafkaErrorCode.NONE,
    group_id="g",
    state="Stable",
    protocol_type="connect",
    protocol="extensible",
    members=tuple(
        DescribedMember(
            member_id=MemberId(name),
            group_instance_id=WorkerId(name),
            client_id="",
            client_host="",
            metadata=b"",
            assignment=b"",
        )
        for name in ("w1", "w2")
    ),
)


def test_each_is_told_with_its_three_marks() -> None:
    assert [learner.to_json() for learner in learners(LEARNS)] == [WARMING, READY]
    assert [LearnerTask.from_json(json.loads(json.dumps(each))) for each in (WARMING, READY)] == list(learners(LEARNS))
    assert [learner.in_words(JOBS.label) for learner in learners(LEARNS)] == [
        "w2 learns job:0 of w1 (warming, 42 %)",
        "w2 learns job:2, which nobody has (ready)",
    ]


def test_what_a_worker_has_said_nothing_of_yet_is_at_its_beginning() -> None:
    """The round says that it learns that; a word of what it does not learn any more is an old one."""
    status = replace(LEARNS, group=group_record(6, learning={W2: frozenset({T0})}))
    assert [learner.progress for learner in learners(status)] == [0.429]
    silent = replace(status, workers={})
    assert [(learner.task, learner.learner, learner.how_far) for learner in learners(silent)] == [
        (T0, "w2", "warming, 0 %")
    ]


def failing() -> StatusSnapshot:
    """w2 has failed at job:0, which stays at w1; of job:2 it only took too long."""
    status = taught(Lesson(T0, 0.0, False), failed_warm_ups=(FailedWarmUp(T0, "no table"),))
    assert status.group is not None
    return replace(status, group=replace(status.group, given_up={W2: frozenset({T0, T2})}))


def test_what_failed_is_told_as_long_as_it_is_learned_and_what_was_given_up_with_its_error() -> None:
    status = failing()
    assert [(one.state, one.how_far) for one in learners(status)] == [("failed", "failed")]
    assert LearnerTask.from_json(learners(status)[0].to_json()) == learners(status)[0]
    told = given_up(status)
    assert [one.in_words(JOBS.label) for one in told] == [
        "w2 could not make ready job:0, which stays at w1: no table",
        "w2 could not make ready job:2",
    ]
    assert [GivenUp.from_json(json.loads(json.dumps(one.to_json()))) for one in told] == list(told)
    assert given_up(replace(status, group=None)) == ()


def test_what_took_too_long_is_said_by_a_worker_that_was_there_all_the_time() -> None:
    status = failing()
    there = replace(status.workers[W2], member_id=MemberId("w2-member"))
    told = given_up(replace(status, workers={**status.workers, W2: there}))
    assert [one.error for one in told] == ["no table", "it took longer than the timeout of learners"]
    anew = replace(there, member_id=MemberId("w2-anew"), failed_warm_ups=())
    assert [one.error for one in given_up(replace(status, workers={**status.workers, W2: anew}))] == ["", ""]


def test_pages_and_reports_say_what_was_given_up() -> None:
    status = failing()
    said = "  w2 could not make ready job:0, which stays at w1: no table"
    assert said in page(status)
    assert "failed: job:0 of w1" in page(status)
    assert said in as_lines(json.loads(json.dumps(describe(COORDINATOR, JOBS, status))))
    report = GroupReport.of(JOBS, status)
    assert report is not None
    assert [one["error"] for one in report.to_json()["given_up"]] == ["no table", ""]
    assert status.group is not None
    assert "  w2 could not make ready job:0, job:2: left where it is" in list(epoch_in_words(status.group, W1))


def test_who_has_left_learns_nothing() -> None:
    assert learners(taught(Lesson(T0, 0.5, False), state=WorkerPhase.LEFT)) == ()
    assert learners(replace(LEARNS, group=None)) == ()
    assert learners(replace(LEARNS, group=group_record(6))) == ()


def test_a_workers_log_says_what_is_learned_by_whom_and_why() -> None:
    why = Move(tasks=frozenset({T0}), source=W1, target=W2, reason=MoveReason.BALANCE, load=Load(3, 2))
    leaves = Move(tasks=frozenset({T2}), source=WorkerId("w3"), target=W2, reason=MoveReason.LEAVING)
    record = group_record(
        5, learning={W2: frozenset({T0, T2})}, learned={W1: frozenset({T0})}, lessons=(why, leaves), moves=()
    )
    _, *lines = epoch_in_words(record, W2)
    assert lines == [
        "  w2 learns job:0 of w1: w1 has 3 tasks, its share is 2",
        "  w2 learns job:2 of w3: w3 is leaving",
        "  This worker has job:1",
        "  It learns job:0, job:2",
    ]
    assert list(epoch_in_words(record, W1))[-1] == "  Others learn job:0 of it"
    many = replace(why, tasks=frozenset(TaskId("job", index) for index in range(25)))
    assert "  ... and 5 more are learned" in list(epoch_in_words(replace(record, lessons=(many,)), W1))


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (Move(tasks=frozenset({T0}), source=W1, target=W2, reason=MoveReason.LEARNED), "moves from w1 to w2: it has"),
        (Move(tasks=frozenset({T0}), source=W1, target=None, reason=MoveReason.LEARNED), "stops on w1: another worker"),
        (Move(tasks=frozenset({T0}), source=None, target=W1, reason=MoveReason.NOT_READY), "starts on w1: no learner"),
        (Move(tasks=frozenset({T0}), source=W1, target=None, reason=MoveReason.LEAVING), "stops on w1: w1 is leaving"),
    ],
)
def test_moves_that_learning_makes_are_told_with_their_reasons(move: Move, words: str) -> None:
    assert any(line.startswith(f"  job:0 {words}") for line in epoch_in_words(group_record(5, moves=(move,)), W1))


def test_what_sensors_pass_on_has_them() -> None:
    group, one = GroupReport.of(JOBS, LEARNS), JobReport.of("job", JOBS, LEARNS)
    assert group is not None
    assert one is not None
    assert json.loads(json.dumps(group.to_json()))["learners"] == [WARMING, READY]
    assert json.loads(json.dumps(one.to_json()))["learners"] == [WARMING, READY]
    leaving = GroupReport.of(JOBS, group_snapshot(5, leaving_soon=frozenset({W2})))
    assert leaving is not None
    assert leaving.to_json()["leaving"] == ["w2"]
    other = JobReport.of("other", jobs_snapshot(job("other"), tasks=1), LEARNS)
    assert other is not None
    assert other.to_json()["learners"] == [], "they are of another job"


def test_a_report_says_who_leaves_soon_and_who_drains() -> None:
    report = GroupReport.of(JOBS, taught(leaves_soon=True))
    assert report is not None
    workers = report.to_json()["workers"]
    assert [(workers[name]["leaves_soon"], workers[name]["drains"]) for name in ("w1", "w2")] == [
        (False, False),
        (True, False),
    ]


def test_groups_describe_lists_them() -> None:
    about = describe(COORDINATOR, JOBS, LEARNS)
    assert about["learners"] == [WARMING, READY]
    lines = as_lines(json.loads(json.dumps(about)))
    assert "  w2 learns job:0 of w1 (warming, 42 %)" in lines
    assert "  w2 learns job:2, which nobody has (ready)" in lines


def test_many_are_counted_unless_all_are_asked_for() -> None:
    lessons = [Lesson(TaskId("job", index), 0.5, index % 2 == 0) for index in range(10, 40)]
    about = describe(COORDINATOR, JOBS, taught(*lessons))
    lines = [line for line in as_lines(about) if " learn" in line]
    assert len(lines) == 21
    assert lines[-1] == "  and 10 more are learned; of all 30, 15 are ready"
    assert len([line for line in as_lines(about, tasks=True) if " learn" in line]) == 30


def page(status: StatusSnapshot) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(render("g", JOBS, status, wall_ms=0))
    return captured.get()


def test_the_page_of_a_group_shows_them_at_who_learns_and_at_whose_they_are() -> None:
    shown = page(LEARNS)
    (owner,) = (line for line in shown.splitlines() if "│ w1 " in line)
    (learner,) = (line for line in shown.splitlines() if "│ w2 " in line)
    assert "pending: job:0  learned: job:0 by w2" in owner
    assert "pending: job:1  ready: job:2 of nobody  warming: job:0 of w1 (42 %)" in learner
    assert "learned" not in page(group_snapshot(5))
    assert "stable, leaves soon" in page(taught(leaves_soon=True))
    assert "stable, drains, because the group learns no tasks" in page(taught(leaves_soon=True, slots=0))


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> MemoryTopics:
    made = MemoryTopics("g")

    async def reach(_settings: object) -> None: ...

    async def seems_deserted(_group: str, _settings: object) -> bool:
        return False

    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(deserted, "seems_deserted", seems_deserted)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: made)
    return made


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["status", "g", "--json", "--bootstrap-servers", "nowhere:9"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_status_of_a_group_as_json(topics: MemoryTopics, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys) == {"group": "g", "epoch": None, "room": NO_ROOM.to_json(), "jobs": {}}

    async def begin() -> None:
        await topics.submit(job())
        await topics.publish_plan(PlanRecord.of(job(), [{}, {}, {}], planned_by=W1, at_ms=1))
        assert LEARNS.group is not None
        await topics.publish_group(LEARNS.group)
        for worker in LEARNS.workers.values():
            await topics.publish_worker(worker)

    asyncio.run(begin())
    about = told(capsys)
    assert (about["group"], about["epoch"], about["members"]) == ("g", 5, ["w1", "w2"])
    assert about["learners"] == [WARMING, READY]
    assert (about["jobs"]["job"]["state"], about["jobs"]["job"]["tasks"]) == ("running", 3)
