"""What must hold for every group with learner tasks and every history. The names are in ``extensible_assignor.py``."""

from __future__ import annotations

import math
from typing import Any

import pytest
from assignor_group import MAX_DELAY_MS, Group
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from learner_checks import LIMITS, check_lessons, check_ownership, check_stops, check_who_leaves
from learner_group import LearnerGroup, assert_shared_out, changed, started, stopped

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import LearnerAssignment, LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.model import GroupAssignment, Round
from airflow_provider.assignment.policy import Deferred, Incremental, Policy
from airflow_provider.state.rounds.round_json import (
    learner_memory_from_json,
    learner_memory_to_json,
    memory_from_json,
    memory_to_json,
)
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId, tasks_from_json

pytestmark = pytest.mark.slow

JOB_SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 12), max_size=6)
POLICIES: list[Policy] = [Deferred(max_delay_ms=MAX_DELAY_MS), Incremental(max_moves=5, max_delay_ms=MAX_DELAY_MS)]
STATEFUL = frozenset("abcd")

patient = settings(deadline=None)
"""A busy machine is no failure."""


def group_at_rest(workers: int, jobs: dict[str, int], rule: LearnedRule, limits: Limits = LIMITS) -> LearnerGroup:
    group = LearnerGroup(jobs, stateful=STATEFUL, rule=rule, limits=limits)
    group.join(*[f"w{number}" for number in range(workers)])
    group.rebalance()
    assert group.settle() == 0
    return group


def running_stateful(group: LearnerGroup) -> Tasks:
    return frozenset(task for task in group.running if task.job in STATEFUL and not task.is_planner)


@patient
@given(workers=st.integers(1, 8), jobs=JOB_SIZES, rule=st.sampled_from(LearnedRule), data=st.data())
def test_nobody_starts_over(workers: int, jobs: dict[str, int], rule: LearnedRule, data: st.DataObject) -> None:
    """What is learned is learned on when one more worker joins, and another, and each is a round of its own."""
    group = group_at_rest(workers, jobs, rule)
    for number in range(data.draw(st.integers(2, 4))):
        before = group.lessons
        group.join(f"new{number}")
        group.rebalance()
        assert before.items() <= group.lessons.items()
    group.settle()
    assert_shared_out(group)


@patient
@given(workers=st.integers(1, 8), jobs=JOB_SIZES, rule=st.sampled_from(LearnedRule))
def test_a_join_stops_no_stateful_task_before_another_worker_is_ready(
    workers: int, jobs: dict[str, int], rule: LearnedRule
) -> None:
    group = group_at_rest(workers, jobs, rule, limits=Limits(per_worker=99))
    stateful = len(running_stateful(group))
    group.join("new")
    assert not running_stateful(group) & stopped(group.rebalance())
    assert len(group.lessons) == stateful // (workers + 1)
    rounds = group.settle()
    assert rounds <= 2, "what has no state needs another round"
    assert_shared_out(group)


@patient
@given(workers=st.integers(2, 8), jobs=JOB_SIZES, rule=st.sampled_from(LearnedRule), data=st.data())
def test_warm_replaces_lost(workers: int, jobs: dict[str, int], rule: LearnedRule, data: st.DataObject) -> None:
    """And the delay runs for all else that was lost."""
    group = group_at_rest(workers, {**jobs, "a": 12}, rule)
    group.join("new")
    group.rebalance()
    lessons = dict(group.lessons)
    ready = frozenset(data.draw(st.sets(st.sampled_from(sorted(lessons)))) if lessons else ())
    for task in ready:
        group.gets_ready(lessons[task], task, owners_know=False)
    lost = group.go(data.draw(st.sampled_from([worker for worker in sorted(group.owned) if worker != "new"])))
    outcome = group.rebalance()
    assert {task: worker for worker, tasks in outcome.assigned.items() for task in tasks & lost} == {
        task: worker for task, worker in lessons.items() if task in ready & lost
    }
    assert bool(outcome.delay_ms) is bool(lost - ready)


@patient
@given(workers=st.integers(2, 8), jobs=JOB_SIZES, rule=st.sampled_from(LearnedRule), data=st.data())
def test_half_warm_first(workers: int, jobs: dict[str, int], rule: LearnedRule, data: st.DataObject) -> None:
    group = group_at_rest(workers, {**jobs, "a": 12}, rule)
    group.join("new")
    group.rebalance()
    lessons = dict(group.lessons)
    lost = group.go(data.draw(st.sampled_from([worker for worker in sorted(group.owned) if worker != "new"])))
    assert not started(group.rebalance()) & lost
    assert group.lessons.items() >= {task: lessons[task] for task in lost & lessons.keys()}.items()
    group.wait(MAX_DELAY_MS)
    group.rebalance()
    for task in lost & lessons.keys():
        assert task in group.owned[lessons[task]]
    assert lost <= frozenset(group.running)


