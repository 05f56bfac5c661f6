"""A completed rebalance as the invariants look at it: what went over the wire, what its leader meant by it, and what
was started by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from simulation.group import RoundSeen

from airflow_provider.assignors.model import Absence
from airflow_provider.ledger.records.status import WorkerStatus
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.embedded import CODECS
from airflow_provider.protocol.model import NO_TASKS, Epoch, GenerationId, MemberId, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A task was started.

    :param generation: of the round by which the task was the worker's
    :param leader_member: who led that round
    :param formed: how often the coordinator had forgotten the group by then
    :param counted: whether the status topic had a record of the group as it was formed last
    """

    worker: WorkerId
    epoch: Epoch
    generation: GenerationId
    leader_member: MemberId
    formed: int
    counted: bool

    def counts_on_from(self, before: Start, records: Iterable[ClassicRecord]) -> bool:
        """Whether it could be known of which epoch the start before was. Not if two things were lost together: the
        record of that round; and the coordinator's count, for the group was forgotten since, or before and no round has
        its record since.
        """
        written = any(record.is_round(before.generation, before.leader_member) for record in records)
        return written or (self.formed == before.formed and self.counted)


@dataclass(frozen=True, slots=True)
class Computed:
    """What a leader computed.

    :param configured: what was to run, as far as the leader knew
    :param throughout: what of it was to run all the time since the last round
    :param removed: what was to run for a while since the last round, and is not any more
    :param last: the newest group record that it knew
    :param said: what the workers had said of themselves by then
    :param ended: what had come to its end by then: who still reports it does not have it any more
    """

    record: ClassicRecord
    configured: Tasks
    throughout: Tasks
    removed: Tasks
    last: ClassicRecord | None
    said: Mapping[WorkerId, WorkerStatus] = field(default_factory=dict)
    ended: Tasks = NO_TASKS


@dataclass(frozen=True, kw_only=True)
class Round:
    """What each member said that it owns, and what it was told."""

    seen: RoundSeen
    owned: Mapping[str, Tasks]
    assigned: Mapping[str, Tasks]
    revoked: Mapping[str, Tasks]
    delay_ms: int
    record: ClassicRecord
    configured: Tasks
    throughout: Tasks
    removed: Tasks
    last: ClassicRecord | None
    said: Mapping[WorkerId, WorkerStatus]

    @property
    def cooperative(self) -> bool:
        return self.seen.protocol.cooperative

    @property
    def asked_in_vain(self) -> bool:
        """Whether its leader asked for it, for what nobody had, and there was nothing to give. What was removed and
        set again since the last round was stopped, and is given anew, where it was; and what was wanted may have
        been removed before it could be given.
        """
        asked = (self.record.step or self.record.reason).startswith("new work")
        anew = self.configured - self.throughout
        return asked and self.record.unchanged > 0 and not anew and not self.removed

    def follows(self, before: Round | None) -> bool:
        """Whether the leader knew the record of the round before: it gets lost with a leader that dies before it has
        written it.
        """
        seen = None if before is None else before.seen
        return seen is None or (self.last is not None and self.last.is_round(seen.generation, seen.leader_member))

    @cached_property
    def target(self) -> Mapping[str, Tasks]:
        """What each has when it has done what it was told."""
        return {worker: (self.owned[worker] - self.revoked[worker]) | self.assigned[worker] for worker in self.owned}

    @cached_property
    def waiting(self) -> Tasks:
        """Lost work that waits for its worker to come back."""
        if not self.record.deadline_ms:
            return NO_TASKS
        remembered = NO_TASKS.union(*self.record.memory.assignment.values())
        return remembered.difference(*self.target.values(), *self.revoked.values()) & self.configured

    def owner_of(self, task: TaskId) -> WorkerId:
        """Whom a task that waits, waits for."""
        return next(worker for worker, tasks in self.record.memory.assignment.items() if task in tasks)

    def deadline_of(self, task: TaskId) -> int:
        """Until when (wall clock) a task that waits does so."""
        memory = self.record.memory
        return memory.awaited.get(self.owner_of(task), memory.deadline_ms)

    def at_most_ms(self, worker: WorkerId) -> int | None:
        """How long the return of a worker may take that was a member in the last round and is none in this one, as it
        said itself as that very member; None: it did not.
        """
        word, last = self.said.get(worker), self.last
        if word is None or last is None or last.members.get(worker) != word.member_id or worker in self.owned:
            return None
        return Absence(left=word.left, returns_ms=word.returns_ms).at_most_ms

    @cached_property
    def duplicated(self) -> Tasks:
        """What more than one member said that it owns."""
        seen: set[TaskId] = set()
        twice: set[TaskId] = set()
        for tasks in self.owned.values():
            twice |= seen & tasks
            seen |= tasks
        return frozenset(twice)


def read_round(seen: RoundSeen, computed: Computed) -> Round:
    """From the bytes on the wire."""
    codec = CODECS[seen.protocol]
    told = {worker: codec.decode_assignment(data) for worker, data in seen.sent.items()}
    return Round(
        seen=seen,
        owned={worker: codec.decode_metadata(data).owned - computed.ended for worker, data in seen.joined.items()},
        assigned={worker: assignment.assigned for worker, assignment in told.items()},
        revoked={worker: assignment.revoked for worker, assignment in told.items()},
        delay_ms=max(assignment.delay_ms for assignment in told.values()),
        record=computed.record,
        configured=computed.configured,
        throughout=computed.throughout,
        removed=computed.removed,
        last=computed.last,
        said=computed.said,
    )
