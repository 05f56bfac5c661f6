"""A failed task goes to the worker that its leader names, whatever the shares are, and is not moved back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from assigned_group import DeclarativeGroup

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import LearnerAssignment, LearnerMemory, LearnerRound
from airflow_provider.assignment.model import GroupAssignment, Memory, Round, TriedElsewhere
from airflow_provider.assignment.policy import Deferred
from airflow_provider.assignment.shares import Shares
from airflow_provider.values.model import NO_TASKS, GenerationId, MemberId, TaskId, Tasks, WorkerId

A0, A1, A2, A3 = (TaskId("a", index) for index in range(4))
ALL = frozenset({A0, A1, A2, A3})
W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
BEFORE: Shares = {W1: frozenset({A0, A1}), W2: frozenset({A2, A3})}
PROTOCOLS = ("classic", "with learners")


class Rounds:
    """Rounds of a group, each of which all members carry out."""

    def __init__(self, protocol: str, owned: Shares = BEFORE) -> None:
        self.protocol = protocol
        self.owned = dict(owned)
        self.memory = Memory(generation=GenerationId(1), assignment=owned, members=frozenset(owned))
        self.learned = LearnerMemory()
        self.round = Round(
            now_ms=1,
            generation=GenerationId(1),
            last_completed=GenerationId(1),
            configured=ALL,
            owned=self.owned,
            named=frozenset({W1, W2, W3}),
            revocation_rank={A1: 1, A2: 1, A3: 1},
        )

    def next(self, *, better: dict[TaskId, WorkerId] | None = None, pinned: Tasks = NO_TASKS, **more: Any) -> None:
        generation = GenerationId(self.round.generation + 1)
        known = replace(
            self.round,
            generation=generation,
            last_completed=self.round.generation,
            owned=self.owned,
            tried=TriedElsewhere(places=better or {}, pinned=pinned),
            **more,
        )
        outcome = self._assign(known)
        assert not outcome.delay_ms
        self.owned = dict(outcome.target)
        self.round = known

    def _assign(self, known: Round) -> GroupAssignment | LearnerAssignment:
        policy = Deferred(max_delay_ms=0)
        if self.protocol == "classic":
            classic = cooperative_assignor.assign(known, self.memory, policy=policy)
            self.memory = classic.memory
            return classic
        beyond = LearnerRound(**known.by_field)
        decided = extensible_assignor.assign(beyond, replace(self.learned, cooperative=self.memory), policy=policy)
        self.learned, self.memory = decided.memory, decided.memory.cooperative
        return decided


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_taken_in_one_round_and_placed_in_the_next(protocol: str) -> None:
    rounds = Rounds(protocol)
    stays = {"stays": frozenset({A1, A2, A3})}
    rounds.next(better={A0: W2}, **stays)
    assert rounds.owned == {W1: {A1}, W2: {A2, A3}}
    rounds.next(better={A0: W2}, **stays)
    assert rounds.owned == {W1: {A1}, W2: {A0, A2, A3}}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_balance_moves_another_one(protocol: str) -> None:
    rounds = Rounds(protocol, {W1: frozenset({A1}), W2: frozenset({A0, A2, A3})})
    for _ in range(3):
        rounds.next(pinned=frozenset({A0}))
        assert A0 in rounds.owned[W2]
    assert sorted(map(len, rounds.owned.values())) == [2, 2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_whose_worker_is_lost_waits_for_nobody(protocol: str) -> None:
    rounds = Rounds(protocol)
    del rounds.owned[W1]
    rounds.next(better={A0: W2})
    assert A0 in rounds.owned[W2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_place_that_is_gone_or_drains_is_none(protocol: str) -> None:
    rounds = Rounds(protocol)
    rounds.next(better={A0: W3})
    assert rounds.owned == BEFORE
    rounds.next(better={A0: W2}, draining=frozenset({W2}))
    assert A0 in rounds.owned[W1]


def test_in_a_declarative_group_one_target_moves_it_and_stops_nothing() -> None:
    group = DeclarativeGroup(ALL)
    for name in ("w1", "w2"):
        group.join(name, instance=name)
    group.assign()
    home = next(WorkerId(member) for member, tasks in group.shares.items() if A0 in tasks)
    place = W2 if home == W1 else W1
    before = group.shares
    group.rank = dict.fromkeys(ALL - {A0}, 1)
    group.better = {A0: place}
    group.assign()
    assert group.shares == {
        MemberId(home): before[MemberId(home)] - {A0},
        MemberId(place): before[MemberId(place)] | {A0},
    }
