"""Where the assignor is better than Connect's, on purpose: one class for each name in ``cooperative_assignor.py``.

Of ``only-the-unknown-is-waited-for`` see :mod:`test_assignor_absences`.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest
from assignor_group import DEFERRED, MAX_DELAY_MS, Group, changed, started, stopped, tasks_in, tasks_of

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.model import Memory, MoveReason, Round
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.state.rounds.round_json import memory_from_json, memory_to_json
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId, planner_of

W1, W2, W3, W4 = (WorkerId(f"w{number}") for number in range(1, 5))


def group_of(workers: int, jobs: dict[str, int]) -> Group:
    group = Group(jobs)
    group.join(*[f"w{number}" for number in range(1, workers + 1)])
    group.rebalance()
    return group


def group_in_which_run(**numbers: int) -> Group:
    """Workers with so many tasks of one job, as their leader remembers it."""
    group = Group({"a": sum(numbers.values())})
    tasks = iter(sorted(tasks_in(group.configured)))
    for worker, number in numbers.items():
        group.join(worker, owning=frozenset(islice(tasks, number)))
    group.memory = Memory(generation=group.last_completed, assignment=dict(group.owned), members=frozenset(group.owned))
    return group


def jobs_on(group: Group, worker: WorkerId) -> Counter[str]:
    return Counter(task.job for task in tasks_in(group.owned[worker]))


class TestOnlyLostWorkWaits:
    def test_an_empty_worker_that_leaves_after_a_round_that_revoked_delays_nothing(self) -> None:
        group = group_of(1, {"a": 4})
        group.join("w2", "w3")
        assert stopped(group.rebalance())
        assert group.leave("w3") == NO_TASKS
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert group.task_counts() == [2, 2]


class TestMemoryIsAValue:
    def test_the_loss_of_the_leader_is_treated_as_that_of_any_worker(self) -> None:
        group = group_of(3, {"a": 4, "b": 2})
        lost = group.leave("w1")
        group.memory = memory_from_json(memory_to_json(group.memory))
        outcome = group.rebalance()
        assert outcome.delay_ms == MAX_DELAY_MS
        assert not started(outcome) & lost

    def test_a_delay_goes_on_when_the_leader_changes(self) -> None:
        group = group_of(3, {"a": 4, "b": 2})
        lost = group.leave("w2")
        group.rebalance()
        group.wait(100_000)
        lost |= group.leave("w1")
        group.memory = memory_from_json(memory_to_json(group.memory))
        assert group.rebalance().delay_ms == MAX_DELAY_MS - 100_000
        group.wait(MAX_DELAY_MS - 100_000)
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert started(outcome) == lost

    def test_a_leader_without_delays_ends_the_one_it_takes_over(self) -> None:
        group = group_of(2, {"a": 4})
        lost = group.leave("w2")
        group.rebalance()
        group.policy = IMMEDIATE
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert started(outcome) == lost
        assert outcome.memory.deadline_ms == 0


class TestJobsAreSpread:
    def test_new_tasks_go_where_the_fewest_of_their_job_are(self) -> None:
        group = Group({"a": 2, "b": 2})
        group.join("w1", owning=frozenset({planner_of("a"), TaskId("a", 0), TaskId("a", 1)}))
        group.join("w2", owning=frozenset({planner_of("b"), TaskId("b", 0), TaskId("b", 1)}))
        group.rebalance()
        group.jobs = {"a": 3, "b": 3}
        group.rebalance()
        assert jobs_on(group, W1) == {"a": 2, "b": 1}
        assert jobs_on(group, W2) == {"b": 2, "a": 1}

    def test_the_number_of_tasks_comes_before_their_job(self) -> None:
        group = Group({"a": 3, "b": 3})
        group.join("w1", owning=tasks_of({"a": 1}))
        group.join("w2", owning=tasks_of({"b": 3}))
        group.rebalance()
        assert jobs_on(group, W1) == {"a": 3}

    def test_what_is_most_clustered_is_revoked(self) -> None:
        group = group_of(1, {"a": 6, "b": 2, "c": 1})
        group.join("w2", "w3")
        group.rebalance()
        assert jobs_on(group, W1) == {"a": 1, "b": 1, "c": 1}

    def test_a_large_job_is_spread_over_a_group_that_grew(self) -> None:
        group = group_of(1, {"a": 8, "b": 8, "c": 8})
        group.join("w2", "w3", "w4")
        group.settle()
        for worker in (W1, W2, W3, W4):
            assert jobs_on(group, worker) == {"a": 2, "b": 2, "c": 2}

    def test_what_is_cheapest_to_stop_is_revoked_first(self) -> None:
        group = group_of(1, {"a": 4, "b": 2})
        pending, streaming = TaskId("b", 0), TaskId("a", 2)
        group.rank = dict.fromkeys(group.configured, 2) | {pending: 0, streaming: 1}
        group.join("w2")
        outcome = group.rebalance()
        running_batch = TaskId("a", 3)
        assert tasks_in(stopped(outcome)) == {pending, streaming, running_batch}


class TestOwnTasksFirst:
    def test_two_that_come_back_get_each_its_own(self) -> None:
        group = group_of(4, {"a": 8, "b": 8})
        first, second = group.leave("w4"), group.leave("w2")
        group.rebalance()
        group.join("w4")
        group.rebalance()
        group.join("w2")
        group.rebalance()
        group.wait(MAX_DELAY_MS)
        outcome = group.rebalance()
        assert outcome.assigned == {W1: NO_TASKS, W2: second, W3: NO_TASKS, W4: first}
        assert {(move.source == move.target, move.reason) for move in outcome.moves} == {(True, MoveReason.RETURNED)}

    def test_a_stranger_gets_what_nobody_came_back_for(self) -> None:
        group = group_of(4, {"a": 8, "b": 8})
        own, left_alone = group.leave("w4"), group.leave("w2")
        group.join("a-stranger")
        group.rebalance()
        group.join("w4")
        group.rebalance()
        group.wait(MAX_DELAY_MS)
        outcome = group.rebalance()
        assert tasks_in(outcome.assigned[W4]) == tasks_in(own)
        assert tasks_in(outcome.assigned[WorkerId("a-stranger")]) == tasks_in(left_alone)

    def test_numbers_are_equal_all_the_same(self) -> None:
        """w4 lost six tasks and w2 two: as in Connect each of three gets its share of the twelve."""
        group = group_in_which_run(w1=4, w2=2, w4=6)
        of_w2, of_w4 = group.leave("w2"), group.leave("w4")
        group.rebalance()
        group.join("w2", "w4")
        group.rebalance()
        group.wait(MAX_DELAY_MS)
        outcome = group.rebalance()
        assert tasks_in(outcome.assigned[W4]) < of_w4
        assert of_w2 < tasks_in(outcome.assigned[W2]) < of_w2 | of_w4
        assert group.task_counts() == [4, 4, 4]

    def test_its_own_come_before_equal_numbers_of_what_is_lost(self) -> None:
        """w1 has to stop some, so that not everybody has its share yet: what w2 gets is its own, up to its share."""
        group = group_in_which_run(w1=4, w2=2)
        lost = group.leave("w2")
        group.rebalance()
        group.join("w2", "w3")
        group.wait(group.rebalance().delay_ms)
        outcome = group.rebalance()
        assert outcome.assigned[W2] == lost
        assert stopped(outcome)


class TestOnlyWhatRunsIsRevoked:
    def test_what_is_above_a_share_starts_elsewhere_in_the_same_round(self) -> None:
        """w3 runs a and leaves, w1 and w2 come with nothing, and w1 is given b while a waits."""
        group = Group({"a": 1})
        group.join("w3")
        group.rebalance()
        lost = group.leave("w3")
        group.join("w1", "w2")
        group.rebalance()
        group.jobs["b"] = 1
        assert group.rebalance().assigned[W1] == tasks_of({"b": 1})
        group.wait(MAX_DELAY_MS)
        outcome = group.rebalance()
        assert outcome.assigned == {W1: NO_TASKS, W2: lost}
        assert stopped(outcome) == NO_TASKS
        assert not changed(group.rebalance())

    def group_with_one_of_two_back(self) -> tuple[Group, Tasks, Tasks]:
        """Of four workers with three tasks each two left, and w2 has come back."""
        group = group_of(4, {"a": 12})
        own, foreign = tasks_in(group.leave("w2")), tasks_in(group.leave("w4"))
        group.rebalance()
        group.join("w2")
        group.rebalance()
        return group, own, foreign

    def test_who_is_back_does_not_get_the_work_of_those_who_are_not(self) -> None:
        group, own, foreign = self.group_with_one_of_two_back()
        group.wait(MAX_DELAY_MS)
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert own <= outcome.assigned[W2]
        assert tasks_in(started(outcome)) == own | foreign
        assert group.task_counts() == [4, 4, 4]
        assert not changed(group.rebalance())

    def test_nothing_that_runs_is_stopped_for_it(self) -> None:
        group, _, _ = self.group_with_one_of_two_back()
        group.jobs["b"] = 3
        new = group.rebalance()
        assert len(tasks_in(new.assigned[W2])) == 3
        group.wait(MAX_DELAY_MS)
        outcome = group.rebalance()
        assert stopped(outcome) == NO_TASKS
        assert tasks_in(new.assigned[W2]) <= outcome.target[W2]
        assert group.task_counts() == [5, 5, 5]

    def test_what_runs_above_a_share_is_still_stopped(self) -> None:
        group, own, foreign = self.group_with_one_of_two_back()
        group.wait(MAX_DELAY_MS)
        group.join("w5", "w6", "w7")
        outcome = group.rebalance()
        assert [len(tasks_in(outcome.revoked[worker])) for worker in (W1, W2, W3)] == [1, 0, 1]
        assert outcome.assigned[W2] < own
        assert tasks_in(started(outcome)) == own | foreign
        group.rebalance()
        assert group.task_counts() == [2] * 6

    def test_a_round_that_only_deals_out_does_not_slow_down_the_next_one(self) -> None:
        group, _, _ = self.group_with_one_of_two_back()
        group.wait(MAX_DELAY_MS)
        group.rebalance()
        group.join("w5")
        following = group.rebalance()
        assert following.delay_ms == 0
        assert len(tasks_in(stopped(following))) == 3


class TestRemovedIsStopped:
    def test_a_leader_without_memory_stops_what_is_not_configured(self) -> None:
        group = group_of(2, {"a": 2, "b": 2})
        del group.jobs["b"]
        group.lose_memory()
        outcome = group.rebalance()
        assert stopped(outcome) == tasks_of({"b": 2})
        assert {move.reason for move in outcome.moves} == {MoveReason.DELETED}


class TestSameInputSameResult:
    def test_the_order_of_what_comes_in_does_not_matter(self) -> None:
        rounds = [shuffled(random.Random(seed)) for seed in range(20)]
        memory = Memory(candidates=(W3,), revoked_in_previous=True, members=frozenset({W1, W2, W3}))
        first, *others = [cooperative_assignor.assign(each, memory, policy=DEFERRED) for each in rounds]
        assert changed(first)
        for other in others:
            assert other == first
            assert list(other.target) == list(first.target)
            assert other.moves == first.moves

    @pytest.mark.slow
    def test_nor_does_the_process(self) -> None:
        """Strings hash differently in each process, so sets come in another order."""
        outcomes = {
            subprocess.run(
                [sys.executable, "-c", _IN_ANOTHER_PROCESS], capture_output=True, text=True, check=True, timeout=60
            ).stdout
            for _ in range(3)
        }
        assert len(outcomes) == 1


_IN_ANOTHER_PROCESS = """
from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.values.model import TaskId
from airflow_provider.assignment.policy import Deferred
configured = frozenset(TaskId(job, index) for job in "abcdef" for index in range(-1, 7))
memory = Memory()
owned = {"w1": frozenset()}
for generation in range(6):
    rounds = Round(now_ms=generation * 10000, generation=generation, last_completed=generation - 1,
                   configured=configured, owned=owned)
    outcome = cooperative_assignor.assign(rounds, memory, policy=Deferred(max_delay_ms=100))
    print([(worker, sorted(tasks)) for worker, tasks in outcome.target.items()],
          [(sorted(move.tasks), move.source, move.target, move.reason) for move in outcome.moves], outcome.delay_ms)
    memory = outcome.memory
    owned = {**outcome.target, f"n{generation}": frozenset()}
