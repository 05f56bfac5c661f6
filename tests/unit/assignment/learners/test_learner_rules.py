"""Single rules of the assignor of learner tasks, each in the smallest group that shows it."""

from __future__ import annotations

import pytest
from assignor_group import MAX_DELAY_MS
from learner_group import LearnerGroup, changed, started, stopped

from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.learners.model import MOST_GIVEN_UP, READY, Limits
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

S2, S3, S4, S9 = (WorkerId(f"S{number}") for number in (2, 3, 4, 9))


def tasks(*indices: int) -> Tasks:
    return frozenset(TaskId("T", index) for index in indices)


def group_of(number: int, rule: LearnedRule = LearnedRule.WHEN_READY, **owned: Tasks) -> LearnerGroup:
    """A group that is stable, without planners."""
    group = LearnerGroup({"T": number}, rule=rule)
    group.planners = False
    for worker, has in owned.items():
        group.join(worker, owning=has)
    assert not changed(group.rebalance())
    return group


def test_limits_bound_what_a_worker_and_a_group_learn_at_once() -> None:
    group = group_of(40, S2=tasks(*range(40)))
    group.limits = Limits(per_worker=3, per_group=5)
    group.join("S3")
    for _ in range(2):
        assert len(group.rebalance().learning[S3]) == 3
    group.join("S4")
    for _ in range(2):
        assert [len(lessons) for lessons in group.rebalance().learning.values()] == [0, 3, 2]
    group.gets_ready("S3")
    assert [len(lessons) for lessons in group.rebalance().learning.values()] == [0, 2, 3]


def test_the_limit_of_a_group_is_also_one_for_what_those_have_that_leave() -> None:
    group = group_of(12, S2=tasks(0, 1, 2, 3), S3=tasks(4, 5, 6, 7), S4=tasks(8, 9, 10, 11))
    group.limits = Limits(per_group=3)
    group.asks_to_leave("S2")
    for _ in range(2):
        assert sorted(len(lessons) for lessons in group.rebalance().learning.values()) == [0, 1, 2]
    assert group.settle() == 2
    assert group.owned.keys() == {S3, S4}


def test_who_leaves_is_done_when_it_has_stopped_the_last() -> None:
    group = group_of(2, S2=tasks(0), S3=tasks(1))
    group.stateful = frozenset()
    group.asks_to_leave("S2")
    outcome = group.rebalance()
    assert (outcome.revoked[S2], outcome.shutdown) == (tasks(0), frozenset())
    assert outcome.another_round_follows
    outcome = group.rebalance()
    assert (outcome.target[S3], outcome.shutdown) == (tasks(0, 1), frozenset({S2}))


def test_who_leaves_finishes_its_batch_tasks_and_gives_up_what_waits() -> None:
    """Whether they have state or not; nobody learns them."""
    group = LearnerGroup({"batch": 4, "rest": 2, "T": 2}, stateful=("rest", "T"))
    group.planners = False
    runs, waits = TaskId("batch", 0), TaskId("batch", 1)
    others = frozenset({TaskId("batch", 2), TaskId("batch", 3), TaskId("rest", 1), TaskId("T", 1)})
    group.join("S2", owning=frozenset({runs, waits, TaskId("rest", 0), TaskId("T", 0)}))
    group.join("S3", owning=others)
    group.batch, group.pending = frozenset({"batch", "rest"}), frozenset({waits})
    group.rebalance()
    group.asks_to_leave("S2")
    outcome = group.rebalance()
    assert outcome.revoked[S2] == frozenset({waits})
    assert outcome.learning[S3] == tasks(0)
    group.gets_ready("S3")
    outcome = group.rebalance()
    assert outcome.assigned[S3] == frozenset({waits}) | tasks(0)
    assert outcome.target[S2] == frozenset({runs, TaskId("rest", 0)})
    assert not outcome.shutdown, "it still runs something"
    assert not changed(group.rebalance()), "and the group is at rest meanwhile"
    group.ends(runs, TaskId("rest", 0))
    outcome = group.rebalance()
    assert outcome.shutdown == {S2}
    assert not stopped(outcome)


def test_where_all_leave_each_keeps_what_it_has() -> None:
    group = group_of(2, S2=tasks(0), S3=tasks(1))
    group.jobs["T"] = 3
    group.asks_to_leave("S2")
    group.asks_to_leave("S3")
    outcome = group.rebalance()
    assert not changed(outcome)
    assert not group.lessons
    group.join("S4")
    outcome = group.rebalance()
    assert outcome.assigned[S4] == tasks(2)
    assert outcome.learning[S4] == tasks(0, 1)


