"""Our assignor against Java's, round by round: the same memory and members give the same numbers and delays.

In each round Java's leader is given our leader's memory, because the two choose different tasks to revoke on purpose
(see ``assignment/cooperative_assignor.py``): from our decision, Java must go on in the same way.

Where the numbers differ on purpose, ours cost no more: in no round do more running tasks stop, are more tasks without
an owner, or does the group wait longer than with Java's.

Each run has a seed of its own, which is in the test's name; ``COSPARK_SEED`` plays it again.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import pytest
from how_many import examples
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from referee import Referee

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.model import GroupAssignment, Memory, Round
from airflow_provider.assignment.policy import Deferred
from airflow_provider.state.rounds.round_json import memory_to_json
from airflow_provider.values.model import (
    NO_GENERATION,
    NO_TASKS,
    PLANNER_INDEX,
    GenerationId,
    TaskId,
    Tasks,
    WorkerId,
    tasks_from_json,
    tasks_to_json,
)

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

SEED = int(os.environ.get("COSPARK_SEED", secrets.randbits(32)))

Shares = Mapping[WorkerId, Tasks]


class Event(Enum):
    """What happens before a round; its number chooses the worker, job or time."""

    NOTHING = "nothing"
    JOIN = "a new worker"
    LEAVE = "a worker goes"
    RETURN_EMPTY = "a worker that went comes back with nothing"
    RETURN_RUNNING = "a worker that went comes back and runs what it had"
    WAIT = "time passes"
    WAIT_FOR_DEADLINE = "the delay ends"
    ADD_JOB = "a job is submitted"
    REMOVE_JOB = "a job is removed"
    RESIZE_JOB = "a job's plan gets another number of tasks"
    FORGET = "a worker restarts before it is missed"
    MISS_ANSWER = "one worker does not get this round's decision"
    LOSE_SYNC = "nobody gets this round's decision, not even its leader"
    NEW_LEADER = "another leader, without memory"


@dataclass
class Group:
    """A group as its leader sees it from round to round; members immediately do what they are told."""

    max_delay_ms: int
    owned: dict[WorkerId, Tasks]
    jobs: dict[str, int]
    gone: dict[WorkerId, Tasks] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    now_ms: int = 1
    generation: int = 0
    last_completed: int = NO_GENERATION
    deaf: frozenset[WorkerId] = frozenset()
    named: int = 0

    @property
    def configured(self) -> Tasks:
        return frozenset(TaskId(job, index) for job, size in self.jobs.items() for index in range(PLANNER_INDEX, size))

    def happen(self, event: Event, number: int) -> None:
        self._happen_to_workers(event, number)
        self._happen_to_jobs(event, number)
        match event:
            case Event.WAIT:
                self.now_ms += (1, 39, 40, 1_000, self.max_delay_ms // 2, self.max_delay_ms)[number % 6]
            case Event.WAIT_FOR_DEADLINE:
                self.now_ms = max(self.now_ms, self.memory.deadline_ms)
            case Event.NEW_LEADER:
                self.memory = Memory()

    def _happen_to_workers(self, event: Event, number: int) -> None:
        member = sorted(self.owned)[number % len(self.owned)]
        match event:
            case Event.JOIN:
                self.owned[self._new_name("w")] = NO_TASKS
            case Event.LEAVE if len(self.owned) > 1:
                self.gone[member] = self.owned.pop(member)
            case Event.RETURN_EMPTY | Event.RETURN_RUNNING if self.gone:
                worker = sorted(self.gone)[number % len(self.gone)]
                had = self.gone.pop(worker)
                self.owned[worker] = had if event is Event.RETURN_RUNNING else NO_TASKS
            case Event.FORGET:
                self.owned[member] = NO_TASKS
            case Event.MISS_ANSWER:
                self.deaf = frozenset({member})
            case Event.LOSE_SYNC:
                self.deaf = frozenset(self.owned)

    def _happen_to_jobs(self, event: Event, number: int) -> None:
        match event:
            case Event.ADD_JOB:
                self.jobs[self._new_name("j")] = number
            case Event.REMOVE_JOB if self.jobs:
                del self.jobs[sorted(self.jobs)[number % len(self.jobs)]]
            case Event.RESIZE_JOB if self.jobs:
                self.jobs[sorted(self.jobs)[number % len(self.jobs)]] = number

    def next_round(self) -> Round:
        self.generation += 1
        return Round(
            now_ms=self.now_ms,
            generation=GenerationId(self.generation),
            last_completed=GenerationId(self.last_completed),
            configured=self.configured,
            owned=dict(self.owned),
        )

    def hear(self, outcome: GroupAssignment) -> None:
        self.memory = outcome.memory
        if self.deaf != self.owned.keys():
            self.last_completed = self.generation
        self.owned = {
            worker: tasks if worker in self.deaf else (tasks - outcome.revoked[worker]) | outcome.assigned[worker]
            for worker, tasks in self.owned.items()
        }
        self.deaf = frozenset()

    def _new_name(self, prefix: str) -> Any:
        self.named += 1
        return f"{prefix}{self.named}"


@dataclass(frozen=True)
class Decision:
    """One side's decision of a round."""

    assigned: Shares
    revoked: Shares
    delay_ms: int
    remembered: Mapping[str, Any]

    @classmethod
    def ours(cls, outcome: GroupAssignment) -> Decision:
        return cls(outcome.assigned, outcome.revoked, outcome.delay_ms, memory_to_json(outcome.memory))

    @classmethod
    def javas(cls, answer: Mapping[str, Any]) -> Decision:
        assigned, revoked = (
            {WorkerId(worker): tasks_from_json(pairs) for worker, pairs in answer[side].items()}
            for side in ("assigned", "revoked")
        )
        return cls(assigned, revoked, answer["delay"], answer["remembered"])

    @property
    def all_revoked(self) -> Tasks:
        return NO_TASKS.union(*self.revoked.values())

    def after(self, this: Round) -> list[Tasks]:
        """What each worker has after the round."""
        return [(tasks - self.revoked[worker]) | self.assigned[worker] for worker, tasks in this.owned.items()]

    def stopped(self, this: Round) -> list[Tasks]:
        """The running tasks that stop, by worker."""
        return [tasks & self.revoked[worker] for worker, tasks in this.owned.items()]


