"""What must hold for every group and every history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

import pytest
from assignor_group import (
    MAX_DELAY_MS,
    Group,
    changed,
    moved_because,
    moves_because,
    planners_in,
    started,
    stopped,
    tasks_in,
)
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from airflow_provider.assignment.balancing.dealing import deal
from airflow_provider.assignment.model import GroupAssignment, Move, MoveReason
from airflow_provider.state.rounds.round_json import memory_from_json, memory_to_json
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

pytestmark = pytest.mark.slow

JOB_SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 12), max_size=6)


def balanced_group(workers: int, jobs: dict[str, int]) -> Group:
    group = Group(jobs)
    group.join(*[f"w{number}" for number in range(workers)])
    group.rebalance()
    return group


patient = settings(deadline=None)
"""A busy machine is no failure."""


class TestDealing:
    @patient
    @given(workers=st.integers(1, 9), jobs=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40)))
    def test_in_turn_is_what_the_queue_comes_to(self, workers: int, jobs: dict[str, int]) -> None:
        """One that has so much that it gets nothing makes it a queue."""
        tasks = frozenset(TaskId(job, index) for job, number in jobs.items() for index in range(number))
        loads = {WorkerId(f"w{number}"): 3 for number in range(workers)}
        loaded = {**loads, WorkerId("z"): 1_000}
        assert deal(tasks, loads, {}) == deal(tasks, loaded, {})


class TestOneEvent:
    """A group in balance, and one thing that happens to it."""

    @patient
    @given(workers=st.integers(1, 12), jobs=JOB_SIZES)
    def test_a_join_moves_one_share_and_takes_two_rounds(self, workers: int, jobs: dict[str, int]) -> None:
        group = balanced_group(workers, jobs)
        group.join("new")
        first = group.rebalance()
        assert len(planners_in(stopped(first))) == len(planners_in(group.configured)) // (workers + 1)
        assert len(tasks_in(stopped(first))) == len(tasks_in(group.configured)) // (workers + 1)
        assert started(first) == NO_TASKS
        second = group.rebalance()
        assert second.assigned[WorkerId("new")] == started(second) == stopped(first)
        assert stopped(second) == NO_TASKS
        assert not changed(group.rebalance())
        assert_balanced(group)

    @patient
    @given(workers=st.integers(2, 12), jobs=JOB_SIZES)
    def test_a_loss_moves_only_what_was_lost(self, workers: int, jobs: dict[str, int]) -> None:
        group = balanced_group(workers, jobs)
        lost = group.leave("w0")
        outcomes = group.settle()
        assert [started(outcome) for outcome in outcomes if changed(outcome)] == ([lost] if lost else [])
        assert not any(stopped(outcome) for outcome in outcomes)
        assert_balanced(group)

    @patient
    @given(workers=st.integers(2, 12), jobs=JOB_SIZES, within=st.integers(0, MAX_DELAY_MS))
    def test_a_bounce_moves_nothing(self, workers: int, jobs: dict[str, int], within: int) -> None:
        group = balanced_group(workers, jobs)
        before = dict(group.owned)
        group.leave("w0")
        group.rebalance()
        group.wait(within)
        group.join("w0")
        outcomes = group.settle()
        assert not any(stopped(outcome) for outcome in outcomes)
        if within < MAX_DELAY_MS:
            assert group.owned == before

    @patient
    @given(workers=st.integers(2, 8), jobs=JOB_SIZES, later=JOB_SIZES, data=st.data())
    def test_when_a_delay_ends_all_that_was_lost_starts(
        self, workers: int, jobs: dict[str, int], later: dict[str, int], data: st.DataObject
    ) -> None:
        """Whichever left, came back or are new, and whatever was submitted meanwhile."""
        group = balanced_group(workers, jobs)
        names = sorted(group.owned)
        leaving = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=workers - 1))
        lost = {worker: group.leave(worker) for worker in leaving}
        group.rebalance()
        back = data.draw(st.lists(st.sampled_from(leaving), unique=True))
        group.join(*back, *[f"new{number}" for number in range(data.draw(st.integers(0, 3)))])
        group.rebalance()
        group.jobs = {**later, **jobs}
        delay_ms = group.rebalance().delay_ms
        group.wait(delay_ms)
        outcome = group.rebalance()
        if delay_ms:
            assert started(outcome) == NO_TASKS.union(*lost.values())
        for worker in back if delay_ms else ():
            elsewhere = lost[worker] - outcome.target[worker]
            for kind in (planners_in, tasks_in):
                if kind(elsewhere):
                    assert len(kind(outcome.target[worker])) >= len(kind(group.configured)) // len(group.owned)
        if not stopped(outcome):
            assert_balanced(group)

    @patient
    @given(workers=st.integers(1, 12), jobs=JOB_SIZES, later=JOB_SIZES)
    def test_other_jobs_stop_only_for_balance(self, workers: int, jobs: dict[str, int], later: dict[str, int]) -> None:
        group = balanced_group(workers, jobs)
        before = group.configured
        group.jobs = later
        outcomes = group.settle()
        for outcome in outcomes:
            assert moved_because(MoveReason.DELETED, outcome) <= before - group.configured
        assert_balanced(group)


def assert_balanced(group: Group) -> None:
    everything = [task for tasks in group.owned.values() for task in tasks]
    assert len(everything) == len(set(everything))
    assert set(everything) == group.configured
    for kind in (planners_in, tasks_in):
        assert_shared_out(group, kind, group.owned)


def assert_shared_out(group: Group, kind: Callable[[Tasks], Tasks], owned: Mapping[WorkerId, Tasks]) -> None:
    """Each has the whole part of its quota, or one more."""
    least = least_of(group, kind, len(kind(group.configured)))
    assert {len(kind(tasks)) - least[worker] for worker, tasks in owned.items()} <= {0, 1}


def least_of(group: Group, kind: Callable[[Tasks], Tasks], total: int) -> dict[WorkerId, int]:
    """The whole part of each worker's quota: planners are shared out evenly, tasks in proportion to the slots. Workers
    that have not told theirs count as the mean of those that have.
    """
    told = [group.slots[worker] for worker in group.owned if worker in group.slots]
    mean = Fraction(sum(told), len(told)) if told and kind is tasks_in else Fraction(1)
    weights = {worker: mean if kind is planners_in else group.slots.get(worker, mean) for worker in group.owned}
    return {worker: int(total * weight / sum(weights.values())) for worker, weight in weights.items()}


class Histories(RuleBasedStateMachine):
    """Joins, departures, returns, jobs that change, rounds that fail, leaders that change, in any order.

    :ivar sizes: how many slots a worker may have; None: it does not tell
    """

    away = Bundle("away")
    sizes: ClassVar[Sequence[int | None]] = (None,)

    def __init__(self) -> None:
        super().__init__()
        self.group = Group({"a": 5, "b": 3})
        self.group.join("w0", "w1")
        self.names = 2
        self.waiting_since: dict[TaskId, int] = {}

    @rule(number=st.integers(1, 3), data=st.data())
    def workers_join(self, number: int, data: st.DataObject) -> None:
        for _ in range(number):
            self.join(f"w{self.names}", NO_TASKS, data)
            self.names += 1

    def join(self, worker: str, tasks: Tasks, data: st.DataObject) -> None:
        self.group.join(worker, owning=tasks)
        slots = data.draw(st.sampled_from(self.sizes))
        if slots is None:
            self.group.slots.pop(WorkerId(worker), None)
        else:
            self.group.slots[WorkerId(worker)] = slots

    @rule(target=away, data=st.data())
    def worker_goes_away(self, data: st.DataObject) -> object:
        if len(self.group.owned) == 1:
            return multiple()
        worker = data.draw(st.sampled_from(sorted(self.group.owned)))
        return worker, self.group.leave(worker)

    @rule(who=consumes(away), keeps_tasks=st.booleans(), data=st.data())
    def worker_comes_back(self, who: tuple[str, Tasks], keeps_tasks: bool, data: st.DataObject) -> None:
        worker, tasks = who
        self.join(worker, tasks if keeps_tasks else NO_TASKS, data)

    @rule(job=st.sampled_from("abcdef"), number=st.integers(0, 9))
    def job_is_submitted_or_resized(self, job: str, number: int) -> None:
        self.group.jobs[job] = number

    @rule(data=st.data())
    def job_is_removed(self, data: st.DataObject) -> None:
        if self.group.jobs:
            del self.group.jobs[data.draw(st.sampled_from(sorted(self.group.jobs)))]

    @rule(ms=st.sampled_from([1, 39, 40, 1600, 100_000, MAX_DELAY_MS - 1, MAX_DELAY_MS]))
    def time_passes(self, ms: int) -> None:
        self.group.wait(ms)

    @rule()
    def leader_hands_its_memory_over(self) -> None:
        self.group.memory = memory_from_json(memory_to_json(self.group.memory))

    @rule()
    def leader_is_lost_with_its_memory(self) -> None:
        self.group.lose_memory()
        self.waiting_since.clear()

    @rule()
    def round_succeeds(self) -> None:
        before = dict(self.group.owned)
        self.check(before, self.group.rebalance())

    @rule()
    def round_fails(self) -> None:
        self.check(dict(self.group.owned), self.group.fail_to_sync())

    @rule()
    def round_is_not_carried_out(self) -> None:
        self.check(dict(self.group.owned), self.group.rebalance_in_vain())

    @rule()
    def group_is_left_alone(self) -> None:
        self.group.settle()
        assert_balanced(self.group)
        self.waiting_since.clear()

    def check(self, before: dict[WorkerId, Tasks], outcome: GroupAssignment) -> None:
        assert outcome.assigned.keys() == outcome.revoked.keys() == outcome.target.keys() == before.keys()
        assert not started(outcome) & stopped(outcome)
        for worker, owned in before.items():
            assert outcome.revoked[worker] <= owned
            assert not outcome.assigned[worker] & owned
            assert outcome.target[worker] == (owned - outcome.revoked[worker]) | outcome.assigned[worker]
        everything = [task for tasks in outcome.target.values() for task in tasks]
        assert len(everything) == len(set(everything))
        assert set(everything) <= self.group.configured
        self.check_delay(outcome)
        self.check_balance(before, outcome)
        self.check_what_waits(outcome, self.group.configured - set(everything) - stopped(outcome))

    def check_delay(self, outcome: GroupAssignment) -> None:
        assert 0 <= outcome.delay_ms <= MAX_DELAY_MS
        if outcome.delay_ms:
            assert outcome.memory.deadline_ms == self.group.now_ms + outcome.delay_ms
            assert not stopped_for_balance(outcome)
        else:
            assert outcome.memory.deadline_ms == 0

    def check_balance(self, before: dict[WorkerId, Tasks], outcome: GroupAssignment) -> None:
        """Unless a delay runs, no more running tasks stop than balance needs, and without a stop there is balance."""
        if outcome.delay_ms:
            return
        configured, balancing = self.group.configured, stopped_for_balance(outcome)
        twice = moved_because(MoveReason.DUPLICATE, outcome) & stopped(outcome)
        for kind in (planners_in, tasks_in):
            total = len(kind(configured))
            least = least_of(self.group, kind, total)
            above = [len(kind(owned & configured - twice)) - least[worker] for worker, owned in before.items()]
            assert sum(len(kind(move.tasks)) for move in balancing) == stops_needed(above, total - sum(least.values()))
            if not kind(stopped(outcome) & configured):
                assert_shared_out(self.group, kind, outcome.target)

    def check_what_waits(self, outcome: GroupAssignment, waiting: Tasks) -> None:
        """Work is nowhere only while a delay runs, and never longer than the maximum."""
        assert outcome.delay_ms or not waiting
        now = self.group.now_ms
        self.waiting_since = {task: self.waiting_since.get(task, now) for task in waiting}
        assert all(now - since < MAX_DELAY_MS for since in self.waiting_since.values())

    @invariant()
    def memory_survives_json(self) -> None:
        assert memory_from_json(memory_to_json(self.group.memory)) == self.group.memory


def stops_needed(above: list[int], extras: int) -> int:
    """The fewest that have to stop for everybody to have the whole part of its quota, and so many workers one more.

    :param above: how much more each has
    """
    above = [number for number in above if number > 0]
    return sum(above) - min(extras, len(above))


def stopped_for_balance(outcome: GroupAssignment) -> list[Move]:
    return [move for move in moves_because(MoveReason.BALANCE, outcome) if move.target is None]


class UnequalHistories(Histories):
    """The same with workers of different sizes, some of which come back with another one."""

    sizes = (None, 1, 2, 3, 8, 16)


TestHistories = Histories.TestCase
TestUnequalHistories = UnequalHistories.TestCase
TestHistories.settings = TestUnequalHistories.settings = settings(
    patient, max_examples=examples(20), stateful_step_count=40
)
