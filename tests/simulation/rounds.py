"""A completed rebalance as the invariants look at it: what went over the wire, what its leader meant by it, and what
was started by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from simulation.group import RoundSeen

from airflow_provider.assignors.model import Absence
from airflow_provider.leading.causes import FOR_WHAT_WAITS
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.bridge import BRIDGE, stands_for
from airflow_provider.protocol.embedded import CODECS
from airflow_provider.protocol.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.protocol.model import (
    NO_TASKS,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
)
from airflow_provider.records.status import WorkerStatus


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
    :param draining: who starts nothing more, as it has said
    :param stateful: the jobs whose tasks have something to warm up
    :param running: what was said to run
    :param ready: what members had said in the status topic that they are ready for
    :param costed: of what it was known that it differs in what it costs
    :param failed: what of that which had ended had failed for good
    """

    record: ClassicRecord
    configured: Tasks
    throughout: Tasks
    removed: Tasks
    last: ClassicRecord | None
    said: Mapping[WorkerId, WorkerStatus] = field(default_factory=dict)
    ended: Tasks = NO_TASKS
    draining: frozenset[WorkerId] = frozenset()
    stateful: frozenset[str] = frozenset()
    running: Tasks = NO_TASKS
    ready: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    costed: Tasks = NO_TASKS
    failed: Tasks = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What members of a round said of learner tasks, and were told.

    :param learns: what each makes ready, and how far it is
    :param ready: what may move to each now
    :param failed: what of that each could not make ready
    :param learning: what each is to make ready from now on
    :param learned: what of its own others are to make ready
    :param leaving: who leaves when it has nothing left
    :param shutdown: who was told that it may
    """

    learns: Mapping[WorkerId, Mapping[TaskId, float]] = field(default_factory=dict)
    ready: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    failed: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    learning: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    learned: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    leaving: frozenset[WorkerId] = frozenset()
    shutdown: frozenset[WorkerId] = frozenset()

    def furthest(self, task: TaskId, among: Iterable[WorkerId]) -> frozenset[WorkerId]:
        """Who is furthest with a task."""
        far = {worker: self.learns[worker][task] for worker in among if task in self.learns.get(worker, ())}
        return frozenset(worker for worker, progress in far.items() if progress == max(far.values()))


@dataclass(frozen=True, kw_only=True)
class Round:
    """What each member said that it owns, and what it was told.

    :param told: the whole of what each is to have, where the wire says it
    :param lessons: None where nothing is learned
    :param bridged: for how many workers the bridge stands
    :param kept: what each said that it keeps, though it has failed for good; nothing else that was said or told has it
    :param told_kept: the same as each was told
    """

    seen: RoundSeen
    owned: Mapping[WorkerId, Tasks]
    assigned: Mapping[WorkerId, Tasks]
    revoked: Mapping[WorkerId, Tasks]
    delay_ms: int
    record: ClassicRecord
    configured: Tasks
    throughout: Tasks
    removed: Tasks
    last: ClassicRecord | None
    said: Mapping[WorkerId, WorkerStatus]
    draining: frozenset[WorkerId]
    stateful: frozenset[str]
    running: Tasks
    told: Mapping[WorkerId, Tasks] | None
    lessons: Lessons | None
    bridged: int
    costed: Tasks
    kept: Mapping[WorkerId, Tasks]
    told_kept: Mapping[WorkerId, Tasks]

    def weight_of(self, worker: WorkerId) -> int:
        """For how many workers it stands."""
        return self.bridged if worker == BRIDGE else 1

    @property
    def staying(self) -> frozenset[WorkerId]:
        """Who can be given something: neither leaves nor drains, unless all drain."""
        draining = self.draining & self.owned.keys()
        away = draining if len(draining) < len(self.owned) else frozenset()
        return frozenset(self.owned) - away - (self.lessons.leaving if self.lessons else frozenset())

    @property
    def by_cost(self) -> Tasks:
        """What was shared out by what it costs: nothing, where a task has state."""
        return NO_TASKS if any(map(self.has_state, self.configured)) else self.costed

    def has_state(self, task: TaskId) -> bool:
        return self.lessons is not None and task.job in self.stateful and not task.is_planner

    @property
    def cooperative(self) -> bool:
        return self.seen.protocol.cooperative

    @property
    def asked_in_vain(self) -> bool:
        """Whether its leader asked for it, for what nobody had, and there was nothing to give. What was removed and
        set again since the last round was stopped, and is given anew, where it was; and what was wanted may have
        been removed before it could be given.
        """
        asked = (self.record.step or self.record.reason).startswith(("new work", *FOR_WHAT_WAITS))
        anew = self.configured - self.throughout
        return asked and self.record.unchanged > 0 and not anew and not self.removed

    def follows(self, before: Round | None) -> bool:
        """Whether the leader knew the record of the round before: it gets lost with a leader that dies before it has
        written it.
        """
        seen = None if before is None else before.seen
        return seen is None or (self.last is not None and self.last.is_round(seen.generation, seen.leader_member))

    @cached_property
    def target(self) -> Mapping[WorkerId, Tasks]:
        """What each has when it has done what it was told."""
        if self.told is not None:
            return self.told
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
    said = {WorkerId(worker): codec.decode_metadata(data) for worker, data in seen.joined.items()}
    told = {WorkerId(worker): codec.decode_assignment(data) for worker, data in seen.sent.items()}
    targets, lessons, kept, told_kept = None, None, dict[WorkerId, Tasks](), dict[WorkerId, Tasks]()
    failed = computed.failed
    if seen.protocol is SubProtocol.EXTENSIBLE:
        owned = {worker: state.owned.tasks() - computed.ended for worker, state in said.items()}
        revoked = {worker: each.revoked.tasks() for worker, each in told.items()}
        kept = {worker: state.owned.tasks() & failed for worker, state in said.items()}
        told_kept = {worker: each.target.tasks() & failed for worker, each in told.items()}
        targets = {worker: each.target.tasks() - failed for worker, each in told.items()}
        assigned = {worker: target - owned[worker] for worker, target in targets.items()}
        lessons = _lessons(said, told, computed.ready)
    else:
        owned = {worker: state.owned - computed.ended for worker, state in said.items()}
        revoked = {worker: each.revoked for worker, each in told.items()}
        if seen.protocol.cooperative:
            kept = {worker: state.owned & failed for worker, state in said.items()}
            told_kept = {worker: tasks - revoked[worker] for worker, tasks in kept.items()}
        assigned = {worker: each.assigned for worker, each in told.items()}
    return Round(
        seen=seen,
        owned=owned,
        assigned=assigned,
        revoked=revoked,
        delay_ms=max(assignment.delay_ms for assignment in told.values()),
        record=computed.record,
        configured=computed.configured,
        throughout=computed.throughout,
        removed=computed.removed,
        last=computed.last,
        said=computed.said,
        draining=computed.draining,
        stateful=computed.stateful,
        running=computed.running,
        told=targets,
        lessons=lessons,
        bridged=stands_for(said[BRIDGE].url) if BRIDGE in said else 1,
        costed=computed.costed,
        kept=kept,
        told_kept=told_kept,
    )


def _lessons(
    said: Mapping[WorkerId, ExtensibleState],
    told: Mapping[WorkerId, ExtensibleAssignment],
    since: Mapping[WorkerId, Tasks],
) -> Lessons:
    learns = {worker: state.how_far() for worker, state in said.items()}
    ready = {
        worker: state.ready.tasks() | (since.get(worker, NO_TASKS) & learns[worker].keys())
        for worker, state in said.items()
    }
    return Lessons(
        learns={worker: {**far, **dict.fromkeys(ready[worker], 1.0)} for worker, far in learns.items()},
        ready=ready,
        failed={worker: state.failed.tasks() - ready[worker] for worker, state in said.items()},
        learning={worker: each.learning.tasks() for worker, each in told.items()},
        learned={worker: each.learned.tasks() for worker, each in told.items()},
        leaving=frozenset(worker for worker, state in said.items() if state.leaving is not None),
        shutdown=frozenset(worker for worker, each in told.items() if each.shutdown),
    )