@dataclass(frozen=True)
class Costs:
    """What a round costs: how many configured tasks stop, and how many have no owner after it."""

    planners_stopped: int
    tasks_stopped: int
    planners_idle: int
    tasks_idle: int
    delay_ms: int

    def above(self, other: Costs) -> dict[str, tuple[int, int]]:
        """The figures that are higher than the other's."""
        mine, its = asdict(self), asdict(other)
        return {name: (mine[name], its[name]) for name in mine if mine[name] > its[name]}


def costs(this: Round, decision: Decision) -> Costs:
    stopped = [tasks & this.configured for tasks in decision.stopped(this)]
    idle = this.configured.difference(*decision.after(this))
    return Costs(
        planners_stopped=sum(map(count_planners, stopped)),
        tasks_stopped=sum(map(count_tasks, stopped)),
        planners_idle=count_planners(idle),
        tasks_idle=count_tasks(idle),
        delay_ms=decision.delay_ms,
    )


@dataclass(frozen=True)
class Numbers:
    """The numbers of a round that must equal Connect's."""

    delay_ms: int
    planners: tuple[int, ...]
    """How many tasks each worker has after the round, without the workers' names."""
    tasks: tuple[int, ...]
    planners_stopped: int
    tasks_stopped: int
    deadline_ms: int
    revoked_in_previous: bool
    successive_revocations: int


def numbers(this: Round, decision: Decision) -> Numbers:
    after, stopped = decision.after(this), decision.stopped(this)
    return Numbers(
        delay_ms=decision.delay_ms,
        planners=tuple(sorted(map(count_planners, after))),
        tasks=tuple(sorted(map(count_tasks, after))),
        planners_stopped=sum(map(count_planners, stopped)),
        tasks_stopped=sum(map(count_tasks, stopped)),
        deadline_ms=decision.remembered["deadline_ms"],
        revoked_in_previous=decision.remembered["revoked_in_previous"],
        successive_revocations=decision.remembered["successive_revocations"],
    )


