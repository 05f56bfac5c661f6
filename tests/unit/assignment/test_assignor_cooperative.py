"""The situations that Connect's own test class for its assignor knows, and what must come of them."""

from __future__ import annotations

import json

import pytest
from assignor_group import DEFERRED, MAX_DELAY_MS, Group, changed, moved_because, moves_because, started, stopped

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.model import Load, Memory, MoveReason, Round
from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Policy
from airflow_provider.state.rounds.round_json import memory_from_json, memory_to_json
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, WorkerId, planner_of

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")


def group_of(workers: int, jobs: int = 2, *, policy: Policy = DEFERRED) -> Group:
    """A group in balance whose jobs have a planner and four tasks each."""
    group = Group({f"job{number}": 4 for number in range(1, jobs + 1)}, policy=policy)
    group.join(*[f"w{number}" for number in range(1, workers + 1)])
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert started(outcome) == group.configured
    return group


def counts(group: Group) -> tuple[list[int], list[int]]:
    return group.planner_counts(), group.task_counts()


class TestJoining:
    def test_the_first_worker_gets_everything(self) -> None:
        assert counts(group_of(1)) == ([2], [8])

    def test_a_second_worker_gets_half_in_two_rounds(self) -> None:
        group = group_of(1)
        group.join("w2")
        first = group.rebalance()
        assert (first.delay_ms, counts(group)) == (0, ([0, 1], [0, 4]))
        second = group.rebalance()
        assert (second.delay_ms, counts(group)) == (0, ([1, 1], [4, 4]))
        assert stopped(second) == NO_TASKS
        assert started(second) == stopped(first)
        assert not changed(group.rebalance())

    def test_who_joins_right_after_a_revocation_waits_a_moment(self) -> None:
        group = group_of(1, jobs=3)
        group.join("w2")
        group.rebalance()
        assert counts(group) == ([0, 2], [0, 6])
        group.join("w3")
        third = group.rebalance()
        assert stopped(third) == NO_TASKS
        assert (third.delay_ms, counts(group)) == (40, ([0, 1, 2], [3, 3, 6]))
        group.wait(third.delay_ms)
        group.join("w4")
        assert group.rebalance().delay_ms == 0
        assert counts(group) == ([0, 0, 1, 1], [0, 3, 3, 3])
        group.join("w5")
        fifth = group.rebalance()
        assert (fifth.delay_ms, counts(group)) == (1600, ([0, 0, 1, 1, 1], [1, 2, 3, 3, 3]))
        group.wait(fifth.delay_ms)
        group.join("w6")
        assert group.rebalance().delay_ms == 0
        assert counts(group) == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 2, 2, 2])
        group.rebalance()
        assert counts(group) == ([0, 0, 0, 1, 1, 1], [2] * 6)

    def test_the_backoff_starts_again_once_a_round_revokes_nothing(self) -> None:
        group = group_of(1, jobs=3)
        for worker in ("w2", "w3"):
            group.join(worker)
            delay_ms = group.rebalance().delay_ms
        assert delay_ms == 40
        group.wait(delay_ms)
        group.settle()
        for worker in ("w4", "w5"):
            group.join(worker)
            delay_ms = group.rebalance().delay_ms
        assert delay_ms == 40

    def test_who_joins_while_that_delay_runs_is_not_balanced_for(self) -> None:
        group = group_of(1, jobs=3)
        group.join("w2")
        group.rebalance()
        group.join("w3")
        group.rebalance()
        group.wait(20)
        group.join("w4")
        fourth = group.rebalance()
        assert stopped(fourth) == NO_TASKS
        assert (fourth.delay_ms, counts(group)) == (20, ([0, 0, 1, 2], [0, 3, 3, 6]))
        group.wait(40)
        group.join("w5")
        assert group.rebalance().delay_ms == 0
        assert counts(group) == ([0, 0, 0, 1, 1], [0, 0, 2, 3, 3])
        assert stopped(group.rebalance()) == NO_TASKS
        assert counts(group) == ([0, 0, 1, 1, 1], [2, 2, 2, 3, 3])

    def test_without_a_maximum_delay_rounds_revoke_one_after_the_other(self) -> None:
        group = group_of(1, jobs=3, policy=IMMEDIATE)
        group.join("w2")
        group.rebalance()
        group.join("w3")
        assert group.rebalance().delay_ms == 0
        assert counts(group) == ([0, 1, 1], [3, 3, 4])
        assert stopped(group.rebalance()) == NO_TASKS
        assert counts(group) == ([1, 1, 1], [4, 4, 4])

    def test_the_maximum_bounds_that_delay_too(self) -> None:
        group = group_of(1, jobs=3, policy=Deferred(max_delay_ms=1))
        group.join("w2")
        group.rebalance()
        group.join("w3")
        assert group.rebalance().delay_ms == 1


