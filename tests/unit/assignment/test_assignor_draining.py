"""Workers that drain: they keep what they run, give up what waits, and get nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.model import Absence, GroupAssignment, LeaveReason, Load, Memory, MoveReason, Round
from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

W1, W2, W3 = (WorkerId(f"w{number}") for number in (1, 2, 3))
POLICY: Policy = Deferred(max_delay_ms=300_000)


def tasks(*indexes: int) -> Tasks:
    return frozenset(TaskId("a", index) for index in indexes)


def round_of(
    owned: Mapping[WorkerId, Tasks],
    *,
    runs: Tasks,
    draining: frozenset[WorkerId],
    more: Tasks = NO_TASKS,
    generation: int = 2,
    absent: Mapping[WorkerId, Absence] | None = None,
) -> Round:
    return Round(
        now_ms=1_000,
        generation=GenerationId(generation),
        last_completed=GenerationId(generation - 1),
        configured=more.union(*owned.values()),
        owned=owned,
        revocation_rank=dict.fromkeys(runs, 2),
        draining=draining,
        absent=absent or {},
    )


def decide(this: Round, memory: Memory | None = None) -> GroupAssignment:
    return assign(this, memory or Memory(generation=this.last_completed, assignment=this.owned), policy=POLICY)


def test_new_work_goes_to_the_others() -> None:
    decided = decide(
        round_of({W1: NO_TASKS, W2: tasks(0, 1)}, runs=tasks(0, 1), draining=frozenset({W1}), more=tasks(2, 3))
    )
    assert decided.assigned == {W1: NO_TASKS, W2: tasks(2, 3)}


def test_what_waits_there_goes_to_the_others_and_what_runs_stays() -> None:
    first = decide(round_of({W1: tasks(0, 1, 2, 3), W2: NO_TASKS}, runs=tasks(0), draining=frozenset({W1})))
    assert first.revoked == {W1: tasks(1, 2, 3), W2: NO_TASKS}
    (move,) = first.moves
    assert (move.reason, move.source, move.load) == (MoveReason.BALANCE, W1, Load(has=4, share=1))
    owned = {W1: tasks(0), W2: NO_TASKS}
    again = round_of(owned, runs=tasks(0), draining=frozenset({W1}), more=tasks(1, 2, 3), generation=3)
    assert decide(again, first.memory).target == {W1: tasks(0), W2: tasks(1, 2, 3)}


def test_the_others_share_what_it_does_not_run() -> None:
    """Five tasks, two of which a third worker runs to their end: those two are of nobody else's share."""
    owned = {W1: tasks(0, 1), W2: tasks(2, 3, 4), W3: NO_TASKS}
    decided = decide(round_of(owned, runs=tasks(0, 1, 2, 3, 4), draining=frozenset({W1})))
    assert decided.revoked[W1] == NO_TASKS
    assert len(decided.revoked[W2]) == 1


def test_what_the_lost_had_is_not_given_to_it() -> None:
    memory = Memory(
        generation=GenerationId(1),
        assignment={W1: tasks(0), W2: tasks(1), W3: tasks(2)},
        members=frozenset({W1, W2, W3}),
    )
    gone = {W3: Absence(left=LeaveReason.STOPPED)}
    this = round_of(
        {W1: tasks(0), W2: tasks(1)}, runs=tasks(0, 1), draining=frozenset({W1}), more=tasks(2), absent=gone
    )
    assert decide(this, memory).assigned == {W1: NO_TASKS, W2: tasks(2)}


def test_one_that_is_back_only_to_drain_has_lost_its_tasks() -> None:
    """Not: it has more than its share."""
    memory = Memory(generation=GenerationId(1), assignment={W1: tasks(0, 1), W2: tasks(2)}, members=frozenset({W1, W2}))
    this = round_of({W1: NO_TASKS, W2: tasks(2)}, runs=tasks(2), draining=frozenset({W1}), more=tasks(0, 1))
    decided = decide(replace(this, named=frozenset({W1, W2})), memory)
    assert [(move.source, move.target, move.reason) for move in decided.moves] == [(W1, W2, MoveReason.LOST)]


def test_where_all_drain_each_is_as_any_other() -> None:
    this = round_of({W1: NO_TASKS, W2: NO_TASKS}, runs=NO_TASKS, draining=frozenset({W1, W2}), more=tasks(0, 1))
    assert {worker: len(share) for worker, share in decide(this).assigned.items()} == {W1: 1, W2: 1}


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    workers = [WorkerId(f"w{number}") for number in range(draw(st.integers(1, 6)))]
    everything = [TaskId(job, index) for job in "ab" for index in range(-1, draw(st.integers(0, 8)))]
    owners = {task: draw(st.sampled_from([*workers, None])) for task in everything}
    owned = {worker: frozenset(task for task in everything if owners[task] == worker) for worker in workers}
    runs = frozenset(draw(st.sets(st.sampled_from(everything)))) & NO_TASKS.union(*owned.values())
    draining = frozenset(draw(st.sets(st.sampled_from(workers))))
    return round_of(owned, runs=runs, draining=draining, more=frozenset(everything))


@pytest.mark.slow
@given(rounds())
def test_whatever_a_round_is_who_drains_only_loses_what_waits(this: Round) -> None:
    decided = decide(this)
    given_or_kept = [task for share in decided.target.values() for task in share]
    assert len(given_or_kept) == len(set(given_or_kept))
    stopped = NO_TASKS.union(*decided.revoked.values())
    assert set(given_or_kept) | stopped == this.configured
    if this.draining == this.owned.keys():
        return
    for worker in this.draining:
        assert decided.assigned[worker] == NO_TASKS
        assert decided.target[worker] == this.owned[worker] & this.revocation_rank.keys()


@pytest.mark.slow
@given(rounds())
def test_it_comes_to_rest_in_the_next_rounds(this: Round) -> None:
    decided = decide(this)
    for _ in range(6):
        if not any(decided.revoked.values()) and not decided.delay_ms:
            break
        this = round_of(
            decided.target,
            runs=frozenset(this.revocation_rank) & NO_TASKS.union(*decided.target.values()),
            draining=this.draining,
            more=this.configured,
            generation=this.generation + 1,
        )
        decided = decide(replace(this, now_ms=this.now_ms + 600_000 * this.generation), decided.memory)
    assert not any(decided.revoked.values())
    others = [len(share) for worker, share in decided.target.items() if worker not in this.draining]
    if others:
        planners = [sum(task.is_planner for task in decided.target[worker]) for worker in decided.target]
        assert max(others) - min(others) <= 2, planners


@pytest.mark.parametrize("draining", [frozenset[WorkerId](), frozenset({WorkerId("w9")})])
def test_who_is_no_member_does_not_count(draining: frozenset[WorkerId]) -> None:
    this = round_of({W1: NO_TASKS, W2: NO_TASKS}, runs=NO_TASKS, draining=draining, more=tasks(0, 1))
    assert {len(share) for share in decide(this).assigned.values()} == {1}
