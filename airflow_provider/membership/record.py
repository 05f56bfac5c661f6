"""The ``group`` record: one completed rebalance, as its leader writes it to the status topic.

It is the group's memory. A static member that comes back reads from it what it owns, a new leader takes over what the
old one knew, sensors and people see who runs what and why.

The coordinator counts generations from 1 again once it has forgotten a group; an epoch counts on. A rebalance is
identified by its generation together with its leader's member id: the coordinator never gives the same member id twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from reprlib import repr as short
from typing import Any, Final

from airflow_provider.assignors.model import Memory, Move, shares_from_json
from airflow_provider.assignors.policy import LONGEST_DELAY_MS, Policy, policy_from_json, policy_to_json
from airflow_provider.protocol.model import (
    HIGHEST_INDEX,
    NO_TASKS,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    Tasks,
    WorkerId,
    name_from_json,
    tasks_to_json,
    whole_from_json,
)

_LONGEST_REASON: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One completed rebalance.

    :param assignment: the full assignment by worker after this round: what each keeps and what it starts
    :param revoked: what each worker must stop before the next round
    :param members: each worker's member id in this generation
    :param moves: what changed its place, and why
    :param delay_ms: the delay that the members were told: lost work waits, or the next moves do
    :param reason: what began the chain of rounds that this one is of; for people, as ``step`` is
    :param step: what of it this round goes on with; empty in the first one, and in records of an older release
    :param at_ms: wall clock of the leader, milliseconds since 1970
    :param memory: what the leader carries to the next round
    :param policy: by which it decided; None in an eager group, and in records of a release that had no policies
    :param unchanged: how many rounds in a row, this one included, changed nothing; see ``unchanged_rounds``
    """

    epoch: Epoch
    generation: GenerationId
    leader: WorkerId
    leader_member: MemberId
    protocol: SubProtocol
    config_offset: ConfigOffset
    members: Mapping[WorkerId, MemberId]
    assignment: Mapping[WorkerId, Tasks]
    revoked: Mapping[WorkerId, Tasks]
    moves: tuple[Move, ...]
    delay_ms: int
    reason: str
    at_ms: int
    memory: Memory
    policy: Policy | None = None
    unchanged: int = 0
    step: str = ""

    @property
    def because(self) -> str:
        """Why the group rebalanced: the cause, and what this round did about it."""
        return f"{self.reason}: {self.step}" if self.step not in ("", self.reason) else self.reason

    def is_round(self, generation: GenerationId, leader_member: str) -> bool:
        """Whether this record is of the rebalance with that generation and that leader."""
        return self.generation == generation and self.leader_member == leader_member

    def is_without(self, worker: WorkerId, epoch: Epoch) -> bool:
        """Whether the group has gone on without a worker that was in it in that epoch: its lease is over."""
        return self.epoch > epoch and worker not in self.members

    def owned_by(self, worker: WorkerId) -> Tasks:
        return self.assignment.get(worker, NO_TASKS)

    def revoked_from(self, worker: WorkerId) -> Tasks:
        return self.revoked.get(worker, NO_TASKS)

    @property
    def deadline_ms(self) -> int:
        """When the delay that the members were told is over (wall clock, ms since 1970); 0 when none runs. Others may
        run longer.
        """
        return min(self.memory.ends_ms, default=self.memory.next_moves_at_ms if self.delay_ms else 0)

    @property
    def waiting(self) -> Tasks:
        """Lost tasks that wait for their worker."""
        if not self.memory.ends_ms:
            return NO_TASKS
        return NO_TASKS.union(*self.memory.assignment.values()).difference(*self.assignment.values())

    @property
    def revokes(self) -> bool:
        return any(self.revoked.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "generation": self.generation,
            "leader": self.leader,
            "leader_member": self.leader_member,
            "protocol": self.protocol.value,
            "config_offset": self.config_offset,
            "members": dict(self.members),
            "assignment": {worker: tasks_to_json(tasks) for worker, tasks in self.assignment.items()},
            "revoked": {worker: tasks_to_json(tasks) for worker, tasks in self.revoked.items() if tasks},
            "moves": [move.to_json() for move in self.moves],
            "delay_ms": self.delay_ms,
            "deadline_ms": self.deadline_ms,
            "reason": self.reason,
            "step": self.step,
            "at_ms": self.at_ms,
            "memory": self._memory_to_json(),
            "policy": None if self.policy is None else policy_to_json(self.policy),
            "unchanged": self.unchanged,
        }

    def _memory_to_json(self) -> dict[str, Any]:
        """As long as no lost work waits, what is remembered as assigned is the assignment. It is not written twice."""
        if self.memory.assignment != self.assignment:
            return self.memory.to_json()
        return {**replace(self.memory, assignment={}).to_json(), "assignment": None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming what is missing or wrong
        """
        try:
            assignment = shares_from_json(data["assignment"])
            return cls(
                epoch=Epoch(whole_from_json(data["epoch"], "an epoch")),
                generation=GenerationId(whole_from_json(data["generation"], "a generation", most=HIGHEST_INDEX)),
                leader=WorkerId(name_from_json(data["leader"])),
                leader_member=MemberId(name_from_json(data["leader_member"])),
                protocol=SubProtocol(data["protocol"]),
                config_offset=ConfigOffset(whole_from_json(data["config_offset"], "a config offset", least=-1)),
                members={
                    WorkerId(name_from_json(worker)): MemberId(name_from_json(member))
                    for worker, member in data["members"].items()
                },
                assignment=assignment,
                revoked=shares_from_json(data["revoked"]),
                moves=tuple(Move.from_json(move) for move in data["moves"]),
                delay_ms=whole_from_json(data["delay_ms"], "a delay", most=LONGEST_DELAY_MS),
                reason=_words_from_json(data["reason"], "a reason"),
                step=_words_from_json(data.get("step", ""), "a step"),
                at_ms=whole_from_json(data["at_ms"], "a time"),
                memory=_memory_from_json(data["memory"], assignment),
                policy=policy_from_json(data["policy"]) if data.get("policy") else None,
                unchanged=whole_from_json(data.get("unchanged", 0), "a number of rounds"),
            )
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"not a group record: {type(wrong).__name__} {wrong}") from wrong


def _words_from_json(words: object, what: str) -> str:
    """For people. They name members, who choose their names themselves: more than anybody wants to read, maybe."""
    if not isinstance(words, str):
        raise ValueError(f"{what} is a text, not {short(words)}")
    return words[:_LONGEST_REASON]


def _memory_from_json(data: Mapping[str, Any], assignment: Mapping[WorkerId, Tasks]) -> Memory:
    if data["assignment"] is not None:
        return Memory.from_json(data)
    return replace(Memory.from_json({**data, "assignment": {}}), assignment=assignment)


def newer(one: GroupRecord | None, other: GroupRecord | None) -> GroupRecord | None:
    """The record of the higher epoch."""
    if one is None or other is None:
        return one or other
    return one if one.epoch > other.epoch else other


def epoch_of(generation: GenerationId, leader_member: str, last: GroupRecord | None) -> Epoch:
    """The epoch of the rebalance with that generation, given the last record known, of this rebalance or before it.

    A generation that is not above the last record's, in a round that isn't the record's own, is of a new count: the
    coordinator had forgotten the group.
    """
    if last is None:
        return Epoch(generation)
    if last.is_round(generation, leader_member):
        return last.epoch
    if generation > last.generation:
        return Epoch(last.epoch + generation - last.generation)
    return Epoch(last.epoch + generation)