@patient
@given(
    workers=st.integers(2, 8),
    jobs=JOB_SIZES,
    rule=st.sampled_from(LearnedRule),
    was_ready=st.booleans(),
    dies=st.booleans(),
)
def test_a_learner_costs_nothing(
    workers: int, jobs: dict[str, int], rule: LearnedRule, was_ready: bool, dies: bool
) -> None:
    """Whether what it learned dies, or its worker, which has nothing else yet, dies with it."""
    group = group_at_rest(workers, {job: number for job, number in jobs.items() if job in STATEFUL}, rule)
    group.jobs["a"] = 12
    group.settle()
    group.planners = False
    group.rebalance()
    before = dict(group.owned)
    group.join("new")
    group.rebalance()
    if was_ready:
        group.gets_ready("new")
    group.join_group()
    if dies:
        group.go("new")
    else:
        group.forgets_lessons("new")
    outcome = group.rebalance()
    assert {worker: tasks for worker, tasks in group.owned.items() if worker != "new"} == before
    assert not stopped(outcome)
    assert outcome.delay_ms == 0


@patient
@given(workers=st.integers(2, 8), jobs=JOB_SIZES, rule=st.sampled_from(LearnedRule), data=st.data())
def test_who_leaves_gets_nothing(workers: int, jobs: dict[str, int], rule: LearnedRule, data: st.DataObject) -> None:
    """What has state is learned before it goes, the rest moves in two rounds; those who stay are even at the end."""
    group = group_at_rest(workers, jobs, rule)
    leaving = data.draw(st.lists(st.sampled_from(sorted(group.owned)), unique=True, min_size=1, max_size=workers - 1))
    for worker in leaving:
        group.asks_to_leave(worker)
    stateful = running_stateful(group)
    outcome = group.rebalance()
    assert not stopped(outcome) & stateful
    for worker in set(leaving) & group.owned.keys():
        assert group.owned[WorkerId(worker)] <= stateful
    group.jobs["h"] = 12
    outcome = group.rebalance()
    assert not [worker for worker in leaving if outcome.assigned.get(WorkerId(worker), NO_TASKS) - stateful]
    group.settle()
    assert not set(leaving) & group.owned.keys()
    assert_shared_out(group)


@patient
@given(workers=st.integers(2, 6), rule=st.sampled_from(LearnedRule), leaves=st.booleans())
def test_a_learner_that_takes_too_long(workers: int, rule: LearnedRule, leaves: bool) -> None:
    """The task stays where it is, and is not tried again as long as nobody comes or goes; who leaves, leaves."""
    group = group_at_rest(workers, {"a": 12}, rule)
    if leaves:
        group.asks_to_leave("w0")
    else:
        group.join("new")
    group.rebalance()
    late, before = dict(group.lessons), running_stateful(group)
    at_ms = group.memory.overdue_at_ms(LIMITS)
    assert at_ms == group.now_ms + LIMITS.longest_ms
    group.wait(LIMITS.longest_ms)
    group.rebalance()
    if leaves:
        group.rebalance()
        assert all(task in group.owned[worker] for task, worker in late.items())
        return
    assert running_stateful(group) == before
    assert not late.keys() & group.lessons.keys()
    for _ in range(20):
        group.wait(LIMITS.longest_ms)
        outcome = group.rebalance()
    assert not changed(outcome)
    assert not group.lessons


class Both(Group):
    """Each round goes through both assignors, also as if the first of its workers was draining."""

    def fail_to_sync(self) -> GroupAssignment:
        memory = self.memory
        outcome = super().fail_to_sync()
        for draining in (frozenset[WorkerId](), frozenset({min(self.owned)})):
            known: dict[str, Any] = {
                "now_ms": self.now_ms,
                "generation": self.generation,
                "last_completed": self.last_completed,
                "configured": self.configured,
                "owned": dict(self.owned),
                "named": frozenset(self.owned) if self.named else frozenset(),
                "draining": draining,
                "costs": Costs(slots=self.slots),
            }
            theirs = cooperative_assignor.assign(Round(**known), memory, policy=self.policy)
            ours = extensible_assignor.assign(
                LearnerRound(**known), LearnerMemory(cooperative=memory), policy=self.policy
            )
            assert (ours.assigned, ours.revoked, ours.target) == (theirs.assigned, theirs.revoked, theirs.target)
            assert (ours.delay_ms, ours.moves) == (theirs.delay_ms, theirs.moves)
            assert ours.memory.cooperative == theirs.memory
            assert not any(ours.learning.values())
        return outcome