class TestLeaving:
    def test_lost_work_waits_and_then_moves(self) -> None:
        group = group_of(2)
        lost = group.leave("w2")
        gone = group.rebalance()
        assert gone.delay_ms == MAX_DELAY_MS
        assert not changed(gone)
        group.wait(MAX_DELAY_MS // 2)
        incidental = group.rebalance()
        assert incidental.delay_ms == MAX_DELAY_MS // 2
        assert not changed(incidental)
        group.wait(MAX_DELAY_MS // 2)
        over = group.rebalance()
        assert over.delay_ms == 0
        assert over.assigned == {W1: lost}
        assert {(move.source, move.target) for move in moves_because(MoveReason.LOST, over)} == {(W2, W1)}

    def test_who_comes_back_in_time_gets_its_own(self) -> None:
        group = group_of(2)
        lost = group.leave("w2")
        group.rebalance()
        group.wait(100_000)
        group.join("w2")
        back = group.rebalance()
        assert back.delay_ms == MAX_DELAY_MS - 100_000
        assert not changed(back)
        group.wait(MAX_DELAY_MS - 100_000)
        over = group.rebalance()
        assert over.delay_ms == 0
        assert over.assigned == {W1: NO_TASKS, W2: lost}
        assert stopped(over) == NO_TASKS
        assert moved_because(MoveReason.RETURNED, over) == lost

    def test_who_comes_back_with_its_tasks_still_running_goes_on_at_once(self) -> None:
        group = group_of(2)
        lost = group.leave("w2")
        group.rebalance()
        group.join("w2", owning=lost)
        back = group.rebalance()
        assert back.delay_ms == 0
        assert not changed(back)

    def test_who_comes_back_and_leaves_again_gets_nothing(self) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.rebalance()
        group.wait(100_000)
        group.join("w2")
        group.rebalance()
        group.leave("w2")
        group.wait(MAX_DELAY_MS - 100_000)
        over = group.rebalance()
        assert over.delay_ms == 0
        assert started(over) == lost
        assert counts(group) == ([1, 1], [4, 4])

    def test_lost_work_is_shared_among_all_who_came_meanwhile(self) -> None:
        group = group_of(3, jobs=3)
        lost = group.leave("w2")
        group.join("w4")
        assert group.rebalance().delay_ms == MAX_DELAY_MS
        group.wait(MAX_DELAY_MS // 2)
        group.join("w5")
        group.rebalance()
        group.wait(MAX_DELAY_MS // 2)
        over = group.rebalance()
        assert started(over) == lost
        assert over.assigned[W1] == over.assigned[W3] == NO_TASKS
        assert counts(group) == ([0, 1, 1, 1], [2, 2, 3, 3])  # the others gave up one each

    def test_new_jobs_do_not_wait_for_a_lost_worker(self) -> None:
        group = group_of(3, jobs=3)
        group.leave("w2")
        group.rebalance()
        group.jobs["more"] = 3
        outcome = group.rebalance()
        assert outcome.delay_ms == MAX_DELAY_MS
        assert {task.job for task in started(outcome)} == {"more"}
        assert len(started(outcome)) == 4

    def test_lost_tasks_of_a_removed_job_are_forgotten(self) -> None:
        group = group_of(2)
        group.leave("w2")
        group.rebalance()
        group.jobs.clear()
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert stopped(outcome) == outcome.revoked[W1] != NO_TASKS
        assert not any(outcome.memory.assignment.values())

    def test_who_came_back_may_take_up_new_work_meanwhile(self) -> None:
        group = group_of(3, jobs=3)
        lost = group.leave("w2")
        group.rebalance()
        group.join("w2")
        group.rebalance()
        group.jobs["more"] = 3
        new = group.rebalance()
        assert new.delay_ms == MAX_DELAY_MS
        assert new.assigned[W2] == started(new)
        group.rebalance()
        group.wait(MAX_DELAY_MS)
        over = group.rebalance()
        assert started(over) == lost
        assert over.assigned[W2] < lost
        assert counts(group) == ([1, 1, 2], [5, 5, 5])

    def test_a_second_loss_shares_the_running_delay(self) -> None:
        group = group_of(3, jobs=3)
        group.leave("w2")
        group.rebalance()
        group.wait(200_000)
        group.leave("w3")
        assert group.rebalance().delay_ms == 100_000

    def test_without_a_maximum_delay_lost_work_moves_at_once(self) -> None:
        group = group_of(2, policy=IMMEDIATE)
        lost = group.leave("w2")
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert outcome.assigned == {W1: lost}

    def test_a_clock_that_is_set_back_lengthens_no_delay_beyond_the_maximum(self) -> None:
        group = group_of(2)
        group.leave("w2")
        group.rebalance()
        group.wait(-1_000_000)
        outcome = group.rebalance()
        assert outcome.delay_ms == MAX_DELAY_MS
        assert outcome.memory.deadline_ms == group.now_ms + MAX_DELAY_MS


class TestLeaderChange:
    """With an empty memory: what a new leader does that knows nothing of the rounds before."""

    def test_what_the_old_leader_had_is_given_away_at_once(self) -> None:
        group = group_of(3)
        lost = group.leave("w1")
        group.lose_memory()
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert started(outcome) == lost
        assert stopped(outcome) == NO_TASKS
        assert counts(group) == ([1, 1], [4, 4])
        assert not changed(group.rebalance())

    def test_the_old_leader_comes_back_like_any_new_worker(self) -> None:
        group = group_of(3)
        group.leave("w1")
        group.lose_memory()
        group.rebalance()
        group.join("w1")
        back = group.rebalance()
        assert (back.delay_ms, counts(group)) == (0, ([0, 1, 1], [0, 3, 3]))
        assert stopped(group.rebalance()) == NO_TASKS
        assert counts(group) == ([0, 1, 1], [2, 3, 3])


class TestFailedRounds:
    def test_a_first_assignment_that_reached_nobody_is_computed_again(self) -> None:
        group = Group({"job1": 4, "job2": 4})
        group.join("w1", "w2")
        group.fail_to_sync()
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert counts(group) == ([1, 1], [4, 4])

    def test_so_is_one_of_which_only_the_leader_knows(self) -> None:
        group = Group({"job1": 4, "job2": 4})
        group.join("w1", "w2")
        group.rebalance_in_vain()
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert counts(group) == ([1, 1], [4, 4])

    @pytest.mark.parametrize("how", [Group.fail_to_sync, Group.rebalance_in_vain])
    def test_revocations_that_reached_nobody_are_made_again_after_the_backoff(self, how: object) -> None:
        group = group_of(2)
        group.join("w3")
        assert callable(how)
        first = how(group)
        assert (len(stopped(first)), counts(group)) == (2, ([0, 1, 1], [0, 4, 4]))
        second = group.rebalance()
        assert second.delay_ms == 40
        assert not changed(second)
        group.wait(40)
        third = group.rebalance()
        assert (third.delay_ms, counts(group)) == (0, ([0, 1, 1], [0, 3, 3]))
        group.rebalance()
        assert counts(group) == ([0, 1, 1], [2, 3, 3])

    def test_then_nothing_is_taken_for_lost(self) -> None:
        """As in Connect: what is owned is all that is known when revocations have not been carried out."""
        group = group_of(2)
        group.join("w3")
        group.rebalance_in_vain()
        lost = group.leave("w2")
        outcome = group.rebalance()
        assert started(outcome) == lost
        assert outcome.delay_ms == 0

    def test_a_leader_that_missed_a_round_takes_nothing_for_lost(self) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.last_completed = GenerationId(group.generation - 1)
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert started(outcome) == lost


class TestJobsThatChange:
    def test_a_removed_job_is_stopped_and_the_others_stay(self) -> None:
        group = group_of(2, jobs=3)
        del group.jobs["job3"]
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert {task.job for task in stopped(outcome)} == {"job3"}
        assert {move.reason for move in outcome.moves} == {MoveReason.DELETED}
        assert counts(group) == ([1, 1], [4, 4])

    def test_a_job_that_grows_gets_its_new_tasks_only(self) -> None:
        group = group_of(2)
        group.jobs["job1"] = 6
        outcome = group.rebalance()
        assert started(outcome) == {TaskId("job1", 4), TaskId("job1", 5)}
        assert stopped(outcome) == NO_TASKS
        assert counts(group) == ([1, 1], [5, 5])

    def test_nothing_configured_is_no_error(self) -> None:
        group = Group()
        group.join("w1")
        outcome = group.rebalance()
        assert outcome.target == {W1: NO_TASKS}
        assert outcome.delay_ms == 0


class TestTasksWithTwoOwners:
    def test_both_stop_it_and_one_gets_it_in_the_next_round(self) -> None:
        group = group_of(1)
        twice = frozenset({planner_of("job1"), *[TaskId("job1", index) for index in range(4)]})
        group.join("w2", owning=twice)
        first = group.rebalance()
        assert first.delay_ms == 0
        assert twice <= first.revoked[W1]
        assert first.revoked[W2] == twice
        assert counts(group) == ([0, 1], [0, 4])
        second = group.rebalance()
        assert second.assigned == {W1: NO_TASKS, W2: twice}
        assert counts(group) == ([1, 1], [4, 4])
        assert {(move.source, move.reason) for move in second.moves} == {(None, MoveReason.DUPLICATE)}
        assert not changed(group.rebalance())

    def test_when_it_is_removed_as_well_both_just_stop_it(self) -> None:
        group = group_of(1)
        twice = frozenset({planner_of("job1"), *[TaskId("job1", index) for index in range(4)]})
        group.join("w2", owning=twice)
        del group.jobs["job1"]
        group.rebalance()
        assert counts(group) == ([0, 1], [0, 2])
        assert stopped(group.rebalance()) == NO_TASKS
        assert counts(group) == ([0, 1], [2, 2])
        assert not changed(group.rebalance())


class TestWhatIsReported:
    def test_a_balancing_move_is_told_in_both_of_its_rounds(self) -> None:
        group = group_of(1)
        group.join("w2")
        first, second = group.rebalance(), group.rebalance()
        moved = stopped(first)
        for outcome, target in ((first, None), (second, W2)):
            assert {(move.source, move.target, move.reason) for move in outcome.moves} == {
                (W1, target, MoveReason.BALANCE)
            }
            assert NO_TASKS.union(*(move.tasks for move in outcome.moves)) == moved

    def test_a_balancing_move_names_what_its_worker_had_and_may_keep_planners_and_tasks_apart(self) -> None:
        group = Group({"a": 5, "b": 0})
        group.join("w1")
        group.rebalance()
        group.join("w2")
        first = group.rebalance()
        group.memory = memory_from_json(json.loads(json.dumps(memory_to_json(group.memory))))
        for outcome in (first, group.rebalance()):
            loads = {next(iter(move.tasks)).is_planner: move.load for move in outcome.moves}
            assert loads == {True: Load(has=2, share=1), False: Load(has=5, share=3)}

    def test_it_is_told_as_well_by_a_leader_that_took_the_memory_over(self) -> None:
        group = group_of(1)
        group.join("w2")
        group.rebalance()
        group.memory = memory_from_json(memory_to_json(group.memory))
        assert {move.source for move in group.rebalance().moves} == {W1}

    def test_every_member_has_an_entry(self) -> None:
        group = group_of(2)
        outcome = group.rebalance()
        assert outcome.assigned.keys() == outcome.revoked.keys() == outcome.target.keys() == {W1, W2}

    def test_a_round_needs_a_member(self) -> None:
        nobody = Round(
            now_ms=0, generation=GenerationId(1), last_completed=GenerationId(0), configured=NO_TASKS, owned={}
        )
        with pytest.raises(ValueError, match="at least one member"):
            cooperative_assignor.assign(nobody, Memory(), policy=IMMEDIATE)
