"""The input and the output of a round of assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.values.model import NO_GENERATION, NO_TASKS, GenerationId, TaskId, Tasks, WorkerId


class LeaveReason(str, Enum):
    """Why a worker left its group in an orderly way."""

    STOPPED = "stopped"
    """Somebody asked it to stop."""
    DRAINED = "drained"
    """Its work was done, or somebody asked it to leave when its running tasks had finished."""
    KILLED = "killed"
    """It was ended for good: for example, a user has marked its Airflow task as failed."""
    RESTARTING = "restarting"
    """It will be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What a worker, while it was a member, has said about a later absence.

    :param left: why it left; None: it was lost, or didn't say
    :param returns_ms: in how many milliseconds it returns at the latest, if it returns; 0: never; None: it didn't say
    """

    left: LeaveReason | None = None
    returns_ms: int | None = None

    @property
    def at_most_ms(self) -> int | None:
        """How many milliseconds it can be useful to wait for it; None: unknown."""
        if self.left is not None and self.left is not LeaveReason.RESTARTING:
            return 0
        return self.returns_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedElsewhere:
    """The tasks that have failed on one worker, and are tried on another one.

    :param places: where those that wait are to be tried next, whatever the shares are
    :param pinned: those that are at such a place: they count, but do not move for balance
    """

    places: Mapping[TaskId, WorkerId] = field(default_factory=dict)
    pinned: Tasks = NO_TASKS


NONE_ELSEWHERE: Final = TriedElsewhere()


GOES_ON_RANK: Final = 1
"""The rank of what costs little to stop: a stream, which goes on from its checkpoint, and what lives on by itself."""
BEGINS_AGAIN_RANK: Final = 2
"""The rank of other running tasks: elsewhere they begin again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a leader knows when it assigns.

    :param now_ms: wall clock in milliseconds, because deadlines have to hold on another host
    :param generation: the generation that this rebalance makes
    :param last_completed: the last generation that the leader itself completed; -1: none
    :param configured: the planners and tasks that should be running
    :param owned: what each member says it owns
    :param revocation_rank: of running tasks, the lowest rank is revoked first; 0 if not given
    :param named: members that keep their name when they return (KIP-345)
    :param absent: what workers that are not members have said about their absence; those that said nothing are left out
    :param draining: members that start nothing more, and leave when their running tasks have finished
    :param stays: tasks that are not stopped for balance in this round
    :param costs: the costs of batch tasks; where they differ, these are shared out by cost, the others by number
    :param tried: the tasks that have failed, and where they are tried again
    """

    now_ms: int
    generation: GenerationId
    last_completed: GenerationId
    configured: Tasks
    owned: Mapping[WorkerId, Tasks]
    revocation_rank: Mapping[TaskId, int] = field(default_factory=dict)
    named: frozenset[WorkerId] = frozenset()
    absent: Mapping[WorkerId, Absence] = field(default_factory=dict)
    draining: frozenset[WorkerId] = frozenset()
    stays: Tasks = NO_TASKS
    costs: Costs = NO_COSTS
    tried: TriedElsewhere = NONE_ELSEWHERE

    @property
    def by_field(self) -> dict[str, Any]:
        """What is known, to make a round of another kind."""
        return {each.name: getattr(self, each.name) for each in fields(Round)}

    @property
    def staying(self) -> frozenset[WorkerId]:
        """The members that can get tasks: all but those that drain; if all drain, these can, too."""
        members = frozenset(self.owned)
        return members - self.draining or members

    def of_staying(self, shares: Mapping[WorkerId, Tasks]) -> dict[WorkerId, Tasks]:
        """The shares of the workers that can get tasks."""
        staying = self.staying
        return {worker: tasks for worker, tasks in shares.items() if worker in staying}


class MoveReason(str, Enum):
    """Why a task starts or stops somewhere."""

    NEW = "new"
    """Configured, and owned by nobody before; or owned by ``source`` before its job was planned again."""
    LOST = "lost"
    """Its worker has lost it, and another gets it."""
    RETURNED = "returned"
    """The worker that had lost it gets it back."""
    BALANCE = "balance"
    """Revoked from a worker above its share. Or lost by a worker that has returned, but would be above its share."""
    DUPLICATE = "duplicate"
    """Two workers owned it: both stop it, and one gets it in the next round."""
    DELETED = "deleted"
    """No longer configured."""
    EAGER = "eager"
    """The group uses the eager protocol, which deals out everything again."""
    LEAVING = "leaving"
    """Its worker is about to leave."""
    LEARNED = "learned"
    """Another worker has learned it."""
    NOT_READY = "not_ready"
    """Its worker had stopped it for a learner, but that one is not ready."""


class Load(NamedTuple):
    """How many planners, or tasks, a worker has, and how many of them it may keep."""

    has: int
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Tasks that go the same way. No ``source``: they ran nowhere. No ``target``: they only stop.

    One value has all of them, because a first round starts every task, and should not need a move for each.

    :param load: of the source, in planners or in tasks, if it gave them up for balance by number; None: for another
        reason, or unknown
    """

    tasks: Tasks
    source: WorkerId | None
    target: WorkerId | None
    reason: MoveReason
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a leader carries from one round to the next (the fields of Java's IncrementalCooperativeAssignor).

    :param generation: the generation of the last round that was computed
    :param assignment: the assignment after it, by worker; lost tasks that wait stay with the worker that had them
    :param revoked: what that round revoked
    :param members: who took part in it
    :param candidates: workers that had no tasks while a delay ran, so may be lost ones that have returned
    :param deadline_ms: wall clock at which the running delay ends; 0: none runs
    :param revoked_in_previous: whether that round revoked for balance
    :param successive_revocations: how many rounds in succession wanted to, for the backoff
    :param next_moves_at_ms: under a policy with steps, the wall clock before which no running task is stopped for
        balance; 0: at any time
    :param released: moves of that round that the next one completes: who gave up what
    :param awaited: until when (wall clock) lost work waits for workers that have said when they will return
    :param former: what workers had of jobs that are being planned again, so that it is not configured now
    """

    generation: GenerationId = NO_GENERATION
    assignment: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    revoked: Tasks = NO_TASKS
    members: frozenset[WorkerId] = frozenset()
    candidates: tuple[WorkerId, ...] = ()
    deadline_ms: int = 0
    revoked_in_previous: bool = False
    successive_revocations: int = 0
    next_moves_at_ms: int = 0
    released: tuple[Move, ...] = ()
    awaited: Mapping[WorkerId, int] = field(default_factory=dict)
    former: Mapping[WorkerId, Tasks] = field(default_factory=dict)

    @property
    def ends_ms(self) -> tuple[int, ...]:
        """When the running delays end, wall clock."""
        return (*self.awaited.values(), *((self.deadline_ms,) if self.deadline_ms else ()))

    def overdue(self, now_ms: int) -> Memory:
        """A copy in which all delays have ended."""
        return replace(
            self,
            deadline_ms=min(self.deadline_ms, now_ms),
            next_moves_at_ms=min(self.next_moves_at_ms, now_ms),
            awaited={worker: min(end_ms, now_ms) for worker, end_ms in self.awaited.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a round, without what is remembered. Every mapping has an entry for every member.

    :param assigned: what each member starts
    :param revoked: what each member stops
    :param target: what each member has after this round: what it owned, less revoked, with assigned
    :param delay_ms: members join again after so many milliseconds; 0: no need to
    :param moves: why tasks start and stop
    """

    assigned: Mapping[WorkerId, Tasks]
    revoked: Mapping[WorkerId, Tasks]
    target: Mapping[WorkerId, Tasks]
    delay_ms: int
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment(Outcome):
    """The result of a round of KIP-415."""

    memory: Memory
