"""Who is to blame for failures, and where a failed task is tried again: what the records of all tasks together say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from blamed_group import A0, A1, A2, A3, BATCH, BOOM, NOW, W1, W2, W3, Blamed, failed_beside_healthy, said
from led_group import member

from airflow_provider.assignment.model import TriedElsewhere
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.member.events import PerformAssignment
from airflow_provider.group.live.classic.leading import gather_call
from airflow_provider.state.blame.evidence import Evidence, able, found_a_place
from airflow_provider.state.records import TaskKind, TaskState, WorkerPhase
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.rounds.causes import FREE_SLOT, TRIED_ELSEWHERE
from airflow_provider.state.views.slots.free_slots import spare_capacity
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, GenerationId, MemberId, SubProtocol, TaskId

RAN_LONG = {"started_at_ms": NOW - 60_000}


# ---- a second try elsewhere


def test_a_task_that_has_failed_is_tried_next_where_something_goes_well() -> None:
    assert failed_beside_healthy().places == {A0: W2}


@pytest.mark.parametrize(
    "well",
    [
        {"progress": BATCH},
        {"progress": None, **RAN_LONG},
        {"state": TaskState.FINISHED, "finished_at_ms": NOW - 1_000},
    ],
    ids=["a stream commits batches", "a task has run for a minute", "a task has finished"],
)
def test_what_shows_that_a_worker_can_run_tasks(well: dict[str, Any]) -> None:
    group = failed_beside_healthy()
    group.tell(A2, **well)
    assert able(group.status, wall_ms=NOW) == {W2}
    assert group.places == {A0: W2}


@pytest.mark.parametrize(
    "nothing",
    [
        {"progress": None, "started_at_ms": NOW - 1_000},
        {"progress": BATCH, **RAN_LONG, "stalled_since_ms": NOW - 1_000},
        {"state": TaskState.PENDING, "progress": BATCH},
        {"state": TaskState.FINISHED, "finished_at_ms": NOW - 3_600_000},
        {"state": TaskState.FAILED, "finished_at_ms": NOW},
    ],
    ids=["it has just started", "it is stalled", "it waits", "it finished an hour ago", "it has failed"],
)
def test_what_shows_nothing(nothing: dict[str, Any]) -> None:
    group = failed_beside_healthy()
    group.tell(A2, **nothing)
    assert not able(group.status, wall_ms=NOW)
    assert group.places == {}


@pytest.mark.parametrize(
    "gone",
    [
        {"state": WorkerPhase.LEFT, "condition": "no Java"},
        {"state": WorkerPhase.STOPPING},
        {"slots": 0},
        {"leaves_soon": True},
    ],
    ids=["it stands back", "it leaves", "it drains", "it leaves soon"],
)
def test_a_worker_that_does_not_stay_is_no_better_place(gone: dict[str, Any]) -> None:
    group = failed_beside_healthy()
    group.say(W2, **gone)
    assert group.places == {}


def test_a_worker_that_airflow_does_not_start_is_no_better_place() -> None:
    """No round would move the task there, and leaders would ask for one again and again."""
    group = failed_beside_healthy()
    group.say(W2, state=WorkerPhase.DEFERRED)
    assert group.places == {A0: W2}
    lost = said(W3, state=WorkerPhase.DEFERRED, awaits=Awaited.PROCESS, at_ms=NOW)
    group.status = replace(group.status, workers={**group.status.workers, W3: lost})
    assert group.places == {}, "what holds back another one may hold it back, too"
    group = failed_beside_healthy()
    group.say(W2, state=WorkerPhase.DEFERRED, awaits=Awaited.PROCESS)
    assert group.places == {}


def test_a_worker_whose_slots_streams_keep_is_no_better_place() -> None:
    """The task would wait there for ever."""
    assert failed_beside_healthy(w2=2).places == {}
    assert failed_beside_healthy(w2=3).places == {A0: W2}


def test_one_whose_tasks_end_is() -> None:
    group = Blamed({"w1": "p", "w2": "r r r"}, w2=1)
    group.tell(A1, **RAN_LONG)
    group.fails(A0, W1)
    assert group.places == {A0: W2}


def test_many_are_spread_over_the_workers_with_free_slots() -> None:
    group = Blamed({"w1": "p p p p", "w2": "s", "w3": "s s"})
    for index in (4, 5):
        group.tell(TaskId("a", index), progress=BATCH)
    for task in (A0, A1, A2):
        group.fails(task, W1)
    assert group.places == {A0: W3, A1: W2, A2: W3} or group.places == {A0: W2, A1: W3, A2: W2}


def test_a_task_that_has_failed_on_two_workers_stays_where_it_is() -> None:
    """It is to blame itself, so a job that is wrong everywhere moves each of its tasks once."""
    group = failed_beside_healthy()
    group.fails(A0, W2, W1)
    assert group.places == {}


def test_one_that_is_there_already_has_no_better_place() -> None:
    """Its record is still that of the worker where it failed."""
    group = failed_beside_healthy()
    group.hand(A0, W2)
    assert group.places == {}
    assert found_a_place(group.jobs, group.status, wall_ms=NOW) == {A0}


@pytest.mark.parametrize("said", [TaskState.PENDING, TaskState.STOPPED])
def test_one_that_nobody_has_any_more_goes_there_too(said: TaskState) -> None:
    """The leader has taken it from its worker, which writes that it has given it up if the task claims a checkpoint."""
    group = failed_beside_healthy()
    group.tell(A0, state=said)
    taken = {**group.record.assignment, W1: group.record.owned_by(W1) - {A0}}
    group.status = replace(group.status, group=replace(group.record, assignment=taken))
    assert group.places == {A0: W2}


def test_it_may_be_moved_for_balance_again_when_it_has_run_for_long() -> None:
    group = failed_beside_healthy()
    group.hand(A0, W2)
    group.tell(A0, state=TaskState.RUNNING, worker=W2, started_at_ms=NOW - 599_000)
    assert found_a_place(group.jobs, group.status, wall_ms=NOW) == {A0}
    group.tell(A0, started_at_ms=NOW - 600_000)
    assert found_a_place(group.jobs, group.status, wall_ms=NOW) == NO_TASKS


@pytest.mark.parametrize(
    ("streams", "stays"), [("s s s", True), ("s s s s", False), ("s3 s", False), ("s r r r", True)]
)
def test_it_does_not_wait_for_ever_where_streams_have_come_before_it(streams: str, stays: bool) -> None:
    """Where it has failed, a slot is free."""
    group = Blamed({"w1": "p", "w2": streams})
    group.fails(A0, W1)
    group.hand(A0, W2)
    pinned = found_a_place(group.jobs, group.status, wall_ms=NOW)
    assert pinned == (frozenset({A0}) if stays else NO_TASKS)
    spare = spare_capacity(group.jobs, group.status, wall_ms=NOW, pinned=pinned)
    assert spare == (None if stays else FREE_SLOT)


@pytest.mark.parametrize("given_up", [TaskState.PENDING, TaskState.STOPPED])
def test_who_leads_a_round_knows_both(given_up: TaskState) -> None:
    group = failed_beside_healthy()
    command = PerformAssignment(
        seq=1,
        generation=GenerationId(6),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("w1"),
        last_completed=GenerationId(5),
        members=tuple(member(worker, group.record.owned_by(worker)) for worker in (W1, W2)),
        last_record=group.record,
        reason="",
    )
    call = gather_call(command, group.jobs, group.status, policy=Deferred(), at_ms=NOW)
    assert call.tried == TriedElsewhere(places={A0: W2})
    answer = lead(replace(call, reason=TRIED_ELSEWHERE))
    assert answer.record is not None
    assert answer.record.revoked == {W1: {A0}}
    group.status = replace(group.status, group=answer.record)
    group.tell(A0, state=given_up)
    command = replace(
        command,
        generation=GenerationId(7),
        last_completed=GenerationId(6),
        last_record=answer.record,
        members=tuple(member(worker, answer.record.owned_by(worker)) for worker in (W1, W2)),
    )
    answer = lead(gather_call(command, group.jobs, group.status, policy=Deferred(), at_ms=NOW))
    assert answer.record is not None
    assert answer.record.assignment == {W1: {A1}, W2: {A0, A2, A3}}
    assert "a task that has failed is tried on another worker" in answer.record.because


def test_who_leads_a_round_names_nobody_who_is_not_in_it() -> None:
    """A worker that has crashed can't write it, and looks as it did before."""
    group = Blamed({"w1": "p p", "w2": "s s", "w3": "s s"}, w2=8)
    for task in (A2, TaskId("a", 4)):
        group.tell(task, progress=BATCH)
    group.fails(A0, W1)
    assert group.places == {A0: W2}, "it has most free slots"
    command = PerformAssignment(
        seq=1,
        generation=GenerationId(6),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("w1"),
        last_completed=GenerationId(5),
        members=tuple(member(worker, group.record.owned_by(worker)) for worker in (W1, W3)),
        last_record=group.record,
        reason="",
    )
    call = gather_call(command, group.jobs, group.status, policy=Deferred(), at_ms=NOW)
    assert call.tried.places == {A0: W3}


