"""What a round of the classic protocol writes into the ``group`` record.

The coordinator counts generations from 1 again once it has forgotten a group, but an epoch always grows. A rebalance is
identified by its generation and its leader's member id: the coordinator never gives the same member id twice.

Within one count of generations, epochs are at a fixed distance from them. So all members get the same epoch for a round
from any record of the count, and it does not matter which records are late or lost. A new count shows only by a
generation that is not above that of the last record. If the new count passes that generation and none of its rounds has
left a record, its next round looks like one of the old count. Then an epoch is only certain to be above those that a
record or a member tells (:mod:`~airflow_provider.group.classic.leader.leader`).

Member ids can't tell a new count safely, though it has none of those in the last record. They may all have changed
within one count, too, and a wrong guess changes the distance. Up to version 2, a follower does not know who else is in
the round, so it could not make the same guess as its leader. And if the record of a round with a wrong guess is lost, a
leader that has read a late, earlier record continues with the lower distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from airflow_provider.assignment.learners.model import LearnerMemory
from airflow_provider.assignment.model import Memory
from airflow_provider.state.rounds.group_record import GroupRecord, epoch_from_json, fields_from_json, words_from_json
from airflow_provider.state.rounds.policies import policy_from_json
from airflow_provider.state.rounds.round_json import (
    by_worker_from_json,
    learner_memory_from_json,
    learner_memory_to_json,
    memory_from_json,
    memory_to_json,
    moves_from_json,
    workers_from_json,
)
from airflow_provider.state.rounds.task_sets import reader_of
from airflow_provider.values.model import (
    HIGHEST_INDEX,
    NO_TASKS,
    Epoch,
    GenerationId,
    MemberId,
    ReadTasks,
    SubProtocol,
    Tasks,
    WorkerId,
    WriteTasks,
    name_from_json,
    tasks_to_json,
    whole_from_json,
)

_SLOTS: Final = partial(whole_from_json, what="a number of slots")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicRecord(GroupRecord):
    """One completed round of the classic protocol: the group's memory.

    A returning static member reads from it what it owns, and a new leader continues with the old one's memory.

    :param leader_member: the leader's member id
    :param protocol: the one by whose rules it was led (:attr:`.SubProtocol.recorded`)
    :param memory: what the leader carries to the next round
    :param learner_memory: the same, including what it remembers of learners; None in a group where nothing is learned
    :param slots: the members' slots, as far as the leader knew them; empty if all of these are equal
    :param bridged_since: the round since which the bridge has certainly been in the group without a break; None: it is
        not in it, or this is not known
    """

    generation: GenerationId
    leader_member: MemberId
    protocol: SubProtocol
    memory: Memory
    learner_memory: LearnerMemory | None = None
    slots: Mapping[WorkerId, int] = field(default_factory=dict)
    bridged_since: Epoch | None = None

    @property
    def round_id(self) -> Mapping[str, int]:
        return {"generation": self.generation}

    def is_round(self, generation: GenerationId, leader_member: str) -> bool:
        """Whether this record is of the rebalance with that generation and that leader."""
        return self.generation == generation and self.leader_member == leader_member

    def is_same_round(self, other: GroupRecord) -> bool:
        return isinstance(other, ClassicRecord) and self.is_round(other.generation, other.leader_member)

    @property
    def deadline_ms(self) -> int:
        return min(self.memory.ends_ms, default=self.memory.next_moves_at_ms if self.delay_ms else 0)

    @property
    def moves_single_tasks(self) -> bool:
        return self.protocol.cooperative

    @property
    def learns(self) -> bool:
        return self.protocol.learns

    @property
    def waiting_by_worker(self) -> Mapping[WorkerId, Tasks]:
        if not self.memory.ends_ms:
            return {}
        given = NO_TASKS.union(*self.assignment.values())
        return {worker: lost for worker, had in self.memory.assignment.items() if (lost := had - given)}

    @property
    def counts(self) -> Mapping[str, int]:
        # Without arguments, super() would use the class that slots=True has replaced.
        others = super(ClassicRecord, self).counts
        return {**others, "successive_revocations": self.memory.successive_revocations}

    def without_memory(self) -> ClassicRecord:
        return replace(self, memory=Memory(), learner_memory=None)

    def to_json(self, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
        learners = self.learner_memory
        return {
            **super(ClassicRecord, self).to_json(write),
            "generation": self.generation,
            "leader_member": self.leader_member,
            "protocol": self.protocol.value,
            "memory": self._memory_to_json(write),
            "learner_memory": None if learners is None else learner_memory_to_json(learners, write),
            **({"slots": dict(self.slots)} if self.slots else {}),
            **({} if self.bridged_since is None else {"bridged_since": self.bridged_since}),
        }

    def _memory_to_json(self, write: WriteTasks) -> dict[str, Any]:
        """Leave out the remembered assignment if it equals the assignment, as it does while no lost work waits."""
        if self.memory.assignment != self.assignment:
            return memory_to_json(self.memory, write)
        return {**memory_to_json(replace(self.memory, assignment={}), write), "assignment": None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClassicRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming what is missing or wrong
        """
        try:
            read = reader_of(data)
            common = fields_from_json(data, read)
            memory = _memory_from_json(data["memory"], common["assignment"], read)
            said = data.get("learner_memory")
            learners = None if said is None else learner_memory_from_json(said, memory, read)
            return cls(
                **common,
                generation=GenerationId(whole_from_json(data["generation"], "a generation", most=HIGHEST_INDEX)),
                leader_member=MemberId(name_from_json(data["leader_member"])),
                protocol=SubProtocol(data["protocol"]),
                revoked=by_worker_from_json(data["revoked"], read),
                step=words_from_json(data.get("step", ""), "a step"),
                memory=memory,
                learner_memory=learners,
                slots=by_worker_from_json(data.get("slots", {}), _SLOTS),
                bridged_since=None if (since := data.get("bridged_since")) is None else epoch_from_json(since),
                given_up={} if learners is None else learners.given_up,
                policy=policy_from_json(data["policy"]) if data.get("policy") else None,
                unchanged=whole_from_json(data.get("unchanged", 0), "a number of rounds"),
                learning=by_worker_from_json(data.get("learning", {}), read),
                learned=by_worker_from_json(data.get("learned", {}), read),
                lessons=moves_from_json(data.get("lessons", ()), read),
                leaving_soon=frozenset(workers_from_json(data.get("leaving", ()))),
            )
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"not a group record: {type(wrong).__name__} {wrong}") from wrong


def _memory_from_json(data: Mapping[str, Any], assignment: Mapping[WorkerId, Tasks], read: ReadTasks) -> Memory:
    if data["assignment"] is not None:
        return memory_from_json(data, read)
    return replace(memory_from_json({**data, "assignment": {}}, read), assignment=assignment)


def newer(one: ClassicRecord | None, other: ClassicRecord | None) -> ClassicRecord | None:
    """The record with the higher epoch; of two copies of one record the first."""
    if one is None or other is None:
        return one or other
    return one if one.epoch > other.epoch or one.is_same_round(other) else other


def epoch_of(generation: GenerationId, leader_member: str, last: ClassicRecord | None) -> Epoch:
    """The epoch of the rebalance with that generation.

    If the generation is not above that of ``last`` and the round is another one, the coordinator had forgotten the
    group and counts anew.

    :param last: the last record known, of this rebalance or an earlier one
    """
    if last is None:
        return Epoch(generation)
    if last.is_round(generation, leader_member):
        return last.epoch
    if generation > last.generation:
        return Epoch(last.epoch + generation - last.generation)
    return Epoch(last.epoch + generation)
