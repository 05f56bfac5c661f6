"""A group with learner tasks as its leader sees it: workers come, go and get ready, and owners keep their rule."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from assignor_group import DEFERRED, planners_in, tasks_in, tasks_of

from airflow_provider.assignment.costs import NO_COSTS
from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import READY, LearnerAssignment, LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.model import BEGINS_AGAIN_RANK, GOES_ON_RANK, Absence
from airflow_provider.assignment.policy import Policy
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId


class LearnerGroup:
    """Rebalances go through the assignor; everything else here is bookkeeping.

    :param jobs: number of tasks by name of job; each also has its planner
    :param stateful: the jobs that have something to warm up; all by default
    :ivar last_round: what the leader knew in the last round
    :ivar batch: the jobs whose tasks end by themselves
    :ivar stays: what is not stopped for balance: all that has started, in a round for a free slot
    :ivar slots: those of workers that have told them
    :ivar costs: of tasks
    :ivar knows: what owners know that somebody is ready for, under the rule ``when-ready``
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        *,
        stateful: Iterable[str] | None = None,
        rule: LearnedRule = LearnedRule.WHEN_READY,
        policy: Policy = DEFERRED,
        limits: Limits | None = None,
    ) -> None:
        self.jobs = dict(jobs or {})
        self.planners = True
        self.stateful = None if stateful is None else frozenset(stateful)
        self.rule = rule
        self.policy = policy
        self.limits = limits or Limits()
        self.now_ms = 1_700_000_000_000
        self.owned: dict[WorkerId, Tasks] = {}
        self.learning: dict[WorkerId, dict[TaskId, float]] = {}
        self.learned: dict[WorkerId, Tasks] = {}
        self.failed: dict[WorkerId, Tasks] = {}
        self.renewed: frozenset[str] = frozenset()
        self.leaving: set[WorkerId] = set()
        self.draining: set[WorkerId] = set()
        self.pending: Tasks = NO_TASKS
        self.batch: frozenset[str] = frozenset()
        self.ended: Tasks = NO_TASKS
        self.stays: Tasks = NO_TASKS
        self.slots: dict[WorkerId, int] = {}
        self.costs = NO_COSTS
        self.knows: Tasks = NO_TASKS
        self.memory = LearnerMemory()
        self.generation = GenerationId(0)
        self.last_completed = GenerationId(-1)
        self.named = False
        self.absent: dict[WorkerId, Absence] = {}

    @property
    def configured(self) -> Tasks:
        tasks = tasks_of(self.jobs)
        wanted = tasks if self.planners else frozenset(task for task in tasks if not task.is_planner)
        return wanted - self.ended

    @property
    def lessons(self) -> dict[TaskId, WorkerId]:
        """Who learns what."""
        return {task: worker for worker, lessons in self.learning.items() for task in lessons}

    @property
    def running(self) -> list[TaskId]:
        """All that is owned, as often as it is."""
        return [task for tasks in self.owned.values() for task in tasks]

    def join(self, *workers: str, owning: Tasks = NO_TASKS) -> None:
        for worker in map(WorkerId, workers):
            assert worker not in self.owned
            self.owned[worker] = owning
            self.learning[worker] = {}
            self.learned[worker] = NO_TASKS

    def go(self, worker: str) -> Tasks:
        """It is gone, whether it has left or died.

        :return: what it owned
        """
        del self.learning[WorkerId(worker)], self.learned[WorkerId(worker)]
        self.failed.pop(WorkerId(worker), None)
        self.leaving.discard(WorkerId(worker))
        self.draining.discard(WorkerId(worker))
        return self.owned.pop(WorkerId(worker))

    def asks_to_leave(self, worker: str) -> None:
        self.leaving.add(WorkerId(worker))

    def gets_ready(self, worker: str, *tasks: TaskId, owners_know: bool = True) -> None:
        """:param tasks: all that it learns, by default"""
        lessons = self.learning[WorkerId(worker)]
        for task in tasks or tuple(lessons):
            assert task in lessons
            lessons[task] = READY
            self.failed[WorkerId(worker)] = self.failed.get(WorkerId(worker), NO_TASKS) - {task}
        if owners_know:
            self.knows |= frozenset(task for task in tasks or lessons)

    def ends(self, *tasks: TaskId) -> None:
        """They finish, wherever they run."""
        self.ended |= frozenset(tasks)
        self.owned = {worker: has - self.ended for worker, has in self.owned.items()}

    def fails(self, worker: str, *tasks: TaskId) -> None:
        """:param tasks: all that it learns, by default"""
        lessons = self.learning[WorkerId(worker)]
        for task in tasks or tuple(lessons):
            lessons[task] = 0.0
        self.failed[WorkerId(worker)] = self.failed.get(WorkerId(worker), NO_TASKS) | frozenset(tasks or lessons)

    def learns_on(self, worker: str, task: TaskId, progress: float) -> None:
        self.learning[WorkerId(worker)][task] = progress

    def forgets_lessons(self, worker: str) -> None:
        """What it had learned dies; the worker goes on."""
        self.learning[WorkerId(worker)] = {}

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def join_group(self) -> None:
        """A rebalance begins: each owner stops what its rule says, and nobody hears of the outcome before."""
        for worker, tasks in self.owned.items():
            self.owned[worker] = tasks - self.rule.stops(self.learned[worker], self.knows)

    def rebalance(self) -> LearnerAssignment:
        """One round; every member stops, starts and learns what it was assigned."""
        outcome = self.rebalance_in_vain()
        self.owned = dict(outcome.target)
        self.learned = dict(outcome.learned)
        self.learning = {
            worker: {task: self.learning[worker].get(task, 0.0) for task in tasks}
            for worker, tasks in outcome.learning.items()
        }
        self.failed = {worker: self.failed.get(worker, NO_TASKS) & tasks for worker, tasks in outcome.learning.items()}
        self.renewed = frozenset()
        self.knows &= frozenset(self.lessons)
        self.pending &= frozenset(self.running)
        for worker in outcome.shutdown:
            self.go(worker)
        return outcome

    def rebalance_in_vain(self) -> LearnerAssignment:
        """One round that the leader completes, and whose outcome no member carries out."""
        outcome = self.fail_to_sync()
        self.last_completed = self.generation
        return outcome

    def fail_to_sync(self) -> LearnerAssignment:
        """One round whose outcome the leader can't send, so that nobody hears of it."""
        self.join_group()
        self.generation = GenerationId(self.generation + 1)
        self.last_round = LearnerRound(
            now_ms=self.now_ms,
            generation=self.generation,
            last_completed=self.last_completed,
            configured=self.configured,
            owned=dict(self.owned),
            named=frozenset(self.owned) if self.named else frozenset(),
            absent=self.absent,
            stateful=frozenset(self.jobs) if self.stateful is None else self.stateful,
            pending=self.pending & frozenset(self.running),
            learning={worker: dict(lessons) for worker, lessons in self.learning.items()},
            failed={worker: tasks & self.learning[worker].keys() for worker, tasks in self.failed.items()},
            renewed=self.renewed,
            leaving_soon=frozenset(self.leaving),
            draining=frozenset(self.draining),
            revocation_rank={
                task: BEGINS_AGAIN_RANK if task.job in self.batch else GOES_ON_RANK
                for task in frozenset(self.running) - self.pending
            },
            stays=self.stays,
            costs=replace(self.costs, slots=self.slots),
        )
        outcome = extensible_assignor.assign(self.last_round, self.memory, policy=self.policy, limits=self.limits)
        self.memory = outcome.memory
        return outcome

    def settle(self, most: int = 200) -> int:
        """Rebalance, with all learners getting ready, all delays waited for, and batch tasks ending on workers that
        leave, until nothing changes any more.

        :return: how many rounds it took
        """
        for rounds in range(most):
            for worker in list(self.learning):
                self.gets_ready(worker)
            self.pending = NO_TASKS
            self.ends(*(task for worker in self.leaving for task in self.owned[worker] if task.job in self.batch))
            outcome = self.rebalance()
            if not outcome.delay_ms and not changed(outcome) and not self.lessons:
                return rounds
            self.wait(outcome.delay_ms)
        raise AssertionError(f"the group does not settle: {outcome}")