def test_no_round_of_an_eager_group_stops_all_tasks_for_one_that_has_failed() -> None:
    group = failed_beside_healthy()
    group.status = replace(group.status, group=replace(group.record, protocol=SubProtocol.DEFAULT))
    assert group.places == {}


# ---- the last try


def all_failed(*, last_try: bool, well: bool = False) -> Blamed:
    """Both tasks of w1 have failed; of w2 nothing is known, or w1 has a stream that goes well."""
    group = Blamed({"w1": "p p s", "w2": "."}, retries=1)
    if well:
        group.tell(A2, progress=BATCH)
    for task in (A0, A1):
        group.fails(task, W1)
        group.tell(task, last_try=last_try)
    return group


def test_where_nothing_goes_well_a_task_is_not_failed_for_good_before_it_has_failed_elsewhere() -> None:
    assert all_failed(last_try=True).places == {A0: W2, A1: W2}


def test_with_retries_left_it_goes_nowhere_of_which_nothing_is_known() -> None:
    assert all_failed(last_try=False).places == {}


def test_where_others_go_well_a_task_that_has_used_up_its_retries_has_failed() -> None:
    assert all_failed(last_try=True, well=True).places == {}


# ---- whom the records blame


def gone_wrong_on_w1() -> tuple[Blamed, Evidence]:
    """Two streams have failed on w1, and now run on w2."""
    group, evidence = Blamed({"w1": "p p", "w2": "s"}), Evidence(W1)
    for task in (A0, A1):
        evidence.failed(task, BOOM)
        group.fails(task, W1)
        group.hand(task, W2)
        group.tell(task, state=TaskState.RUNNING, kind=TaskKind.STREAMING, worker=W2, progress=BATCH)
    return group, evidence


