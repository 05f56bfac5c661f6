"""What a member is given to compute a target from, and what the coordinator installs of what it hands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from assigned_group import ids, jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import reply_to

from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import Assignment, WorkerFacts
from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.assignors.prepared import Prepared
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.coordinator.handlers.installing import (
    installed,
    invalid,
    prepare,
    prepared_reply,
)
from airflow_provider.group.declarative.coordinator.settings import GroupConfiguration
from airflow_provider.group.declarative.member.computing import group_of
from airflow_provider.group.declarative.member.computing import installed as handed
from airflow_provider.group.declarative.protocol.model import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberEpoch,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    Reply,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    request_of,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.values.model import MemberId, TaskId, Tasks

patient = settings(deadline=None)
W1, W2, W3 = ids(("w1", "w2", "w3"))
G = "g"
ASSIGNOR = CooperativeAssignor()
FIVE = jobs({"a": 2, "b": 1})
NOW_MS = 1_700_000_000_000


def member(facts: WorkerFacts | None = None, instance_id: str | None = None) -> Member:
    said = ASSIGNOR.metadata(facts or WorkerFacts())
    client = Assignor(
        name=ASSIGNOR.name,
        minimum_version=1,
        maximum_version=2,
        reason=said.reason,
        version=said.version,
        metadata=said.metadata,
    )
    return Member(rebalance_timeout_ms=60_000, instance_id=instance_id, client_assignors=(client,))


def state_of(
    members: Mapping[MemberId, Member], configured: Tasks, target: TargetAssignment | None = None, epoch: int = 7
) -> GroupState:
    """As the coordinator would have it from its records."""
    state, at = GroupState(G), GroupEpoch(epoch)
    for one, its in members.items():
        state.apply(values.member_record(G, at, one, its))
        state.apply(values.current_record(G, one, CurrentAssignment(epoch=MemberEpoch(3))))
    state.apply(values.configured_record(G, at, configured))
    state.apply(values.epoch_record(G, at))
    if target is not None:
        state.apply(values.target_record(G, target))
    return state


def sent(reply: ConnectGroupPrepareAssignmentResponse) -> ConnectGroupPrepareAssignmentResponse:
    """As it arrives."""
    request = request_of(
        ConnectGroupPrepareAssignmentRequest(group_id=G, member_id=W1, member_epoch=MemberEpoch(3)),
        correlation_id=1,
        reply_partition=0,
    )
    arrived: Reply = decode_reply(encode_reply(reply_to(request, reply)))
    assert isinstance(arrived.body, ConnectGroupPrepareAssignmentResponse)
    return arrived.body


def install_request(assignment: Assignment, epoch: GroupEpoch = GroupEpoch(7)) -> ConnectGroupInstallAssignmentRequest:
    return ConnectGroupInstallAssignmentRequest(
        group_id=G,
        member_id=W1,
        member_epoch=MemberEpoch(3),
        group_epoch=epoch,
        error=assignment.error,
        members=handed(assignment.members),
        delayed=handed(assignment.delayed),
    )


def handed_in(prepared: Prepared, state: GroupState) -> ConnectGroupInstallAssignmentRequest:
    """What the cooperative assignor makes of it, as it arrives."""
    reply = sent(prepared_reply(state, prepared))
    assignment = ASSIGNOR.assign(
        group_of(reply, computing=next(iter(state.members)), now_ms=NOW_MS, revocation_rank={})
    )
    body = install_request(assignment, reply.group_epoch)
    arrived = decode_request(encode_request(request_of(body, correlation_id=1, reply_partition=0))).body
    assert isinstance(arrived, ConnectGroupInstallAssignmentRequest)
    return arrived


def of(**shares: Tasks) -> dict[MemberId, MemberTarget]:
    return {MemberId(one): MemberTarget(tasks=tasks) for one, tasks in shares.items()}


class TestPrepare:
    def test_the_target_is_what_is_handed_on_and_who_has_left_is_named(self) -> None:
        a, b = jobs({"a": 2}), jobs({"b": 1})
        target = TargetAssignment(epoch=AssignmentEpoch(6), members=of(w1=a, w2=b))
        state = state_of({W1: member(), W3: member(instance_id="third")}, FIVE, target)
        state.apply(values.configuration_record(G, GroupConfiguration(scheduled_rebalance_max_delay_ms=5)))
        left = member(WorkerFacts(returns_ms=0), instance_id="second")
        state.apply(values.current_record(G, W2, CurrentAssignment(epoch=MemberEpoch(3), last_said=left)))
        reply = sent(prepared_reply(state, prepare(state, "cooperative")))
        assert (reply.group_epoch, reply.assignor_name) == (7, "cooperative")
        assert reply.connectors_tasks == units_of(FIVE)
        assert reply.scheduled_rebalance_max_delay_ms == 5
        assert [(one.member_id, one.member_epoch, one.instance_id) for one in reply.members] == [
            (W1, 3, ""),
            (W3, 3, "third"),
        ]
        assert [one.connectors_and_tasks for one in reply.members] == [units_of(a), ()]
        (gone,) = reply.departed
        assert (gone.member_id, gone.member_epoch, gone.instance_id) == (W2, -1, "second")
        assert gone.connectors_and_tasks == units_of(b)
        assert gone.assignor.metadata == left.client_assignors[0].metadata

    def test_what_is_delayed_is_handed_on_though_its_member_is_back(self) -> None:
        a, b = jobs({"a": 2}), jobs({"b": 1})
        target = TargetAssignment(epoch=AssignmentEpoch(6), members=of(w1=a), delayed=of(w2=b))
        reply = prepared_reply(state := state_of({W1: member(), W2: member()}, FIVE, target), prepare(state, "c"))
        assert [one.member_id for one in reply.members] == [W1, W2]
        assert [(one.member_id, one.connectors_and_tasks) for one in reply.departed] == [(W2, units_of(b))]


class TestInstall:
    def test_it_gets_the_epoch_that_it_was_made_of(self) -> None:
        state = state_of({W1: member()}, FIVE)
        prepared = prepare(state, "cooperative")
        request = handed_in(prepared, state)
        state.apply(values.member_tombstone(G, W1))
        state.apply(values.epoch_record(G, GroupEpoch(9)))
        assert invalid(request, prepared) is None
        target = installed(request, prepared, state.target)
        assert target.epoch == 7
        assert {one: share.tasks for one, share in target.members.items()} == {W1: FIVE}

    def test_an_assignor_that_fails_leaves_everything_as_it_was(self) -> None:
        before = TargetAssignment(epoch=AssignmentEpoch(6), members=of(w1=FIVE, gone=FIVE), delayed=of(w2=FIVE))
        state = state_of({W1: member()}, FIVE, before)
        prepared = prepare(state, "cooperative")
        failed = install_request(Assignment(error=3, members=of(w9=FIVE)))
        assert invalid(failed, prepared) is None
        assert installed(failed, prepared, before) == replace(before, epoch=AssignmentEpoch(7), error=3)

    def test_the_record_says_what_is_delayed(self) -> None:
        target = TargetAssignment(epoch=AssignmentEpoch(6), members=of(w1=FIVE), delayed=of(w2=FIVE))
        assert values.target_of(values.target_record(G, target).value) == target


TASKS = st.builds(TaskId, st.sampled_from("abc"), st.integers(-1, 4))
WORKERS = st.sampled_from(("w1", "w2", "w3", "w4")).map(MemberId)
Request = ConnectGroupInstallAssignmentRequest


@st.composite
def targets(draw: st.DrawFn) -> tuple[Prepared, Request]:
    """A group that was prepared, and any valid target of it: each task is somebody's, or kept for who had it."""
    members = draw(st.sets(WORKERS, min_size=1))
    configured = draw(st.sets(TASKS).map(frozenset))
    had = draw(st.dictionaries(TASKS, WORKERS))
    gone = {one for one in had.values() if one not in members}
    before: dict[MemberId, Tasks] = {one: frozenset(t for t in had if had[t] == one) for one in set(had.values())}
    target = TargetAssignment(epoch=AssignmentEpoch(6), members=of(**before))
    some_were_kept = draw(st.booleans())
    if gone and some_were_kept:
        target = replace(
            target,
            members=of(**{one: tasks for one, tasks in before.items() if one in members}),
            delayed=of(**{one: tasks for one, tasks in before.items() if one in gone}),
        )
    shares: dict[MemberId, set[TaskId]] = {one: set() for one in sorted(members)}
    delayed: dict[MemberId, set[TaskId]] = {}
    for task in sorted(configured):
        if had.get(task) in gone and draw(st.booleans()):
            delayed.setdefault(had[task], set()).add(task)
        else:
            shares[draw(st.sampled_from(sorted(members)))].add(task)
    prepared = prepare(state_of(dict.fromkeys(sorted(members), member()), configured, target), "cooperative")
    assignment = Assignment(
        members=of(**{one: frozenset(tasks) for one, tasks in shares.items()}),
        delayed=of(**{one: frozenset(tasks) for one, tasks in delayed.items()}),
    )
    return prepared, install_request(assignment)