def changed(outcome: LearnerAssignment) -> bool:
    return any(outcome.assigned.values()) or any(outcome.revoked.values()) or bool(outcome.shutdown)


def started(outcome: LearnerAssignment) -> Tasks:
    return NO_TASKS.union(*outcome.assigned.values())


def stopped(outcome: LearnerAssignment) -> Tasks:
    return NO_TASKS.union(*outcome.revoked.values())


def assert_shared_out(group: LearnerGroup) -> None:
    """Each task runs once. Each worker has the whole part of its quota, or one more, of the planners, of the tasks with
    state, and of all tasks. The quotas of tasks are in proportion to slots.
    """
    assert sorted(group.running) == sorted(group.configured)
    stays = {worker: tasks for worker, tasks in group.owned.items() if worker not in group.leaving}
    stateful = group.jobs if group.stateful is None else group.stateful
    _assert_in_proportion({worker: planners_in(tasks) for worker, tasks in stays.items()}, {})
    _assert_in_proportion({worker: tasks_in(tasks) for worker, tasks in stays.items()}, group.slots)
    _assert_in_proportion(
        {worker: {task for task in tasks_in(tasks) if task.job in stateful} for worker, tasks in stays.items()},
        group.slots,
    )


def _assert_in_proportion(shares: Mapping[WorkerId, Collection[TaskId]], slots: Mapping[WorkerId, int]) -> None:
    """:param slots: of all workers, or of none"""
    weights = {worker: slots.get(worker, 1) for worker in shares}
    number = sum(map(len, shares.values()))
    above = {worker: len(tasks) - number * weights[worker] // sum(weights.values()) for worker, tasks in shares.items()}
    assert set(above.values()) <= {0, 1}, (shares, slots)
