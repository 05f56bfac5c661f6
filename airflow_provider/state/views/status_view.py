"""The state of a status topic: what runs where.

Several workers write to the topic, and one of them may have been asleep. So a record with an older epoch than the known
one never wins. Compaction does not know this rule, and keeps the last record of a key, even a stale one. So a stale
record is ignored here, and the winning record is kept in :attr:`StatusSnapshot.overwritten` until the leader has
written it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from airflow_provider.state.records import (
    GROUP_KEY,
    Key,
    KeyKind,
    TaskState,
    TaskStatus,
    UnreadableRecordError,
    WorkerPhase,
    WorkerStatus,
    decode,
    task_key,
    worker_key,
)
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.reading import group_record_from_json
from airflow_provider.state.views.changing_mapping import ChangingMapping
from airflow_provider.state.views.hints import task_hints, worker_hints
from airflow_provider.state.views.topic_view import About, TopicView, Unreadable, ignore_unreadable, read_value
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced

StatusRecord = GroupRecord | WorkerStatus | TaskStatus


class Step(NamedTuple):
    """The previous and the new record of a task."""

    before: TaskStatus | None
    last: TaskStatus


Steps = Mapping[WorkerId, Sequence[Step]]


class Point:
    """The position of a snapshot in the history of changes: with it, the changes up to a later snapshot are found
    without comparing all tasks. Changes are only kept as long as an earlier snapshot is in use.
    """

    __slots__ = ("_changed", "_next")

    def __init__(self) -> None:
        self._changed: Iterable[TaskId] = ()
        self._next: Point | None = None

    def go_on(self, changed: Iterable[TaskId]) -> Point:
        """The next point, with what has changed on the way to it."""
        self._changed = changed
        self._next = Point()
        return self._next

    def changed_until(self, later: Point, *, all_tasks: Iterable[TaskId]) -> Iterable[TaskId]:
        """Which tasks may have changed.

        :param all_tasks: the answer if the history does not connect the two, because the topic was read again
        """
        changed: set[TaskId] = set()
        point = self
        while point is not later:
            changed.update(point._changed)
            if point._next is None:
                return all_tasks
            point = point._next
        return sorted(changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    """The status topic as read up to an offset. Immutable.

    :param offset: the offset after the last record read
    :param group: the last completed rebalance, None before the first
    :param overwritten: by key, the records that win although a stale one was written after them
    :param tasks: the same object as in the previous snapshot, if no task's record has come since
    :param unended: by task, the records of queries that may still be running, but were overwritten by a record that
        does not know of them; the oldest first
    :param unreadable: how many records could not be read
    :param deserted: the coordinator says that the group has no members, see :meth:`without_members`
    :param peopled: the coordinator says that it has some, see :meth:`with_members`
    :param owners: see :meth:`owner_of`; shared by all snapshots of a view
    :param point: the position of ``tasks`` in the history of the view
    :ivar steps: see :func:`steps_since`
    :ivar unparted: see :func:`~airflow_provider.state.views.presence.present`
    """

    offset: int = 0
    group: GroupRecord | None = None
    workers: Mapping[WorkerId, WorkerStatus] = field(default_factory=dict)
    tasks: Mapping[TaskId, TaskStatus] = field(default_factory=dict)
    overwritten: Mapping[str, StatusRecord] = field(default_factory=dict)
    unended: Mapping[TaskId, Sequence[TaskStatus]] = field(default_factory=dict)
    unreadable: int = 0
    deserted: bool = False
    peopled: bool = False
    owners: Memo[GroupRecord, Mapping[TaskId, WorkerId]] = field(default_factory=Memo, compare=False, repr=False)
    point: Point = field(default_factory=Point, compare=False, repr=False)
    steps: Memo[Mapping[TaskId, TaskStatus], Steps] = field(default_factory=Memo, init=False, compare=False, repr=False)
    unparted: Memo[Mapping[WorkerId, WorkerStatus], frozenset[WorkerId]] = field(
        default_factory=Memo, init=False, compare=False, repr=False
    )

    def of_tasks(self) -> StatusSnapshot:
        """The part that :func:`steps_since` needs, without the records of a thousand workers."""
        return StatusSnapshot(tasks=self.tasks, point=self.point)

    def without_members(self) -> StatusSnapshot:
        """The same, with what only the coordinator can say: that the group has no members. Killed workers can't write
        that they are gone.
        """
        return self if self.deserted else replace(self, deserted=True)

    def with_members(self) -> StatusSnapshot:
        """The same, with the coordinator's word that the group has members, whom the topics need not know: they are
        joining, or the leader is one of Java's, which writes no record.
        """
        return self if self.peopled else replace(self, peopled=True)

    def lives_on(self, task: TaskId) -> bool:
        """Whether the task has a detached query that may be running."""
        last = self.tasks.get(task)
        return task in self.unended or (last is not None and last.lives_on)

    def lives_on_beside(self, ended: TaskStatus) -> bool:
        """Whether the task has another detached query that may be running than the one that has ended."""
        last = self.tasks.get(ended.task)
        living = (*self.unended.get(ended.task, ()), *((last,) if last is not None and last.lives_on else ()))
        return not all(map(ended.knows_of, living))

    def living(self) -> Iterator[TaskStatus]:
        """The records of detached queries that may be running. For an unended one, this is the last record of its task
        with the query's handle: a copy of it that says *stopped* is accepted.
        """
        for task, last in self.tasks.items():
            for unended in self.unended.get(task, ()):
                yield replaced(last, state=TaskState.RUNNING, handle=unended.handle)
            if last.lives_on:
                yield last

    def owner_of(self, task: TaskId) -> WorkerId | None:
        """The worker that has the task since the last round, and has not left; None: there is none."""
        if self.group is None or self.deserted:
            return None
        assignment = self.group.assignment
        owners = self.owners.get(
            self.group, lambda: {task: worker for worker, tasks in assignment.items() for task in tasks}
        )
        owner = owners.get(task)
        said = None if owner is None else self.workers.get(owner)
        return None if said is not None and said.state is WorkerPhase.LEFT else owner


def steps_since(before: StatusSnapshot, now: StatusSnapshot) -> Steps:
    """The changes of tasks since ``before``, by the worker that wrote them; compared once for all users."""
    if before.tasks is now.tasks:
        return {}

    def compare() -> Steps:
        steps: dict[WorkerId, list[Step]] = {}
        for task in before.point.changed_until(now.point, all_tasks=now.tasks):
            known, last = before.tasks.get(task), now.tasks.get(task)
            if last is not None and last is not known and _differs(last, known):
                steps.setdefault(last.worker, []).append(Step(known, last))
        return steps

    return now.steps.get(before.tasks, compare)


def _differs(last: TaskStatus, known: TaskStatus | None) -> bool:
    """Whether two records of a task differ. Mostly the state does; to compare all fields takes twenty times as long."""
    return known is None or last.state is not known.state or last != known


def said_since(before: StatusSnapshot, now: StatusSnapshot, tasks: Tasks) -> Tasks:
    """Those of these tasks that may have new records since ``before``."""
    if before.tasks is now.tasks:
        return NO_TASKS
    return tasks.intersection(before.point.changed_until(now.point, all_tasks=tasks))


def ignore_stale(_key: str, _winner: StatusRecord) -> None:
    """Keeping it in the snapshot is enough."""


def check_counts(record: StatusRecord, now_ms: int) -> None:
    """Refuse impossible numbers. Counting continues from the numbers in records: after the largest possible number, no
    valid record could ever win again.

    Nothing here happens a million times a second, so no count can be above the number of microseconds since 1970. From
    a wrong number below this limit, the group counts on. It never reaches the limit, because the clock is faster.

    :raises UnreadableRecordError: naming the number
    """
    match record:
        case GroupRecord():
            counts = record.counts
        case WorkerStatus():
            counts = {"epoch": record.epoch}
        case TaskStatus():
            counts = {
                "epoch": record.epoch,
                "attempt": record.attempt,
                "failures": record.failures,
                "spark_deaths": record.spark_deaths,
                "process_deaths": record.process_deaths,
                "died_alone": record.died_alone,
                "acquitted": record.acquitted,
                "forgiven": record.forgiven,
                "conflicts": record.conflicts,
            }
    highest = _highest_count(now_ms)
    for name, count in counts.items():
        if count > highest:
            raise UnreadableRecordError(f"{name} {count} is higher than anybody can have counted since 1970")


def can_be_counted_on(count: int, now_ms: int) -> bool:
    """Whether the next number after this one would be accepted in a record (:func:`check_counts`)."""
    return count < _highest_count(now_ms)


def _highest_count(now_ms: int) -> int:
    return now_ms * 1_000


def _read(key: Key, value: bytes) -> StatusRecord:
    match key.kind:
        case KeyKind.GROUP:
            return group_record_from_json(decode(value))
        case KeyKind.WORKER:
            return read_value(value, WorkerStatus.from_json, lambda status: status.worker, WorkerId(key.name))
        case _:
            return read_value(value, TaskStatus.from_json, lambda status: status.task, key.task)


class StatusView(TopicView[StatusSnapshot]):
    """Builds a :class:`StatusSnapshot` from the records of a status topic.

    :param on_stale: called with the key and the record that wins, when a stale record has been ignored
    :param clock: milliseconds since 1970; see :func:`check_counts`
    """

    def __init__(
        self,
        on_unreadable: Callable[[Unreadable], None] = ignore_unreadable,
        on_stale: Callable[[str, StatusRecord], None] = ignore_stale,
        *,
        clock: Callable[[], int],
    ) -> None:
        super().__init__(on_unreadable)
        self._clock = clock
        self._on_stale = on_stale
        self._owners: Memo[GroupRecord, Mapping[TaskId, WorkerId]] = Memo()

    def _clear(self) -> None:
        self._group: GroupRecord | None = None
        self._workers: dict[WorkerId, WorkerStatus] = {}
        self._tasks: ChangingMapping[TaskId, TaskStatus] = ChangingMapping()
        self._overwritten: dict[str, StatusRecord] = {}
        self._unended: dict[TaskId, tuple[TaskStatus, ...]] = {}
        self._tasks_seen: Mapping[TaskId, TaskStatus] | None = None
        self._changed: set[TaskId] = set()
        self._point = Point()

    def _parse(self, key: Key, value: bytes | None) -> StatusRecord | None:
        if key.kind not in (KeyKind.GROUP, KeyKind.WORKER, KeyKind.TASK):
            raise UnreadableRecordError(f"a record of kind {key.kind.value!r} does not belong in a status topic")
        if value is None:
            return None
        record = _read(key, value)
        check_counts(record, self._clock())
        return record

    def _put(self, key: Key, content: Any) -> None:
        match key.kind:
            case KeyKind.GROUP:
                self._put_group(content)
            case KeyKind.WORKER:
                self._put_worker(WorkerId(key.name), content)
            case KeyKind.TASK:
                self._put_task(key.task, content)

    def _put_group(self, new: GroupRecord | None) -> None:
        known = self._group
        if new and known and _is_stale_round(new, known):
            self._reject(GROUP_KEY, known)
            return
        self._group = new
        self._overwritten.pop(GROUP_KEY, None)

    def _put_worker(self, worker: WorkerId, new: WorkerStatus | None) -> None:
        key = worker_key(worker)
        if new is None:
            self._workers.pop(worker, None)
        else:
            known = self._workers.get(worker)
            if known and new.is_stale(known):
                self._reject(key, known)
                return
            self._workers[worker] = new
            if worker_hints(known, new):
                self._news |= About.HINTS
        self._overwritten.pop(key, None)

    def _put_task(self, task: TaskId, new: TaskStatus | None) -> None:
        if new is None:
            self._unended.pop(task, None)
        else:
            known = self._tasks.get(task)
            if known and new.is_stale(known):
                self._reject(task_key(task), known)
                return
            self._note_unended(known, new)
            if task_hints(known, new, self._group):
                self._news |= About.HINTS
        self._tasks.put(task, new)
        self._tasks_seen = None
        self._changed.add(task)
        if self._overwritten:
            self._overwritten.pop(task_key(task), None)

    def _note_unended(self, known: TaskStatus | None, new: TaskStatus) -> None:
        """Keep the records of queries that the new record does not know of."""
        living = self._unended.pop(new.task, ())
        if known is not None and known.lives_on:
            living += (known,)
        left = tuple(each for each in living if not new.knows_of(each))
        if left:
            self._unended[new.task] = left

    def _reject(self, key: str, winner: StatusRecord) -> None:
        self._overwritten[key] = winner
        self._on_stale(key, winner)

    def _take_snapshot(self) -> StatusSnapshot:
        if self._tasks_seen is None:
            self._tasks_seen = self._tasks.snapshot()
            self._point = self._point.go_on(self._changed)
            self._changed = set()
        return StatusSnapshot(
            offset=self.offset,
            group=self._group,
            workers=MappingProxyType(dict(self._workers)),
            tasks=self._tasks_seen,
            overwritten=MappingProxyType(dict(self._overwritten)),
            unended=MappingProxyType(dict(self._unended)),
            unreadable=self._unreadable,
            owners=self._owners,
            point=self._point,
        )


def _is_stale_round(new: GroupRecord, known: GroupRecord) -> bool:
    """An epoch belongs to the round that wrote it first, which may write it again."""
    if new.epoch != known.epoch:
        return new.epoch < known.epoch
    return not new.is_same_round(known)