@patient
@given(made=targets())
def test_any_valid_target_is_installed(made: tuple[Prepared, Request]) -> None:
    prepared, request = made
    assert invalid(request, prepared) is None
    target = installed(request, prepared, prepared.target)
    assert target.members.keys() == prepared.group.members.keys()
    given_ = [share.tasks for share in (*target.members.values(), *target.delayed.values())]
    assert sorted(task for tasks in given_ for task in tasks) == sorted(prepared.group.configured)


Draw = Callable[[st.SearchStrategy[Any]], Any]
Mutation = Callable[[Prepared, Request, Draw], tuple[Request, str] | None]


def shares_of(request: Request) -> dict[MemberId, list[TaskId]]:
    return {
        one.member_id: [*(TaskId(job, -1) for part in one.connectors_and_tasks for job in part.connectors)]
        + [task for part in one.connectors_and_tasks for task in part.tasks]
        for one in (*request.members, *request.delayed)
    }


def with_tasks(request: Request, member_id: MemberId, tasks: list[TaskId]) -> Request:
    """The same, but for what one worker has. A task can stand there twice."""
    parts = tuple(part for task in tasks for part in units_of(frozenset({task})))

    def changed(one: InstalledMember) -> InstalledMember:
        return replace(one, connectors_and_tasks=parts) if one.member_id == member_id else one

    return replace(request, members=tuple(map(changed, request.members)), delayed=tuple(map(changed, request.delayed)))


