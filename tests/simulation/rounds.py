"""A completed rebalance as the invariants see it: what went over the wire, what its leader computed, and what was
started by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from simulation.group import RoundSeen

from airflow_provider.assignment.model import Absence
from airflow_provider.group.classic.wire import CODECS
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.state.records.status_topic.worker_status import WorkerStatus
from airflow_provider.state.rounds.causes import FOR_WHAT_WAITS
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.bridge import BRIDGE, stands_for
from airflow_provider.values.model import (
    NO_TASKS,
    Epoch,
    GenerationId,
    MemberId,
    TaskId,
    Tasks,
    WorkerId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A task was started.

    :param generation: of the round that gave the worker the task
    :param leader_member: the leader of that round
    :param formed: how often the coordinator had forgotten the group by then
    :param counted: whether the status topic had a record by which the coordinator's generations count: one of a round
        since the group was forgotten, if it ever was
    """

    worker: WorkerId
    epoch: Epoch
    generation: GenerationId
    leader_member: MemberId
    formed: int
    counted: bool

    def counts_on_from(self, before: Start, records: Iterable[ClassicRecord]) -> bool:
        """Whether the epoch of the start before could be known. Not if both were lost: the record of that round; and
        the coordinator's generation, because the group was forgotten since, or before that without a record of a round
        since. A later record does not help: its leader may have taken the new count for the old one.
        """
        written = any(record.is_round(before.generation, before.leader_member) for record in records)
        return written or (self.formed == before.formed and before.counted)


@dataclass(frozen=True, slots=True)
class Computed:
    """The inputs and the result of a leader's computation.

    :param configured: the wanted tasks, as far as the leader knew
    :param throughout: those of them that were wanted all the time since the last round
    :param removed: tasks that were wanted for a while since the last round, and no longer are
    :param last: the newest group record that the leader knew
    :param said: the workers' own records by then
    :param ended: the tasks that had ended by then: a worker that still reports one no longer has it
    :param draining: the workers that drain by their own records
    :param stateful: the jobs whose tasks warm up
    :param running: the tasks that were recorded as running
    :param endless: those of them that are streams
    :param ready: the tasks that members were ready for by the status topic
    :param costed: the tasks with known, different costs
    :param failed: those of the ended tasks that had failed for good
    :param tried: tasks that go to a certain worker because they have failed where they were
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
    endless: Tasks = NO_TASKS
    ready: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    costed: Tasks = NO_TASKS
    failed: Tasks = NO_TASKS
    tried: Tasks = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What the members of a round reported about learner tasks, and were told.

    :param learns: the tasks that each makes ready, with the progress
    :param ready: the tasks that may move to each now
    :param failed: those that each could not make ready
    :param learning: the tasks that each is to make ready from now on
    :param learned: the tasks of each that others are to make ready
    :param leaving: the members that leave when they have no tasks left
    :param shutdown: the members that were told that they may
    """

    learns: Mapping[WorkerId, Mapping[TaskId, float]] = field(default_factory=dict)
    ready: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    failed: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    learning: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    learned: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    leaving: frozenset[WorkerId] = frozenset()
    shutdown: frozenset[WorkerId] = frozenset()

    def furthest(self, task: TaskId, among: Iterable[WorkerId]) -> frozenset[WorkerId]:
        """The members with the most progress for a task."""
        far = {worker: self.learns[worker][task] for worker in among if task in self.learns.get(worker, ())}
        return frozenset(worker for worker, progress in far.items() if progress == max(far.values()))