"""


def shuffled(source: random.Random) -> Round:
    configured = list(tasks_of({"a": 5, "b": 5, "c": 4}))
    source.shuffle(configured)
    owned = [(W1, tasks_of({"a": 5})), (W2, tasks_of({"b": 5})), (W3, NO_TASKS), (W4, NO_TASKS)]
    source.shuffle(owned)
    return Round(
        now_ms=1_000,
        generation=GenerationId(7),
        last_completed=GenerationId(6),
        configured=frozenset(configured),
        owned=dict(owned),
    )


class TestWhatWaitsMovesAlone:
    def test_what_runs_stays_where_it_is_and_what_waits_is_evened_out_around_it(self) -> None:
        group = group_in_which_run(w1=4, w2=1, w3=0)
        group.stays = frozenset(sorted(group.owned[W1])[:2]) | group.owned[W2]
        outcome = group.rebalance()
        assert {worker: len(tasks_in(tasks)) for worker, tasks in outcome.revoked.items()} == {W1: 2, W2: 0, W3: 0}
        assert not stopped(outcome) & group.stays
        group.rebalance()
        assert group.task_counts() == [1, 2, 2]

    def test_what_can_not_be_evened_out_makes_no_further_round(self) -> None:
        group = group_in_which_run(w1=3, w2=0, w3=0)
        group.stays = group.owned[W1]
        for outcome in group.settle():
            assert (stopped(outcome), outcome.delay_ms) == (NO_TASKS, 0)

    def test_planners_are_evened_out_all_the_same(self) -> None:
        group = group_of(1, {"a": 1, "b": 1})
        group.join("w2")
        group.stays = group.configured
        assert stopped(group.rebalance()) == {planner_of("b")}
