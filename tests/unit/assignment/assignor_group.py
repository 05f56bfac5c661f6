"""A group as its leader sees it: workers come and go, time passes, and each round's outcome reaches them or doesn't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Absence, GroupAssignment, Memory, Move, MoveReason, Round
from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

MAX_DELAY_MS = 300_000
DEFERRED = Deferred(max_delay_ms=MAX_DELAY_MS)


def tasks_of(jobs: Mapping[str, int]) -> Tasks:
    """The planner and the tasks of jobs, given by name and number of tasks."""
    return frozenset(TaskId(job, index) for job, number in jobs.items() for index in range(-1, number))


def planners_in(tasks: Iterable[TaskId]) -> Tasks:
    return frozenset(task for task in tasks if task.is_planner)


def tasks_in(tasks: Iterable[TaskId]) -> Tasks:
    return frozenset(task for task in tasks if not task.is_planner)


class Group:
    """Rebalances go through the cooperative assignor; everything else here is bookkeeping.

    :param jobs: number of tasks by name of job
    :ivar named: whether its workers keep their names
    :ivar absent: what those who are gone have said of it
    :ivar stays: what is not stopped for balance
    :ivar stands_for: for how many workers some stand
    :ivar slots: those of workers that have told them
    """

    def __init__(self, jobs: Mapping[str, int] | None = None, *, policy: Policy = DEFERRED) -> None:
        self.jobs = dict(jobs or {})
        self.policy = policy
        self.now_ms = 1_700_000_000_000
        self.owned: dict[WorkerId, Tasks] = {}
        self.memory = Memory()
        self.generation = GenerationId(0)
        self.last_completed = GenerationId(-1)
        self.rank: dict[TaskId, int] = {}
        self.named = False
        self.absent: dict[WorkerId, Absence] = {}
        self.stays = NO_TASKS
        self.stands_for: dict[WorkerId, int] = {}
        self.slots: dict[WorkerId, int] = {}

    @property
    def configured(self) -> Tasks:
        return tasks_of(self.jobs)

    def join(self, *workers: str, owning: Tasks = NO_TASKS) -> None:
        for worker in workers:
            assert worker not in self.owned
            self.owned[WorkerId(worker)] = owning

    def leave(self, *workers: str) -> Tasks:
        """:return: what they owned"""
        return NO_TASKS.union(*[self.owned.pop(WorkerId(worker)) for worker in workers])

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def lose_memory(self) -> None:
        """Another leader takes over, which knows nothing of the rounds before."""
        self.memory = Memory()

    def rebalance(self) -> GroupAssignment:
        """One round; every member stops and starts what it was assigned."""
        outcome = self.rebalance_in_vain()
        self.owned = dict(outcome.target)
        return outcome

    def rebalance_in_vain(self) -> GroupAssignment:
        """One round that the leader completes, and whose outcome no member carries out."""
        outcome = self.fail_to_sync()
        self.last_completed = self.generation
        return outcome

    def fail_to_sync(self) -> GroupAssignment:
        """One round whose outcome the leader can't send, so that nobody hears of it."""
        self.generation = GenerationId(self.generation + 1)
        outcome = assign(
            Round(
                now_ms=self.now_ms,
                generation=self.generation,
                last_completed=self.last_completed,
                configured=self.configured,
                owned=dict(self.owned),
                revocation_rank=self.rank,
                named=frozenset(self.owned) if self.named else frozenset(),
                absent=self.absent,
                stays=self.stays,
                costs=Costs(slots=self.slots, stands_for=self.stands_for),
            ),
            self.memory,
            policy=self.policy,
        )
        self.memory = outcome.memory
        return outcome

    def settle(self) -> list[GroupAssignment]:
        """Rebalance until a round changes nothing and no delay runs; delays are waited for."""
        outcomes = []
        for _ in range(20):
            outcome = self.rebalance()
            outcomes.append(outcome)
            if not outcome.delay_ms and not changed(outcome):
                return outcomes
            self.wait(outcome.delay_ms)
        raise AssertionError(f"the group does not settle: {outcomes[-1]}")

    def planner_counts(self) -> list[int]:
        return sorted(len(planners_in(tasks)) for tasks in self.owned.values())

    def task_counts(self) -> list[int]:
        return sorted(len(tasks_in(tasks)) for tasks in self.owned.values())


def changed(outcome: GroupAssignment) -> bool:
    return any(outcome.assigned.values()) or any(outcome.revoked.values())


def started(outcome: GroupAssignment) -> Tasks:
    return NO_TASKS.union(*outcome.assigned.values())


def stopped(outcome: GroupAssignment) -> Tasks:
    return NO_TASKS.union(*outcome.revoked.values())


def moves_because(reason: MoveReason, outcome: GroupAssignment) -> list[Move]:
    return [move for move in outcome.moves if move.reason is reason]


def moved_because(reason: MoveReason, outcome: GroupAssignment) -> Tasks:
    return NO_TASKS.union(*(move.tasks for move in moves_because(reason, outcome)))
