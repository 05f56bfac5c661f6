"""What a round with learner tasks has beyond one of KIP-415: its input, its result, and the leader's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.assignment.model import BEGINS_AGAIN_RANK, Memory, Move, Outcome, Round
from airflow_provider.assignment.shares import Shares, merged
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

READY: Final = 1.0
"""The progress of a learner that has finished its warm-up."""


class LimitsError(ValueError):
    """A limit that makes no sense.

    :param limit: its name in :class:`Limits`
    :param problem: what is wrong with it
    """

    def __init__(self, limit: str, problem: str) -> None:
        super().__init__(f"{limit}: {problem}")
        self.limit = limit
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is learned at the same time, and for how long (KIP-441's ``max.warmup.replicas``,
    ``acceptable.recovery.lag``).

    A lesson that fails or takes too long is given up, and the task stays where it is: it runs there, and a move is not
    worth a cold start. But if its worker leaves, the task moves all the same, since it will stop there anyway.

    :param per_worker: how many tasks a worker learns at most at a time: they take resources from its running tasks
    :param per_group: how many the whole group learns at most at a time: they read what the running tasks read
    :param ready_from: from this progress on (0 to 1) a learner counts as ready
    :param longest_ms: how long a lesson may take
    :raises LimitsError: for a value out of range
    """

    per_worker: int = 4
    per_group: int = 100
    ready_from: float = READY
    longest_ms: int = 1_800_000

    def __post_init__(self) -> None:
        for limit, unit in (("per_worker", ""), ("per_group", ""), ("longest_ms", " ms")):
            value = getattr(self, limit)
            if value < 1:
                raise LimitsError(limit, f"must be at least 1{unit}, not {value}")
        if not 0 < self.ready_from <= READY:
            raise LimitsError("ready_from", f"must be above 0 and at most {READY:g}, not {self.ready_from:g}")


DEFAULT_LIMITS: Final = Limits()

MOST_GIVEN_UP: Final = 5
"""If this many lessons of a job were given up, its tasks are not learned for balance any more: the problem is then
taken to be one of all its tasks, and trying each would take a round for each.
"""


def that_end(tasks: Tasks, revocation_rank: Mapping[TaskId, int]) -> Tasks:
    """Those of these tasks that are running batch tasks, and need their worker. No planners: one that plans again and
    again never ends.
    """
    return frozenset(task for task in tasks if revocation_rank.get(task) == BEGINS_AGAIN_RANK and not task.is_planner)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerRound(Round):
    """What a leader knows when it assigns.

    :param stateful: the jobs whose tasks are learned before they move. Others that have something to warm up move as
        stateless ones do
    :param pending: owned tasks that have not started: they move as stateless ones do, and are never learned
    :param learning: the tasks that each worker learns, with their progress from 0 to 1
    :param failed: those of them that each has failed to make ready
    :param renewed: the jobs that were submitted since the last round, which may have mended what failed
    :param leaving_soon: members that leave as soon as they have nothing
    """

    stateful: frozenset[str] = frozenset()
    pending: Tasks = NO_TASKS
    learning: Mapping[WorkerId, Mapping[TaskId, float]] = field(default_factory=dict)
    failed: Shares = field(default_factory=dict)
    renewed: frozenset[str] = frozenset()
    leaving_soon: frozenset[WorkerId] = frozenset()

    @property
    def staying(self) -> frozenset[WorkerId]:
        """Those that leave soon get none, either."""
        return super(LearnerRound, self).staying - self.leaving_soon  # slots: the class is made twice

    def has_state(self, task: TaskId) -> bool:
        """Whether a task is learned before it moves; a planner never is."""
        return task[0] in self.stateful and task[1] >= 0

    def finished_by_leaving(self, kept: Shares) -> Shares:
        """The running batch tasks of workers that leave soon: they finish these while another worker stays.

        :param kept: what each member keeps, as far as it is decided
        """
        leaving = self.leaving_soon & kept.keys() if self.staying else ()
        return {worker: that_end(kept[worker], self.revocation_rank) for worker in leaving}


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerMemory:
    """What a leader carries from one round to the next.

    :param cooperative: what KIP-415 remembers
    :param learned: by owner, what it may stop before it joins next, so that a learner can start it
    :param learned_before: the same of earlier rounds, since the last one that members are known to have received
    :param since_ms: when (wall clock) each lesson began, by learner
    :param given_up: by learner, what it has failed to make ready, or not in time; forgotten when a worker joins or
        leaves, or the job is submitted again
    """

    cooperative: Memory = field(default_factory=Memory)
    learned: Shares = field(default_factory=dict)
    learned_before: Shares = field(default_factory=dict)
    since_ms: Mapping[WorkerId, Mapping[TaskId, int]] = field(default_factory=dict)
    given_up: Shares = field(default_factory=dict)

    def may_have_stopped(self, round: Round) -> Shares:  # noqa: A002  # it is KIP-415's word
        """What each owner may have stopped because a learner was to get it.

        An owner that did not receive the last round still acts on an earlier one.
        """
        if self.cooperative.generation == round.last_completed:
            return self.learned
        return merged((self.learned_before, self.learned))

    def overdue_at_ms(self, limits: Limits, *, after_ms: int = 0) -> int | None:
        """When (wall clock) the next lesson takes too long, so that a round is due; None: none will. It is no delay:
        nothing waits for it.

        :param after_ms: the time of the last round, which has handled lessons that took too long by then
        """
        ends = (since_ms + limits.longest_ms for lessons in self.since_ms.values() for since_ms in lessons.values())
        return min((end_ms for end_ms in ends if end_ms > after_ms), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerAssignment(Outcome):
    """The result of a round.

    :param learning: all that each member is to learn
    :param learned: those tasks of its target that others learn
    :param shutdown: members that leave soon and have nothing left
    :param lessons: those that begin with this round, as the moves in which they are to end
    """

    memory: LearnerMemory
    learning: Shares
    learned: Shares
    shutdown: frozenset[WorkerId]
    lessons: tuple[Move, ...]

    @property
    def another_round_follows(self) -> bool:
        """Whether a worker has to stop something, and so joins again when it has."""
        return any(self.revoked.values())