@dataclass(frozen=True, kw_only=True)
class Round:
    """What each member reported that it owns, and what it was told.

    :param told: all tasks that each is to have, where the wire has that
    :param lessons: None where nothing is learned
    :param bridged: for how many workers the bridge stands
    :param kept: the tasks that failed for good and that each reported that it keeps; nowhere else in the round
    :param told_kept: the same, as each was told
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
    endless: Tasks
    told: Mapping[WorkerId, Tasks] | None
    lessons: Lessons | None
    bridged: int
    costed: Tasks
    kept: Mapping[WorkerId, Tasks]
    told_kept: Mapping[WorkerId, Tasks]
    tried: Tasks

    def weight_of(self, worker: WorkerId) -> int:
        """For how many workers this member stands."""
        return self.bridged if worker == BRIDGE else 1

    @property
    def staying(self) -> frozenset[WorkerId]:
        """The members that can be given tasks: they neither leave nor drain, unless all drain."""
        draining = self.draining & self.owned.keys()
        away = draining if len(draining) < len(self.owned) else frozenset()
        return frozenset(self.owned) - away - (self.lessons.leaving if self.lessons else frozenset())

    @property
    def finishing(self) -> Tasks:
        """The batch tasks that are known to run on workers that leave soon, while others stay."""
        leaving = self.lessons.leaving & self.owned.keys() if self.lessons and self.staying else ()
        ends = frozenset(task for task in self.running - self.endless if not task.is_planner)
        return NO_TASKS.union(*(self.owned[worker] for worker in leaving)) & ends

    @property
    def by_cost(self) -> Tasks:
        """The tasks that were shared out by cost: none that have state."""
        return frozenset(task for task in self.costed if not self.has_state(task))

    def has_state(self, task: TaskId) -> bool:
        return self.lessons is not None and task.job in self.stateful and not task.is_planner

    @property
    def cooperative(self) -> bool:
        return self.seen.protocol.cooperative

    @property
    def asked_in_vain(self) -> bool:
        """Whether the leader asked for this round to assign tasks without an owner, and there was nothing to assign. It
        does not count if tasks were removed and set again since the last round, because they stopped and are assigned
        again where they were; nor if the wanted tasks may have been removed before they could be assigned.
        """
        asked = (self.record.step or self.record.reason).startswith(("new work", *FOR_WHAT_WAITS))
        anew = self.configured - self.throughout
        return asked and self.record.unchanged > 0 and not anew and not self.removed

    def follows(self, before: Round | None) -> bool:
        """Whether the leader knew the record of the round before, which is lost if that leader died too early."""
        seen = None if before is None else before.seen
        return seen is None or (self.last is not None and self.last.is_round(seen.generation, seen.leader_member))

    @cached_property
    def target(self) -> Mapping[WorkerId, Tasks]:
        """The tasks that each has when it has done what it was told."""
        if self.told is not None:
            return self.told
        return {worker: (self.owned[worker] - self.revoked[worker]) | self.assigned[worker] for worker in self.owned}

    @cached_property
    def waiting(self) -> Tasks:
        """Lost tasks that wait for their worker."""
        if not self.record.deadline_ms:
            return NO_TASKS
        remembered = NO_TASKS.union(*self.record.memory.assignment.values())
        return remembered.difference(*self.target.values(), *self.revoked.values()) & self.configured

    def owner_of(self, task: TaskId) -> WorkerId:
        """The worker for which a task waits."""
        return next(worker for worker, tasks in self.record.memory.assignment.items() if task in tasks)

    def deadline_of(self, task: TaskId) -> int:
        """The end (wall clock) of a task's wait."""
        memory = self.record.memory
        return memory.awaited.get(self.owner_of(task), memory.deadline_ms)

    def at_most_ms(self, worker: WorkerId) -> int | None:
        """How long the return of a missing worker may take, as it said itself as the member of the last round; None if
        it did not.
        """
        word, last = self.said.get(worker), self.last
        if word is None or last is None or last.members.get(worker) != word.member_id or worker in self.owned:
            return None
        return Absence(left=word.left, returns_ms=word.returns_ms).at_most_ms

    def knows_of(self, worker: WorkerId) -> bool:
        """Whether a worker that was missed is back, or has said since that it will not be."""
        word = self.said.get(worker)
        return worker in self.owned or (word is not None and Absence(left=word.left).at_most_ms == 0)

    @cached_property
    def duplicated(self) -> Tasks:
        """The tasks that more than one member reported as its own."""
        seen: set[TaskId] = set()
        twice: set[TaskId] = set()
        for tasks in self.owned.values():
            twice |= seen & tasks
            seen |= tasks
        return frozenset(twice)


def read_round(seen: RoundSeen, computed: Computed) -> Round:
    """Read a round from the bytes on the wire."""
    codec = CODECS[seen.protocol]
    said = {WorkerId(worker): codec.decode_metadata(data) for worker, data in seen.joined.items()}
    told = {WorkerId(worker): codec.decode_assignment(data) for worker, data in seen.sent.items()}
    targets, lessons, kept, told_kept = None, None, dict[WorkerId, Tasks](), dict[WorkerId, Tasks]()
    failed = computed.failed
    if seen.protocol.learns:
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
        endless=computed.endless,
        told=targets,
        lessons=lessons,
        bridged=stands_for(said[BRIDGE].url) if BRIDGE in said else 1,
        costed=computed.costed,
        kept=kept,
        told_kept=told_kept,
        tried=computed.tried,
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
