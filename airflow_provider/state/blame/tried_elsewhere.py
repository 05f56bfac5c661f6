"""Where tasks that have failed should be tried again. Pure: the same records give every worker the same answer.

A task's second try goes to another worker, if something has lately gone well there: if the task fails there, too, it is
to blame itself. So each task moves at most once for this reason, and a job that is wrong everywhere causes few rounds.
A task whose retries are used up, on a worker where nothing goes well, gets one try more, on any other worker. If
another worker has just come and said nothing yet, it waits: that one may be the place. No task moves to where there is
no room: it would wait behind streams for ever.

The leader takes the task from the worker where it failed, by revoking it. The worker does not release it by itself: a
released task counts as lost, and goes back to the worker that had it; and if no leader looked, it would be nobody's. If
no leader looks now, the task is tried again where it is, a while later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from airflow_provider.assignment.model import TriedElsewhere
from airflow_provider.state.blame.evidence import able, found_a_place
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.records.status_topic.worker_absence import may_not_be_started
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import TaskId, WorkerId

HERE_AFTER_MS: Final = 20_000
"""How long a task waits for its move. After that it is tried again where it is."""
_TASKS_PER_MS: Final = 4
"""Places are counted anew when this many milliseconds have passed for so many tasks: this takes a few percent of the
time, however many tasks fail."""
_NOWHERE: Final[Mapping[TaskId, WorkerId]] = MappingProxyType({})


def better_places(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> Mapping[TaskId, WorkerId]:
    """Where failed tasks that wait should be tried again; without those that have no better place.

    :param wall_ms: now, milliseconds since 1970
    """
    lasts = status.tasks.values()
    failed = [last for last in lasts if len(last.failed_on) == 1 and _waits(last)]
    if not failed or status.group is None:
        return _NOWHERE
    places = Places(jobs, status, wall_ms=wall_ms)
    failed.sort(key=lambda last: last.task)
    return {last.task: place for last in failed if (place := places.take(last)) is not None}


def _waits(last: TaskStatus) -> bool:
    """Whether its next attempt has not begun. A worker that has given it up since may have written that it is stopped:
    another task may wait for its checkpoint.
    """
    return last.state is TaskState.PENDING or (last.state is TaskState.STOPPED and last.started_at_ms is None)


def tried_elsewhere(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> TriedElsewhere:
    """What a leader has to know of tasks that have failed."""
    return TriedElsewhere(
        places=better_places(jobs, status, wall_ms=wall_ms), pinned=found_a_place(jobs, status, wall_ms=wall_ms)
    )


class Places:
    """The workers that stay, with what they have to do."""

    def __init__(self, jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> None:
        self._jobs = jobs
        self._status = status
        self._able = able(status, wall_ms=wall_ms)
        self._slots = dict(_staying(status, wall_ms=wall_ms))
        self._taken = dict.fromkeys(self._slots, 0)
        self._taken_for_ever = dict.fromkeys(self._slots, 0)
        unfinished = configured(jobs, status.tasks)
        for worker in self._slots:
            assert status.group is not None
            for task in status.group.assignment.get(worker, frozenset()) & unfinished:
                self._add(task, worker)

    def are_of(self, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        """Whether the same is to be done, by the same workers, as when they were counted."""
        return self._jobs is jobs and self._status.group is status.group

    def take(self, last: TaskStatus) -> WorkerId | None:
        """A better place for a task, which is then counted there; None: there is none, or it needs none."""
        chosen = self.find(last)
        if chosen is not None:
            self._add(last.task, chosen)
        return chosen

    def find(self, last: TaskStatus) -> WorkerId | None:
        """The same without counting it.

        :param last: its last record: that it waits for its next attempt
        """
        if len(last.failed_on) != 1 or not self._is_to_run(last):
            return None
        home = last.failed_on[0]
        if self._status.owner_of(last.task) not in (None, home):
            return None  # it is there already
        chosen = max(self._candidates(last, home), default=None)
        return None if chosen is None else chosen[-1]

    def _is_to_run(self, last: TaskStatus) -> bool:
        work = self._jobs.work_of(last.task)
        if work is None or not last.is_of(work.definition.run_key, work.fingerprint):
            return False
        return not self._jobs.is_paused(last.task.job) and not self._status.lives_on(last.task)

    def _candidates(self, last: TaskStatus, home: WorkerId) -> Iterator[tuple[bool, int, WorkerId]]:
        """Workers, the best of which is the greatest: one on which something goes well, and with most free slots."""
        anywhere = last.last_try and home not in self._able
        if last.last_try and not anywhere:
            return
        wants = self._jobs.slots_of(last.task)
        for worker, slots in self._slots.items():
            if worker == home or not (anywhere or worker in self._able):
                continue
            if self._taken_for_ever[worker] + min(wants, slots) <= slots:
                yield worker in self._able, slots - self._taken[worker], worker

    def _add(self, task: TaskId, worker: WorkerId) -> None:
        slots = min(self._jobs.slots_of(task), self._slots[worker])
        self._taken[worker] += slots
        last, job = self._status.tasks.get(task), self._jobs.jobs.get(task.job)
        kind = last.kind if last is not None else None if job is None else job.kind
        if kind is TaskKind.STREAMING:
            self._taken_for_ever[worker] += slots


class RecentPlaces:
    """The places as a worker has counted them a moment ago. To look at all tasks for each one that fails would hold up
    the worker when many fail. The leader counts anew before a task moves.
    """

    def __init__(self) -> None:
        self._places: Places | None = None
        self._until_ms = 0

    def has_better(
        self, last: TaskStatus, jobs: JobsSnapshot, status: StatusSnapshot, *, now_ms: int, wall_ms: int
    ) -> bool:
        """Whether a task that has failed has a better place, or may turn out to have one."""
        if len(last.failed_on) != 1:
            return False
        if last.last_try and _has_unheard(last.failed_on[0], status, wall_ms=wall_ms):
            return True
        if self._places is None or now_ms >= self._until_ms or not self._places.are_of(jobs, status):
            self._places = Places(jobs, status, wall_ms=wall_ms)
            self._until_ms = now_ms + jobs.planned // _TASKS_PER_MS
        return self._places.find(last) is not None


def _cooperative_round(status: StatusSnapshot) -> GroupRecord | None:
    """The last round, if a task can move to another worker. In an eager group there is no better place: its rounds stop
    all tasks and deal them out anew.
    """
    record = status.group
    return record if record is not None and record.moves_single_tasks else None


def _has_unheard(home: WorkerId, status: StatusSnapshot, *, wall_ms: int) -> bool:
    """Whether another member of a round that has just ended has not said anything yet. Java Connect's never do."""
    record = _cooperative_round(status)
    if record is None or wall_ms - record.at_ms >= HERE_AFTER_MS:
        return False
    return not record.members.keys() - {home, BRIDGE} <= status.workers.keys()


def _staying(status: StatusSnapshot, *, wall_ms: int) -> Iterator[tuple[WorkerId, int]]:
    """The workers that stay in the group and say so, with their slots, without those that Airflow may not start."""
    record = _cooperative_round(status)
    if record is None:
        return
    held_back = may_not_be_started(record.members, status.workers, wall_ms=wall_ms)
    for worker in sorted(present(status) - record.leaving_soon - held_back - {BRIDGE}):
        said = status.workers.get(worker)
        if said is None or said.drains or said.leaves_soon or said.awaits is not None:
            continue
        if said.state is not WorkerPhase.STOPPING:
            yield worker, said.slots
