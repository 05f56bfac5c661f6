"""Finds out for which of one member's tasks other workers are ready."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider.state.records import WorkerStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId


class ReadyLearners:
    """Computes it again only when a learner of this member's tasks has written a record: an owner asks at each event,
    and a group may have a thousand workers.
    """

    def __init__(self) -> None:
        self._learned = NO_TASKS
        self._record: GroupRecord | None = None
        self._learners: Collection[WorkerId] | None = ()
        self._words: list[WorkerStatus | None] = []
        self._ready = NO_TASKS

    def of(self, learned: Tasks, status: StatusSnapshot) -> Tasks:
        """Those of the learned tasks for which some worker says that it is ready. The leader decides whether they move.

        The last record of a lost worker stays for a day; it counts while the worker is in the group.
        """
        if learned is not self._learned or status.group is not self._record:
            self._learned, self._record = learned, status.group
            self._learners = _learners_of(learned, status.group)
            self._words = []
        names = status.workers if self._learners is None else self._learners
        words = [status.workers.get(name) for name in names]
        if len(words) != len(self._words) or any(new is not old for new, old in zip(words, self._words, strict=True)):
            self._words = words
            said = (word for word in words if word is not None and word.learning and word.state.applied)
            self._ready = frozenset(
                lesson.task for word in said for lesson in word.learning if lesson.ready and lesson.task in learned
            )
        return self._ready


def _learners_of(learned: Tasks, record: GroupRecord | None) -> Collection[WorkerId] | None:
    """The learners of these tasks since the last round; all members if it does not name each; None: not known."""
    if record is None:
        return None
    learners = {worker: tasks & learned for worker, tasks in record.learning.items() if tasks & learned}
    return tuple(learners) if learned <= NO_TASKS.union(*learners.values()) else tuple(record.members)
