"""The ``group`` record: one completed rebalance, as its leader writes it to the status topic.

It has what anybody may know of a group: who is in it, who has what, what has moved and why. What a group protocol has
to remember besides is in its own subclass; see :mod:`~airflow_provider.state.rounds.classic`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any, Final, TypeVar

from airflow_provider.assignment.model import Move
from airflow_provider.assignment.policy import LONGEST_DELAY_MS, Policy
from airflow_provider.state.rounds.policies import policy_to_json
from airflow_provider.state.rounds.round_json import (
    by_worker_from_json,
    moves_from_json,
    moves_to_json,
    shares_to_json,
    workers_from_json,
)
from airflow_provider.values.model import (
    NO_TASKS,
    ConfigOffset,
    Epoch,
    MemberId,
    ReadTasks,
    Tasks,
    WorkerId,
    WriteTasks,
    name_from_json,
    tasks_to_json,
    whole_from_json,
)

Self = TypeVar("Self", bound="GroupRecord")

_LONGEST_REASON: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord(ABC):
    """One completed rebalance, in any group protocol.

    :param leader: the worker that computed it
    :param members: each worker's member id in this round
    :param assignment: the full assignment by worker after this round: what each keeps and what it starts
    :param revoked: what each worker has to stop before the next round
    :param moves: what has moved, and why
    :param delay_ms: the delay that the members were sent: lost work waits, or the next moves do
    :param reason: the cause of the series of rounds to which this one belongs; for people, as ``step`` is
    :param step: what this round continues of that; empty in the first one, and in records of an older release
    :param at_ms: wall clock of the leader, milliseconds since 1970
    :param policy: the leader's; None in an eager group, and in records of a release that had no policies
    :param unchanged: how many rounds in succession, this one included, changed nothing
    :param learning: what each worker learns
    :param learned: which of each worker's tasks others learn
    :param lessons: the lessons that begin with this round, and why
    :param given_up: tasks that could not be made ready, or not in time, and stay where they are, by their learner
    :param leaving_soon: the members that leave when they have nothing left
    :param lost: members of the round before that are not in this one, and whose records do not say why they left
    """

    epoch: Epoch
    leader: WorkerId
    config_offset: ConfigOffset
    members: Mapping[WorkerId, MemberId]
    assignment: Mapping[WorkerId, Tasks]
    revoked: Mapping[WorkerId, Tasks]
    moves: tuple[Move, ...]
    delay_ms: int
    reason: str
    at_ms: int
    policy: Policy | None = None
    unchanged: int = 0
    step: str = ""
    learning: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    learned: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    lessons: tuple[Move, ...] = ()
    given_up: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    leaving_soon: frozenset[WorkerId] = frozenset()
    lost: frozenset[WorkerId] = frozenset()

    @property
    @abstractmethod
    def round_id(self) -> Mapping[str, int]:
        """The number of this round in the group protocol, by its name there."""

    @property
    @abstractmethod
    def deadline_ms(self) -> int:
        """When the delay that the members were sent ends (wall clock, ms since 1970); 0: none runs.

        Other delays may be longer.
        """

    @property
    @abstractmethod
    def waiting_by_worker(self) -> Mapping[WorkerId, Tasks]:
        """Lost tasks that wait for their worker."""

    @property
    def learns(self) -> bool:
        """Whether tasks can be learned before they move in the group's protocol."""
        return False

    @property
    def moves_single_tasks(self) -> bool:
        """Whether the next round can move one task and leave the others alone."""
        return True

    @property
    def waiting(self) -> Tasks:
        """All lost tasks that wait for their worker."""
        return NO_TASKS.union(*self.waiting_by_worker.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers that each record continues from the one before."""
        return {"epoch": self.epoch, "unchanged": self.unchanged}

    @abstractmethod
    def is_same_round(self, other: GroupRecord) -> bool:
        """Whether both are of the same rebalance. Two with the same epoch need not be."""

    @abstractmethod
    def without_memory(self: Self) -> Self:
        """A smaller copy, for readers that will not lead the group."""

    @property
    def because(self) -> str:
        """Why the group rebalanced: the cause, and what this round did about it."""
        return f"{self.reason}: {self.step}" if self.step not in ("", self.reason) else self.reason

    def is_without(self, worker: WorkerId, epoch: Epoch) -> bool:
        """Whether a later round does not have a worker that was in the group in that epoch, so its lease has ended."""
        return self.epoch > epoch and worker not in self.members

    def owned_by(self, worker: WorkerId) -> Tasks:
        return self.assignment.get(worker, NO_TASKS)

    def revoked_from(self, worker: WorkerId) -> Tasks:
        return self.revoked.get(worker, NO_TASKS)

    @property
    def revokes(self) -> bool:
        """Whether any worker has to stop something."""
        return any(self.revoked.values())

    def to_json(self, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
        """Plain data for JSON.

        :param write: gives each set of tasks
        """
        return {
            "epoch": self.epoch,
            "leader": self.leader,
            "config_offset": self.config_offset,
            "members": dict(self.members),
            "assignment": shares_to_json(self.assignment, write),
            "revoked": shares_to_json({worker: tasks for worker, tasks in self.revoked.items() if tasks}, write),
            "moves": moves_to_json(self.moves, write),
            "delay_ms": self.delay_ms,
            "deadline_ms": self.deadline_ms,
            "reason": self.reason,
            "step": self.step,
            "at_ms": self.at_ms,
            "policy": None if self.policy is None else policy_to_json(self.policy),
            "unchanged": self.unchanged,
            "learning": shares_to_json(self.learning, write),
            "learned": shares_to_json(self.learned, write),
            "lessons": moves_to_json(self.lessons, write),
            "leaving": sorted(self.leaving_soon),
            "lost": sorted(self.lost),
        }


def fields_from_json(data: Mapping[str, Any], read: ReadTasks) -> dict[str, Any]:
    """The fields that the records of all group protocols have.

    :param read: reads each set of tasks
    :raises AttributeError, KeyError, TypeError, ValueError: for anything else
    """
    return {
        "epoch": epoch_from_json(data["epoch"]),
        "leader": WorkerId(name_from_json(data["leader"])),
        "config_offset": ConfigOffset(whole_from_json(data["config_offset"], "a config offset", least=-1)),
        "members": by_worker_from_json(data["members"], name_from_json),
        "assignment": by_worker_from_json(data["assignment"], read),
        "moves": moves_from_json(data["moves"], read),
        "delay_ms": whole_from_json(data["delay_ms"], "a delay", most=LONGEST_DELAY_MS),
        "reason": words_from_json(data["reason"], "a reason"),
        "at_ms": whole_from_json(data["at_ms"], "a time"),
        "lost": frozenset(workers_from_json(data.get("lost", ()))),
    }


def epoch_from_json(data: object) -> Epoch:
    return Epoch(whole_from_json(data, "an epoch"))


def words_from_json(words: object, what: str) -> str:
    """A text for people, shortened: it has names that members choose themselves, which may be very long."""
    if not isinstance(words, str):
        raise ValueError(f"{what} is a text, not {short(words)}")
    return words[:_LONGEST_REASON]
