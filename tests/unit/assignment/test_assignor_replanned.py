"""``planned-anew-stays-put``: what is not configured only while its job is planned anew stays where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import led_group
from assignor_group import Group, tasks_in, tasks_of

from airflow_provider.assignment.model import Memory, MoveReason
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.member.events import JoinedMember, PerformAssignment
from airflow_provider.group.classic.wire.v1 import encode_metadata
from airflow_provider.group.live.classic.leading import gather_call
from airflow_provider.state.records import PlanRecord
from airflow_provider.state.reports.narration import move_in_words
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.round_json import memory_from_json, memory_to_json
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import (
    NO_TASKS,
    Assignment,
    ConfigOffset,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)

W1, W2, W3 = (WorkerId(f"w{number}") for number in range(1, 4))


def crossed_group() -> Group:
    """Two workers, of which each has what a fresh deal would give to the other."""
    group = Group({"a": 4})
    group.named = True
    planner = tasks_of({"a": 0})
    group.join("w1", owning=frozenset({TaskId("a", 1), TaskId("a", 3)}))
    group.join("w2", owning=frozenset({TaskId("a", 0), TaskId("a", 2)}) | planner)
    group.memory = Memory(generation=group.last_completed, assignment=dict(group.owned), members=frozenset(group.owned))
    return group


def plan_anew(group: Group, tasks: int) -> None:
    """The job is submitted otherwise: its tasks are stopped, a round gives out the planner, then there is a plan."""
    group.jobs = {"a": 0}
    group.owned = {worker: share - tasks_in(share) for worker, share in group.owned.items()}
    group.rebalance()
    group.memory = memory_from_json(memory_to_json(group.memory))
    group.jobs = {"a": tasks}


def test_each_task_stays_where_it_was() -> None:
    group = crossed_group()
    before = dict(group.owned)
    plan_anew(group, 4)
    outcome = group.rebalance()
    assert group.owned == before
    assert {(move.source == move.target, move.reason) for move in outcome.moves} == {(True, MoveReason.NEW)}
    assert move_in_words(TaskId("a", 1), outcome.moves[0]) == "a:1 starts on w1: its job was planned again"


def test_what_is_still_being_stopped_in_the_round_of_the_planner_stays_too() -> None:
    group = crossed_group()
    before = dict(group.owned)
    group.jobs = {"a": 0}
    assert any(group.rebalance().revoked.values())
    group.rebalance()
    group.jobs = {"a": 4}
    group.rebalance()
    assert group.owned == before


def test_they_stay_over_further_rounds_without_a_plan() -> None:
    group = crossed_group()
    before = dict(group.owned)
    plan_anew(group, 0)
    group.join("w3")
    group.rebalance()
    group.leave("w3")
    group.rebalance()
    group.jobs = {"a": 4}
    group.rebalance()
    assert {worker: tasks_in(share) for worker, share in group.owned.items()} == {
        worker: tasks_in(share) for worker, share in before.items()
    }


def test_nobody_gets_more_than_its_share() -> None:
    group = crossed_group()
    plan_anew(group, 4)
    group.join("w3")
    outcome = group.rebalance()
    assert group.task_counts() == [1, 1, 2]
    assert not any(outcome.revoked.values())
    (taken,) = tasks_in(group.owned[W3])
    assert any(taken in move.tasks and move.source in (W1, W2) and move.target == W3 for move in outcome.moves)


def test_what_the_new_plan_has_not_is_forgotten_with_the_job() -> None:
    group = crossed_group()
    plan_anew(group, 2)
    group.rebalance()
    assert set().union(*group.memory.former.values()) == {TaskId("a", 2), TaskId("a", 3)}
    group.jobs = {}
    group.rebalance()
    assert group.memory.former == {}


def test_a_member_without_a_name_is_not_known_to_be_the_same() -> None:
    group = crossed_group()
    group.named = False
    plan_anew(group, 4)
    group.rebalance()
    assert tasks_in(group.owned[W1]) == {TaskId("a", 0), TaskId("a", 2)}, "dealt out by the index, as in Connect"


def test_a_record_of_an_older_release_remembers_none() -> None:
    data = memory_to_json(Memory(former={W1: NO_TASKS}))
    del data["former"]
    assert memory_from_json(data).former == {}


def member(worker: WorkerId, owned: Tasks) -> JoinedMember:
    has = Assignment(version=1, assigned=owned)
    state = WorkerState(version=1, url="", config_offset=ConfigOffset(0), assignment=has)
    return JoinedMember(member_id=MemberId(worker), instance_id=worker, metadata=encode_metadata(state))


def round_of(jobs: JobsSnapshot, group: led_group.Group, owned: Mapping[WorkerId, Tasks]) -> ClassicRecord:
    """What the leader of the group makes of what its members have; it becomes the group's last round."""
    members = tuple(member(worker, tasks) for worker, tasks in owned.items())
    command = PerformAssignment(
        seq=1,
        generation=GenerationId(group.record.generation + 1),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId(W1),
        last_completed=group.record.generation,
        members=members,
        reason="new work",
    )
    record = lead(gather_call(command, jobs, group.status, policy=Deferred(), at_ms=0)).record
    assert record is not None
    group.status = replace(group.status, group=ClassicRecord.from_json(record.to_json()))
    return record


def test_a_stream_whose_job_gets_another_config_goes_on_where_its_checkpoint_is_warm() -> None:
    group = led_group.Group({"w2": "s s", "w1": "s s"})
    before = group.record.assignment
    memory = Memory(generation=group.record.generation, assignment=before, members=frozenset({W1, W2}))
    group.status = replace(group.status, group=replace(group.record, memory=memory))
    other = replace(group.job, config={"other": True})
    unplanned = replace(group.jobs, jobs={"a": other})
    stopped = dict.fromkeys(before, NO_TASKS)
    planner = round_of(unplanned, group, stopped).assignment
    assert tasks_in(NO_TASKS.union(*planner.values())) == NO_TASKS
    plan = PlanRecord.of(other, group.jobs.plans["a"].configs, planned_by=W1, at_ms=0)
    planned = round_of(replace(unplanned, plans={"a": plan}), group, stopped)
    assert {worker: tasks_in(tasks) for worker, tasks in planned.assignment.items()} == before