@patient
@given(
    workers=st.integers(1, 8),
    jobs=JOB_SIZES,
    later=JOB_SIZES,
    policy=st.sampled_from(POLICIES),
    named=st.booleans(),
    data=st.data(),
)
def test_without_state_every_round_comes_out_as_in_kip_415(
    workers: int, jobs: dict[str, int], later: dict[str, int], policy: Policy, named: bool, data: st.DataObject
) -> None:
    group = Both(jobs, policy=policy)
    group.named = named
    group.join(*[f"w{number}" for number in range(workers)])
    group.slots = {worker: data.draw(st.sampled_from([1, 2, 5])) for worker in group.owned}
    for number in range(data.draw(st.integers(1, 6))):
        match data.draw(st.sampled_from(["join", "leave", "jobs", "wait", "fail"])):
            case "join":
                group.join(f"new{number}")
            case "leave" if len(group.owned) > 1:
                group.leave(data.draw(st.sampled_from(sorted(group.owned))))
            case "jobs":
                group.jobs = later
            case "wait":
                group.wait(data.draw(st.sampled_from([1, 40, 1600, MAX_DELAY_MS])))
            case "fail":
                group.fail_to_sync()
        group.rebalance()


class Histories(RuleBasedStateMachine):
    """Workers join, die and leave, learners get ready or die, jobs and leaders change, rounds fail, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.group = LearnerGroup({"a": 5, "b": 3, "e": 4}, stateful=STATEFUL, limits=LIMITS)
        self.group.join("w0", "w1")
        self.names = 2
        self.slots: tuple[int, ...] = (1,)

    @rule(rule=st.sampled_from(LearnedRule), policy=st.sampled_from(POLICIES), named=st.booleans())
    def the_group_is_set_up_otherwise(self, rule: LearnedRule, policy: Policy, named: bool) -> None:
        self.group.rule = rule
        self.group.policy = policy
        self.group.named = named

    @initialize(equal=st.booleans(), batch=st.frozensets(st.sampled_from("abcdef")))
    def workers_have_slots_and_some_jobs_end(self, equal: bool, batch: frozenset[str]) -> None:
        self.group.batch = batch
        self.slots = (1,) if equal else (1, 2, 5)
        self.group.slots = dict.fromkeys(self.group.owned, self.slots[0])

    @rule(number=st.integers(1, 3), data=st.data())
    def workers_join(self, number: int, data: st.DataObject) -> None:
        for _ in range(number):
            self.join(data.draw(st.sampled_from(self.slots)))

    def join(self, slots: int = 1) -> None:
        self.group.slots[WorkerId(f"w{self.names}")] = slots
        self.group.join(f"w{self.names}")
        self.names += 1

    @precondition(lambda self: len(self.group.owned) > 1)
    @rule(data=st.data(), back=st.booleans())
    def a_worker_dies(self, data: st.DataObject, back: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.group.owned)))
        self.group.go(worker)
        if back:
            self.group.join(worker)

    @precondition(lambda self: self.group.owned)
    @rule(data=st.data())
    def a_worker_asks_to_leave(self, data: st.DataObject) -> None:
        self.group.asks_to_leave(data.draw(st.sampled_from(sorted(self.group.owned))))

    @precondition(lambda self: self.group.owned)
    @rule(data=st.data())
    def a_worker_drains(self, data: st.DataObject) -> None:
        self.group.draining.add(data.draw(st.sampled_from(sorted(self.group.owned))))

    @precondition(lambda self: self.group.leaving)
    @rule()
    def who_leaves_has_second_thoughts(self) -> None:
        self.group.leaving.clear()

    @precondition(lambda self: self.group.lessons)
    @rule(data=st.data(), owners_know=st.booleans())
    def a_learner_gets_ready(self, data: st.DataObject, owners_know: bool) -> None:
        task = data.draw(st.sampled_from(sorted(self.group.lessons)))
        self.group.gets_ready(self.group.lessons[task], task, owners_know=owners_know)

    @precondition(lambda self: self.group.lessons)
    @rule(data=st.data(), progress=st.floats(0, 0.99))
    def a_learner_learns_on(self, data: st.DataObject, progress: float) -> None:
        task = data.draw(st.sampled_from(sorted(self.group.lessons)))
        self.group.learns_on(self.group.lessons[task], task, progress)

    @precondition(lambda self: self.group.lessons)
    @rule(data=st.data())
    def a_learner_dies(self, data: st.DataObject) -> None:
        self.group.forgets_lessons(data.draw(st.sampled_from(sorted(self.group.lessons.values()))))

    @precondition(lambda self: self.group.lessons)
    @rule(data=st.data())
    def a_learner_fails(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.group.lessons)))
        self.group.fails(self.group.lessons[task], task)

    @precondition(lambda self: self.group.owned and self.group.lessons)
    @rule(data=st.data(), fails=st.booleans())
    def a_worker_learns_on_what_it_has_learned_before_it_missed_a_round(self, data: st.DataObject, fails: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.group.owned)))
        task = data.draw(st.sampled_from(sorted(self.group.lessons)))
        if task not in self.group.owned[worker]:
            self.group.learns_on(worker, task, data.draw(st.floats(0, 0.99)))
            if fails:
                self.group.fails(worker, task)

    @rule(data=st.data())
    def a_task_waits_for_a_slot(self, data: st.DataObject) -> None:
        if self.group.running:
            self.group.pending |= {data.draw(st.sampled_from(sorted(self.group.running)))}

    @rule(job=st.sampled_from("abcdef"), number=st.integers(0, 9))
    def a_job_is_submitted_or_resized(self, job: str, number: int) -> None:
        self.group.jobs[job] = number

    @rule(ms=st.sampled_from([1, 40, 1600, 100_000, MAX_DELAY_MS, LIMITS.longest_ms]))
    def time_passes(self, ms: int) -> None:
        self.group.wait(ms)

    @rule()
    def the_leader_hands_its_memory_over(self) -> None:
        self.group.memory = written_and_read(self.group.memory)

    @rule()
    def the_leader_is_lost_with_its_memory(self) -> None:
        self.group.memory = LearnerMemory()

    @precondition(lambda self: self.group.owned)
    @rule()
    def a_round_succeeds(self) -> None:
        self.check(self.group.rebalance())

    @precondition(lambda self: self.group.owned)
    @rule()
    def a_round_fails(self) -> None:
        self.check(self.group.fail_to_sync())

    @precondition(lambda self: self.group.owned)
    @rule()
    def a_round_is_not_carried_out(self) -> None:
        self.check(self.group.rebalance_in_vain())

    @rule()
    def the_group_is_left_alone(self) -> None:
        for worker in self.group.draining - self.group.leaving:
            self.group.go(worker)
        self.group.draining.clear()
        if self.group.owned.keys() <= self.group.leaving:
            self.join()
        moves = len(self.group.configured) + len(self.group.owned)
        rounds = self.group.settle()
        assert rounds <= 10 + 3 * math.ceil(moves / LIMITS.per_worker)
        assert sorted(self.group.running) == sorted(self.group.configured)
        if not self.group.memory.given_up:  # what nobody could make ready stays where it is
            assert_shared_out(self.group)

    def check(self, outcome: LearnerAssignment) -> None:
        this = self.group.last_round
        check_ownership(this, outcome)
        check_lessons(this, outcome)
        check_stops(this, outcome)
        check_who_leaves(this, outcome)
        assert 0 <= outcome.delay_ms <= MAX_DELAY_MS

    @invariant()
    def memory_survives_json(self) -> None:
        assert written_and_read(self.group.memory) == self.group.memory


def written_and_read(memory: LearnerMemory) -> LearnerMemory:
    return learner_memory_from_json(
        learner_memory_to_json(memory), memory_from_json(memory_to_json(memory.cooperative)), tasks_from_json
    )


def test_what_was_handed_to_it_in_vain_is_not_learned_by_who_has_it_again() -> None:
    """It was ready for the task in a round that nobody carried out, and has forgotten since what it had learned."""
    history = Histories()
    group = history.group
    history.a_round_succeeds()
    group.asks_to_leave("w0")
    group.rule = LearnedRule.AT_REBALANCE
    history.a_round_succeeds()
    history.join()
    task, learner = min(group.lessons.items())
    group.gets_ready(learner, task, owners_know=False)
    history.a_round_is_not_carried_out()
    group.learns_on(learner, task, 0.0)
    history.a_round_is_not_carried_out()


TestHistories = Histories.TestCase
TestHistories.settings = settings(patient, max_examples=examples(20), stateful_step_count=40)