def test_an_owner_has_it_again_when_two_rounds_are_lost_and_the_learner_too() -> None:
    """The first of them would have handed it over."""
    group = group_of(4, LearnedRule.AT_REBALANCE, S2=tasks(2), S3=tasks(3), S9=tasks(0, 1))
    group.join("S4")
    assert group.rebalance().learned[S9] == tasks(0)
    group.gets_ready("S4")
    group.fail_to_sync()
    group.go("S4")
    outcome = group.rebalance()
    assert outcome.target == {S2: tasks(2), S3: tasks(3), S9: tasks(0, 1)}


def test_while_lost_work_waits_nothing_is_learned_for_balance() -> None:
    group = group_of(6, S2=tasks(0, 1, 2, 3), S9=tasks(4, 5))
    group.go("S9")
    group.join("S4")
    assert group.rebalance().delay_ms == MAX_DELAY_MS
    assert not group.lessons
    group.wait(MAX_DELAY_MS)
    group.rebalance()
    assert group.owned[S4] == tasks(4, 5)
    assert set(group.lessons) == tasks(0)


def test_who_has_lost_a_task_and_learns_it_has_it_again() -> None:
    group = group_of(2, S2=tasks(0), S3=tasks(1))
    group.named = True
    group.owned[S3] = NO_TASKS
    group.learns_on("S3", TaskId("T", 1), 0.5)
    outcome = group.rebalance()
    assert outcome.target[S3] == tasks(1)
    assert not outcome.learning[S3]


@pytest.mark.parametrize(("failed", "gets_it"), [(False, "S2"), (True, "S5")])
def test_when_the_delay_is_over_a_learner_gets_what_it_has_not_failed_to_learn(failed: bool, gets_it: str) -> None:
    group = group_of(5, S2=tasks(0), S9=tasks(1, 2, 3, 4))
    group.join("S4")
    group.rebalance()
    learned = TaskId("T", 1)
    assert group.lessons[learned] == S2
    group.go("S9")
    for new in ("S5", "S6", "S7"):
        group.join(new)
    group.rebalance()
    group.wait(MAX_DELAY_MS)
    if failed:
        group.fails("S2", learned)
    assert learned in group.rebalance().target[WorkerId(gets_it)]


def test_what_waits_for_a_slot_goes_to_its_learner_in_two_rounds() -> None:
    """Nobody runs it, so there is nothing to wait for."""
    group = group_of(2, S2=tasks(0, 1))
    group.join("S3")
    assert group.rebalance().learning[S3] == tasks(0)
    group.pending = tasks(0)
    assert stopped(group.rebalance()) == tasks(0)
    outcome = group.rebalance()
    assert started(outcome) == outcome.target[S3] == tasks(0)


@pytest.mark.parametrize("ready_from", [0.5, 0.9])
def test_from_some_progress_on_a_learner_is_ready(ready_from: float) -> None:
    group = group_of(2, S2=tasks(0, 1))
    group.limits = Limits(ready_from=ready_from)
    group.join("S3")
    group.rebalance()
    group.learns_on("S3", TaskId("T", 0), 0.7)
    assert bool(stopped(group.rebalance())) is (ready_from <= 0.7)


def test_a_learner_that_fails_gives_its_place_to_another_and_its_task_stays_where_it_is() -> None:
    group = group_of(12, S2=tasks(*range(12)))
    group.limits = Limits(per_worker=2)
    group.join("S3")
    assert group.rebalance().learning[S3] == tasks(0, 1)
    group.fails("S3", TaskId("T", 0))
    outcome = group.rebalance()
    assert outcome.learning[S3] == tasks(1, 2)
    assert not stopped(outcome)
    assert outcome.memory.given_up == {S3: tasks(0)}
    group.settle()
    assert group.owned == {S2: tasks(0, *range(7, 12)), S3: tasks(*range(1, 7))}


@pytest.mark.parametrize("ready", [False, True])
def test_a_failure_counts_although_another_worker_learns_the_task_and_is_further(ready: bool) -> None:
    """Two learn a task if one of them has missed the rounds since it began."""
    group = group_of(4, S2=tasks(0, 1, 2, 3))
    group.join("S3")
    assert group.rebalance().learning[S3] == tasks(0, 1)
    group.named = True
    group.owned[S2] = NO_TASKS
    group.join("S4")
    group.fails("S4", TaskId("T", 1))
    group.learns_on("S3", TaskId("T", 1), READY if ready else 0.5)
    outcome = group.rebalance()
    assert TaskId("T", 1) in (outcome.target if ready else outcome.learning)[S3]
    assert outcome.memory.given_up == {S4: tasks(1)}
    assert TaskId("T", 1) not in outcome.learning[S4]