def forget(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    full = {one: tasks for one, tasks in shares_of(request).items() if tasks}
    if not full:
        return None
    one = draw(st.sampled_from(sorted(full)))
    task = draw(st.sampled_from(full[one]))
    return with_tasks(request, one, [other for other in full[one] if other != task]), f"{task} is assigned to nobody"


def double(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    full = {one: tasks for one, tasks in shares_of(request).items() if tasks}
    if not full:
        return None
    task = draw(st.sampled_from(full[draw(st.sampled_from(sorted(full)))]))
    other = draw(st.sampled_from([one.member_id for one in request.members]))
    return with_tasks(request, other, [*shares_of(request)[other], task]), f"{task} is assigned twice, to worker"


def invent_a_task(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    task = draw(TASKS.filter(lambda task: task not in prepared.group.configured))
    one = draw(st.sampled_from([one.member_id for one in request.members]))
    tasks = [*shares_of(request)[one], task]
    return with_tasks(request, one, tasks), f"{task} is assigned to worker {one}, and not configured"


def invent_a_worker(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    one = draw(st.sampled_from(request.members))
    changed = tuple(replace(one, member_id=MemberId("w9")) if other is one else other for other in request.members)
    return replace(request, members=changed), "worker w9 is not in the group at epoch 7"


def name_twice(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    one = draw(st.sampled_from((*request.members, *request.delayed)))
    again = replace(one, connectors_and_tasks=())
    if draw(st.booleans()):
        return replace(request, members=(*request.members, again)), f"worker {one.member_id} is named twice"
    return replace(request, delayed=(*request.delayed, again)), f"worker {one.member_id} is named twice"


def delay_for_nobody(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    delayed = (*request.delayed, InstalledMember(member_id=MemberId("w9")))
    return replace(request, delayed=delayed), "delayed for worker w9, which has not left"


def delay_what_was_not_lost(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    new = [
        (one.member_id, task)
        for one in request.members
        for task in shares_of(request)[one.member_id]
        if not any(task in share.tasks for share in prepared.departed.values())
    ]
    if not new or not prepared.departed:
        return None
    had, task = draw(st.sampled_from(new))
    gone = draw(st.sampled_from(sorted(prepared.departed)))
    if gone not in shares_of(request):
        request = replace(request, delayed=(*request.delayed, InstalledMember(member_id=gone)))
    request = with_tasks(request, had, [other for other in shares_of(request)[had] if other != task])
    request = with_tasks(request, gone, [*shares_of(request)[gone], task])
    return request, f"{task} is delayed for worker {gone}, which did not have it"


def take_another_epoch(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    epoch = GroupEpoch(draw(st.integers(0, 20).filter(lambda epoch: epoch != 7)))
    return replace(request, group_epoch=epoch), f"of group epoch {epoch}: epoch 7 was prepared"


def have_too_high_a_version(prepared: Prepared, request: Request, draw: Draw) -> tuple[Request, str] | None:
    one = draw(st.sampled_from(request.members))
    changed = tuple(replace(one, version=2**15) if other is one else other for other in request.members)
    return replace(request, members=changed), f"worker {one.member_id}: metadata of version 32768"


MUTATIONS: list[Mutation] = [
    forget, double, invent_a_task, invent_a_worker, name_twice, delay_for_nobody, delay_what_was_not_lost,
    take_another_epoch, have_too_high_a_version,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@patient
@given(made=targets(), data=st.data())
def test_each_mutation_is_refused_by_name(
    mutate: Mutation, made: tuple[Prepared, Request], data: st.DataObject
) -> None:
    prepared, request = made
    mutated = mutate(prepared, request, data.draw)
    if mutated is not None:
        wrong, named = mutated
        assert named in (invalid(wrong, prepared) or "it is accepted")