def verdict(evidence: Evidence, status: StatusSnapshot) -> str:
    return evidence.verdict(status, wall_ms=NOW)


def test_a_worker_is_blamed_for_what_fails_there_and_goes_well_elsewhere() -> None:
    group, evidence = gone_wrong_on_w1()
    assert verdict(evidence, group.status) == (
        "tasks fail here that go well elsewhere: a:0, a:1; the last one by ModuleNotFoundError: No module named"
        " 'kafka_source'"
    )


def test_a_single_task_proves_nothing() -> None:
    group, evidence = gone_wrong_on_w1()
    group.tell(A1, progress=None, started_at_ms=NOW)
    assert verdict(evidence, group.status) == ""
    group.tell(A1, **RAN_LONG)
    assert verdict(evidence, group.status)


def test_what_fails_on_two_workers_speaks_against_none_of_them() -> None:
    """The server of a source was away, or the job is wrong."""
    group, evidence = gone_wrong_on_w1()
    group.tell(A1, failed_on=(W1, W3))
    assert verdict(evidence, group.status) == ""


def test_what_goes_well_on_the_worker_speaks_for_it() -> None:
    group, evidence = gone_wrong_on_w1()
    group.tell(A2, worker=W1, progress=BATCH)
    assert verdict(evidence, group.status) == ""
    group.tell(A2, worker=W2)
    assert verdict(evidence, group.status) == "", "what failed before that is forgotten"
    group, evidence = gone_wrong_on_w1()
    evidence.went_well()
    assert verdict(evidence, group.status) == ""


def test_a_job_that_goes_well_nowhere_makes_no_worker_stand_back() -> None:
    group, evidence = gone_wrong_on_w1()
    for task in (A0, A1):
        group.tell(task, state=TaskState.FAILED, progress=None, failed_on=(W1, W2))
    assert verdict(evidence, group.status) == ""