def test_the_failure_of_a_worker_that_drains_counts() -> None:
    group = group_of(4, S2=tasks(0, 1, 2, 3))
    group.join("S3", "S4")
    assert group.rebalance().learning[S3] == tasks(0)
    group.fails("S3")
    group.draining.add(S3)
    outcome = group.rebalance()
    assert outcome.memory.given_up == {S3: tasks(0)}
    assert outcome.learning == {S2: NO_TASKS, S3: NO_TASKS, S4: tasks(1, 2)}


def test_of_workers_with_one_too_many_the_one_gives_it_up_whose_task_has_not_started() -> None:
    """Nothing has to be learned for that. S2 and S3 have two each, and one of them may keep both."""
    group = group_of(4, S2=tasks(0, 1), S3=tasks(2, 3))
    group.join("S4")
    group.pending = tasks(3)
    assert stopped(group.rebalance()) == tasks(3)
    assert not group.lessons
    assert group.rebalance().assigned[S4] == tasks(3)
    assert not changed(group.rebalance())
    assert not group.lessons


def test_what_a_draining_worker_gets_back_is_in_nobodys_share() -> None:
    group = group_of(7, LearnedRule.AT_REBALANCE, S2=tasks(0, 1, 2), S3=tasks(3, 4, 5), S4=tasks(6))
    assert group.lessons == {TaskId("T", 0): S4}
    group.draining.add(S2)
    group.forgets_lessons("S4")
    outcome = group.rebalance()
    assert outcome.target[S2] == tasks(0, 1, 2)
    assert outcome.learning[S4] == tasks(3), "of the other four, each is to have two"


def test_what_has_failed_is_tried_nowhere_until_a_worker_comes_or_goes_or_its_job_is_submitted_anew() -> None:
    for again in ("join", "submit"):
        group = group_of(4, S2=tasks(0), S3=tasks(1, 2, 3))
        group.rebalance()
        assert group.lessons == {TaskId("T", 1): S2}
        group.limits = Limits(per_group=1)
        for index in (1, 2, 3):
            group.fails("S2", TaskId("T", index))
            group.rebalance()
        assert not group.lessons
        assert not changed(group.rebalance())
        if again == "join":
            group.join("S4")
        else:
            group.renewed = frozenset({"T"})
        group.rebalance()
        assert group.lessons


def test_of_a_job_of_which_so_many_have_failed_no_other_is_tried() -> None:
    group = group_of(40, S2=tasks(*range(40)))
    group.join("S3")
    rounds = 0
    group.rebalance()
    while group.lessons:
        group.fails("S3")
        group.rebalance()
        rounds += 1
    assert rounds == 2, "four at a time"
    assert MOST_GIVEN_UP <= len(group.memory.given_up[S3]) < 2 * MOST_GIVEN_UP


def test_what_nobody_can_make_ready_moves_all_the_same_when_its_worker_leaves() -> None:
    group = group_of(2, S2=tasks(0), S3=tasks(1))
    group.asks_to_leave("S2")
    assert group.rebalance().learning[S3] == tasks(0)
    group.fails("S3")
    assert stopped(group.rebalance()) == tasks(0)
    outcome = group.rebalance()
    assert outcome.target[S3] == tasks(0, 1)
    assert outcome.shutdown == {S2}


def test_a_lost_task_whose_learner_has_failed_goes_to_the_worker_that_has_the_least() -> None:
    group = group_of(6, S2=tasks(0, 1, 2), S9=tasks(3, 4, 5))
    group.join("S3")
    group.rebalance()
    lesson = next(task for task, worker in group.lessons.items() if task in group.owned[S9])
    group.go("S9")
    group.fails("S3", lesson)
    group.join("S4")
    assert lesson not in group.rebalance().learning[S3], "its place is another's"
    group.wait(MAX_DELAY_MS)
    group.rebalance()
    assert lesson in group.running


def test_of_two_that_learn_a_task_the_one_that_is_further_counts() -> None:
    group = group_of(3, S2=tasks(0, 1, 2))
    group.join("S3", "S4")
    group.rebalance()
    group.learning = {S2: {}, S3: {TaskId("T", 0): 0.2}, S4: {TaskId("T", 0): 0.3}}
    outcome = group.rebalance()
    assert outcome.learning[S4] == tasks(0)
    assert outcome.learning[S3] == tasks(1)


SLOTS = {S2: 2, S3: 4, S4: 8, S9: 16}