def count_planners(tasks: Tasks) -> int:
    return sum(task.is_planner for task in tasks)


def count_tasks(tasks: Tasks) -> int:
    return len(tasks) - count_planners(tasks)


def better_on_purpose(this: Round, before: Memory, javas: Decision) -> str | None:
    """The named rule by which the numbers of this round may differ from Connect's. Its costs may not be higher."""
    running = NO_TASKS.union(*this.owned.values())
    trusted = before.generation == this.last_completed
    assigned = NO_TASKS.union(*before.assignment.values()) if trusted else NO_TASKS
    if before.revoked & running:
        assigned = running
    if running - this.configured - assigned:
        return "removed-is-stopped"
    lost = (assigned & this.configured) - running
    if not lost and before.revoked_in_previous and not before.members <= this.owned.keys():
        return "only-lost-work-waits"
    if lost and 0 < before.deadline_ms <= this.now_ms and not this.configured.isdisjoint(javas.all_revoked):
        return "only-what-runs-is-revoked"
    return None


def question(this: Round, before: Memory, jobs: dict[str, int]) -> dict[str, Any]:
    # In Java the workers that it looks at first keep one more than the others; in ours, those with the least.
    least_first = sorted(this.owned, key=lambda worker: (len(this.owned[worker]), worker))
    return {
        "now": this.now_ms,
        "generation": this.generation,
        "last_completed": this.last_completed,
        "jobs": jobs,
        "owned": {worker: tasks_to_json(this.owned[worker]) for worker in least_first},
        "memory": memory_to_json(before),
    }


LIKELY = (Event.LEAVE, Event.RETURN_EMPTY, Event.WAIT_FOR_DEADLINE, Event.ADD_JOB)
"""Delays that end after workers have joined meanwhile: these are rare by chance alone."""

events = st.tuples(st.sampled_from([*Event, *LIKELY, *LIKELY]), st.integers(0, 9))
histories = st.lists(st.tuples(events, events), min_size=15, max_size=15)
"""Two events before each round, and enough rounds to get into trouble; failures shrink to NOTHING."""

groups = st.builds(
    Group,
    max_delay_ms=st.sampled_from([300_000, 1_000, 1, 0]),
    owned=st.integers(1, 3).map(lambda number: {WorkerId(f"w{index}"): NO_TASKS for index in range(-number, 0)}),
    jobs=st.integers(0, 2).flatmap(
        lambda number: st.fixed_dictionaries({f"j{index}": st.integers(0, 9) for index in range(-number, 0)})
    ),
)


RANDOM = settings(
    max_examples=examples(300),
    deadline=None,
    database=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
)
"""Random examples from the seed alone, also in CI, where Hypothesis would play the same in each run."""


@pytest.mark.parametrize("chance", [SEED], ids="seed={}".format)
def test_the_same_numbers_as_connect_or_better_ones_on_purpose(referee: Referee, chance: int) -> None:
    rules: Counter[str | None] = Counter()

    @seed(chance)
    @settings(RANDOM)
    @given(group=groups, history=histories)
    def play(group: Group, history: list[tuple[tuple[Event, int], ...]]) -> None:
        for happened in [(), *history]:
            for event, number in happened:
                group.happen(event, number)
            this, before = group.next_round(), group.memory
            outcome = assign(this, before, policy=Deferred(max_delay_ms=group.max_delay_ms))
            (answer,) = referee.replay([question(this, before, group.jobs)], max_delay_ms=group.max_delay_ms)
            ours, javas = Decision.ours(outcome), Decision.javas(answer)
            rule = better_on_purpose(this, before, javas)
            rules[rule] += 1
            note(f"{[(event.value, number) for event, number in happened]}: {this}, remembered: {before}, rule: {rule}")
            assert not costs(this, ours).above(costs(this, javas))
            if rule is None:
                assert numbers(this, ours) == numbers(this, javas)
            group.hear(outcome)

    play()
    assert rules.keys() == {None, "removed-is-stopped", "only-lost-work-waits", "only-what-runs-is-revoked"}, rules
