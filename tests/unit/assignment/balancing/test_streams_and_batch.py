"""Streams beside batch tasks that are shared out by cost: they want the same slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from assigned_group import DeclarativeGroup
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import LearnerMemory, LearnerRound
from airflow_provider.assignment.model import Memory, Round, TriedElsewhere
from airflow_provider.assignment.policy import IMMEDIATE, Incremental, Policy
from airflow_provider.assignment.shares import Shares, all_of, grouped
from airflow_provider.group.declarative.assignors.client_assignor import Assignment, WorkerFacts
from airflow_provider.group.declarative.protocol.model import MemberTarget
from airflow_provider.values.model import NO_TASKS, GenerationId, MemberId, TaskId, Tasks, WorkerId

A, B, C = (WorkerId(name) for name in "abc")
KINDS = ("v2", "v3", "declarative")
Slots = Mapping[WorkerId, int]


def streams(*indexes: int) -> Tasks:
    return frozenset(TaskId("stream", index) for index in indexes)


def batch(*indexes: int) -> Tasks:
    return frozenset(TaskId("batch", index) for index in indexes)


def is_batch(task: TaskId) -> bool:
    return task.job == "batch"


def round_of(owned: Shares, slots: Slots, new: Tasks = NO_TASKS, *, waiting: Tasks = NO_TASKS, **sizes: Tasks) -> Round:
    """A round; no two batch tasks cost the same.

    :param waiting: what has not started, of what is owned
    :param sizes: what takes several slots, as ``of_2``
    """
    there = all_of(owned)
    running = there - waiting
    costs = {task: 60.0 - task.index for task in there | new if is_batch(task)}
    return Round(
        now_ms=0,
        generation=GenerationId(2),
        last_completed=GenerationId(1),
        configured=there | new,
        owned=owned,
        revocation_rank={task: 2 if is_batch(task) else 1 for task in running},
        costs=Costs(
            of=costs,
            left={task: cost for task, cost in costs.items() if task in running},
            large=grouped((task, int(size[3:])) for size, tasks in sizes.items() for task in tasks),
            slots=slots,
        ),
    )


def after(kind: str, now: Round, policy: Policy = IMMEDIATE) -> Shares:
    """What everybody has after the round. In a declarative group, what a round takes is given out at once."""
    if kind == "v2":
        return cooperative_assignor.assign(now, Memory(), policy=policy).target
    if kind == "v3":
        return extensible_assignor.assign(LearnerRound(**now.by_field), LearnerMemory(), policy=policy).target
    group = DeclarativeGroup(now.configured, policy=policy)
    for worker, tasks in now.owned.items():
        group.join(worker, facts=WorkerFacts(slots=now.costs.slots.get(worker, 0)))
        given = {**group.last.members, MemberId(worker): MemberTarget(tasks=tasks)}
        group.last = Assignment(members=given)
    group.rank, group.costs = dict(now.revocation_rank), now.costs
    return {WorkerId(worker): target.tasks for worker, target in group.assign().members.items()}


def in_two(kind: str, now: Round) -> Shares:
    """The same after the round in which what the first one took is given out."""
    return after(kind, replace(now, owned=after(kind, now)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slots", [{A: 2, B: 2}, {}], ids=["equal", "not known"])
def test_a_stream_does_not_wait_behind_batch_tasks_beside_an_empty_worker(slots: Slots, kind: str) -> None:
    owned = {A: batch(0, 1), B: NO_TASKS}
    assert after(kind, round_of(owned, slots, streams(0))) == {A: batch(0, 1), B: streams(0)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("slots_of_b", "sizes"),
    [(4, {}), (5, {}), (4, {"of_2": streams(2)}), (8, {"of_2": streams(0, 1, 2) | batch(0, 1, 2, 3)})],
    ids=["equal", "unequal", "sizes", "all of two"],
)
def test_a_stream_goes_where_a_slot_is_free_whoever_has_the_fewest_streams(
    kind: str, slots_of_b: int, sizes: Mapping[str, Tasks]
) -> None:
    """On B, batch tasks have all slots, or all but one where the new stream wants two."""
    beside = batch(0, 1, 2, 3) if slots_of_b != 5 else batch(0, 1, 2, 3, 4)
    owned = {A: streams(0, 1), B: beside}
    slots = {A: 6, B: slots_of_b}
    assert after(kind, round_of(owned, slots, streams(2), **sizes)) == {A: streams(0, 1, 2), B: beside}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_waits_behind_batch_tasks_moves_to_a_free_slot(kind: str) -> None:
    owned = {A: streams(1), B: batch(0, 1) | streams(0)}
    now = round_of(owned, {A: 2, B: 2}, waiting=streams(0))
    assert in_two(kind, now) == {A: streams(0, 1), B: batch(0, 1)}
    everywhere_full = round_of(
        {A: streams(1) | batch(2), B: batch(0, 1) | streams(0)}, {A: 2, B: 2}, waiting=streams(0)
    )
    assert after(kind, everywhere_full) == everywhere_full.owned


@pytest.mark.parametrize("kind", KINDS)
def test_no_running_stream_is_stopped_to_wait_behind_batch_tasks(kind: str) -> None:
    now = round_of({A: streams(0, 1, 2, 3), B: batch(0, 1, 2, 3)}, {A: 4, B: 4})
    assert after(kind, now) == now.owned
    with_room = round_of({A: streams(0, 1, 2, 3), B: batch(0, 1, 2)}, {A: 4, B: 4})
    assert [len(tasks - batch(0, 1, 2)) for tasks in in_two(kind, with_room).values()] == [3, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_batch_tasks_leave_room_for_a_stream_that_is_as_new(kind: str) -> None:
    now = round_of({A: NO_TASKS, B: NO_TASKS}, {A: 1, B: 1}, streams(0) | batch(0, 1))
    assert after(kind, now) == {A: streams(0), B: batch(0, 1)}


@pytest.mark.parametrize(
    ("kind", "policy", "on_b"),
    [
        *((kind, IMMEDIATE, 2) for kind in KINDS),
        ("v2", Incremental(max_moves=1), 3),
        ("v3", Incremental(max_moves=1), 3),
    ],
)
def test_batch_tasks_leave_the_slots_to_streams_that_come_in_the_next_round(
    kind: str, policy: Policy, on_b: int
) -> None:
    """Two are to go from A to B. Those of later steps are not waited for."""
    now = round_of({A: streams(0, 1, 2, 3), B: NO_TASKS}, {A: 4, B: 4}, batch(0, 1, 2))
    first = after(kind, now, policy)
    assert len(first[B] & batch(0, 1, 2)) <= on_b
    started = replace(now.costs, left={task: now.costs.of[task] for task in all_of(first) & batch(0, 1, 2)})
    then = after(kind, replace(now, owned=first, costs=started), policy)
    for worker, tasks in then.items():
        busy = len(tasks & batch(0, 1, 2) & first[worker])
        assert busy + len(tasks & streams(0, 1, 2, 3)) <= 4, "nobody waits"


@given(data=st.data(), kind=st.sampled_from(KINDS), number=st.integers(2, 4))
@settings(deadline=None, max_examples=examples(100))
def test_no_stream_waits_behind_batch_tasks_while_a_slot_is_free(data: st.DataObject, kind: str, number: int) -> None:
    workers = [A, B, C, WorkerId("d")][:number]
    slots = {worker: data.draw(st.integers(1, 5)) for worker in workers}
    owned: dict[WorkerId, Tasks] = {}
    names = iter(range(100))
    for worker in workers:
        runs = data.draw(st.integers(0, slots[worker]))
        of_batch = data.draw(st.integers(0, runs))
        owned[worker] = batch(*take(names, of_batch)) | streams(*take(names, runs - of_batch))
    new = streams(*take(names, data.draw(st.integers(0, 4))))
    now = round_of(owned, slots, new)
    for _ in range(6):
        target = after(kind, now)
        if target == now.owned:
            break
        now = then(now, target, slots)
    else:
        pytest.fail(f"the group does not come to rest: {now.owned}")
    free = {worker: slots[worker] - len(tasks) for worker, tasks in target.items()}
    waits = [worker for worker, tasks in target.items() if free[worker] < 0 and any(map(is_batch, tasks))]
    assert not waits or max(free.values()) <= 0, (target, free)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_could_start_does_not_leave_for_a_worker_without_free_slots(kind: str) -> None:
    """As one whose next attempt is due later."""
    now = round_of({A: streams(0, 1), B: batch(0, 1, 2)}, {A: 3, B: 3}, waiting=streams(0, 1))
    assert after(kind, now) == now.owned


@given(data=st.data(), kind=st.sampled_from(KINDS), number=st.integers(2, 4))
@settings(deadline=None, max_examples=examples(100))
def test_a_group_comes_to_rest_although_nothing_that_waits_begins(data: st.DataObject, kind: str, number: int) -> None:
    workers = [A, B, C, WorkerId("d")][:number]
    slots = {worker: data.draw(st.integers(1, 5)) for worker in workers}
    names, waiting = iter(range(100)), NO_TASKS
    owned: dict[WorkerId, Tasks] = {}
    for worker in workers:
        runs = data.draw(st.integers(0, slots[worker]))
        of_batch = data.draw(st.integers(0, runs))
        waits = streams(*take(names, data.draw(st.integers(0, 4))))
        owned[worker] = batch(*take(names, of_batch)) | streams(*take(names, runs - of_batch)) | waits
        waiting |= waits
    large = frozenset(data.draw(st.lists(st.sampled_from(sorted(waiting)), max_size=3))) if waiting else NO_TASKS
    now = round_of(owned, slots, waiting=waiting, of_2=large)
    for _ in range(6):
        target = after(kind, now)
        if target == now.owned:
            return
        now = replace(now, owned=target)
    pytest.fail(f"the group does not come to rest: {now.owned}")


def take(names: Iterable[int], number: int) -> list[int]:
    return [index for _, index in zip(range(number), names, strict=False)]


def then(now: Round, target: Shares, slots: Slots) -> Round:
    """The round after that; meanwhile streams have begun where slots were free."""
    waiting: Tasks = NO_TASKS
    for worker, tasks in target.items():
        began = sorted(tasks, key=lambda task: (task not in now.revocation_rank, task))
        waiting |= frozenset(began[slots[worker] :])
    return round_of(target, slots, now.configured - all_of(target), waiting=waiting)


@pytest.mark.parametrize("kind", ["v2", "v3"])
def test_batch_tasks_leave_the_slot_to_a_stream_that_is_tried_elsewhere(kind: str) -> None:
    now = round_of({A: NO_TASKS, B: NO_TASKS}, {A: 1, B: 1}, streams(0) | batch(0, 1))
    now = replace(now, tried=TriedElsewhere(places={min(streams(0)): B}))
    assert after(kind, now) == {A: batch(0, 1), B: streams(0)}