def group_with_slots(number: int) -> LearnerGroup:
    """Its workers differ in slots, and nothing has state yet."""
    group = LearnerGroup({"T": number}, stateful=())
    group.planners = False
    group.slots = dict(SLOTS)
    group.join(*SLOTS)
    group.settle()
    return group


def counts(group: LearnerGroup) -> list[int]:
    return [len(group.owned[worker]) for worker in SLOTS if worker in group.owned]


@pytest.mark.parametrize(("number", "expected"), [(24, [2, 3, 6, 13]), (30, [2, 4, 8, 16]), (40, [3, 5, 11, 21])])
def test_tasks_with_state_are_shared_out_in_proportion_to_slots(number: int, expected: list[int]) -> None:
    group = LearnerGroup({"T": number})
    group.planners = False
    group.slots = dict(SLOTS)
    group.join(*SLOTS)
    group.settle()
    assert counts(group) == expected


def test_a_group_that_begins_to_learn_has_nothing_to_move() -> None:
    for number in range(60):
        group = group_with_slots(number)
        before = dict(group.owned)
        group.stateful = None
        assert not changed(group.rebalance())
        assert not group.lessons
        assert group.owned == before


def test_a_worker_that_joins_learns_in_proportion_to_its_slots_and_others_are_given_nothing() -> None:
    group = group_with_slots(30)
    group.stateful = None
    group.slots[WorkerId("S5")] = 30
    before = dict(group.owned)
    group.join("S5")
    group.settle()
    assert [*counts(group), len(group.owned[WorkerId("S5")])] == [1, 2, 4, 8, 15]
    assert all(group.owned[worker] < before[worker] for worker in SLOTS)
    group.asks_to_leave("S5")
    group.settle()
    assert counts(group) == [2, 4, 8, 16]


def test_tasks_of_known_cost_get_the_slots_that_those_with_state_leave() -> None:
    group = LearnerGroup({"T": 2}, stateful={"T"})
    group.planners = False
    group.slots = {S2: 2, S3: 2}
    group.join(*group.slots)
    group.settle()
    batch = [TaskId("batch", index) for index in range(4)]
    group.jobs["batch"] = len(batch)
    group.costs = Costs(of=dict(zip(batch, (6.0, 2.0, 2.0, 2.0), strict=True)))
    group.settle()
    (with_longest,) = [tasks for tasks in group.owned.values() if batch[0] in tasks]
    assert len(with_longest) == 2, "a stream and the longest"
    group.asks_to_leave("S3")
    group.rebalance()
    assert group.learning[S2], "the stream of the other one"


def test_tasks_of_several_slots_get_the_slots_that_those_with_state_leave() -> None:
    group = LearnerGroup({"T": 2, "large": 1, "small": 3}, stateful={"T"})
    group.planners = False
    group.slots = {S2: 4, S3: 4}
    large = TaskId("large", 0)
    group.costs = Costs(large={3: frozenset({large})})
    group.join(*group.slots)
    group.settle()
    (with_large,) = [tasks for tasks in group.owned.values() if large in tasks]
    assert [task.job for task in with_large - {large}] == ["T"]


@pytest.mark.slow
@pytest.mark.no_cover  # so many tasks say no more of that than a few
def test_two_thousand_tasks_come_to_rest_in_no_more_rounds_than_their_limits_ask_for() -> None:
    group = LearnerGroup({f"job-{number}": 100 for number in range(20)}, limits=Limits(per_worker=4, per_group=10))
    group.join(*[f"w{number}" for number in range(20)])
    group.rebalance()
    for come, go in ((3, 0), (0, 2)):
        group.join(*[f"new-{number}" for number in range(come)])
        for number in range(go):
            group.asks_to_leave(f"w{number}")
        before, moved, rounds = dict(group.owned), 0, 0
        outcome = group.rebalance()
        while group.lessons or changed(outcome) or outcome.delay_ms:
            for worker in list(group.learning):
                group.gets_ready(worker)
            group.wait(outcome.delay_ms)
            outcome, rounds = group.rebalance(), rounds + 1
            assert max(map(len, group.learning.values())) <= 4
            assert len(group.lessons) <= 10
            moved += len(started(outcome))
            assert rounds <= 200
        at_most = sum(len(tasks - before.get(worker, NO_TASKS)) for worker, tasks in group.owned.items())
        assert moved == at_most, "nothing moves twice"
        assert rounds <= moved // 10 + 5, "ten at a time"
        loads = [sum(not task.is_planner for task in tasks) for tasks in group.owned.values()]
        assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize("wrong", [{"per_worker": 0}, {"per_group": 0}, {"longest_ms": 0}, {"ready_from": 1.5}])
def test_limits_that_make_no_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Limits(**wrong)
