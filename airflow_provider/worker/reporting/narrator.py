"""Tells a task log what a worker goes through: every rebalance, and every task of its own that fails or ends."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import conflicts_since, keeps_failing
from airflow_provider.state.reports.groups.group_warnings import group_warnings
from airflow_provider.state.reports.narration import epoch_in_words
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.status_view import StatusSnapshot, steps_since
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import Epoch, TaskId, WorkerId

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.topic_writer import GroupTopics

log = logging.getLogger(__name__)

_TOLD: Final = (TaskState.RUNNING, TaskState.FINISHED, TaskState.STOPPED)
_A_LINE_EACH: Final = 4
_MOST_NAMES: Final = 20


@contextmanager
def narrated(
    topics: GroupTopics, worker: WorkerId, *, already_narrated: Epoch, applied: Callable[[], Epoch] | None = None
) -> Iterator[Narrator]:
    """Narrate as long as the block runs.

    :param already_narrated: the last epoch that this worker's log knows
    :param applied: the last epoch that the worker has applied, for one that joins anew: what the topic says until then
        is about another run of its task. None: the membership continues
    """
    narrator = Narrator(topics, worker, already_narrated, applied)
    # Its own record says that it has applied an epoch without a round.
    about = About.ROUNDS | About.TASKS | (About.NOTHING if applied is None else About.WORKERS)
    unsubscribe = topics.subscribe(narrator.tell, about)
    try:
        narrator.tell()
        yield narrator
    finally:
        unsubscribe()
        narrator.tell()


class Narrator:
    """Compares what is known of the group with what it has narrated.

    :param worker: whose log this is
    :ivar first_epoch: the first one that was narrated here
    """

    def __init__(
        self, topics: GroupTopics, worker: WorkerId, already_narrated: Epoch, applied: Callable[[], Epoch] | None = None
    ) -> None:
        self._topics = topics
        self._worker = worker
        self._epoch = already_narrated
        self._applied = applied
        self.first_epoch: Epoch | None = None
        self._seen = topics.status.of_tasks()
        self._warned: tuple[str, ...] = ()

    @property
    def epoch(self) -> Epoch:
        """The last epoch narrated."""
        return self._epoch

    def tell(self) -> None:
        """Log what is new."""
        status = self._topics.status
        if status.group is not None and self._is_news(status.group):
            self._epoch = status.group.epoch
            self.first_epoch = self.first_epoch or self._epoch

            def outlives(task: TaskId) -> bool:
                last = status.tasks.get(task)
                return last is not None and bool(last.server)

            for line in epoch_in_words(status.group, self._worker, self._topics.jobs.label, outlives):
                log.info("%s", line)
            self._warn(status)
        steps = steps_since(self._seen, status).get(self._worker, ())
        if status.tasks is not self._seen.tasks:
            self._seen = status.of_tasks()
        alike: defaultdict[str, list[str]] = defaultdict(list)
        for step in steps:
            how = self._tell_trouble(step.last, step.before)
            if how:
                alike[how].append(self._topics.jobs.label(step.last.task))
        for how, tasks in alike.items():
            _tell_alike(tasks, how)

    def _is_news(self, record: GroupRecord) -> bool:
        if self._applied is not None and self.first_epoch is None and record.epoch != self._applied():
            return False
        return record.epoch > self._epoch and self._worker in record.members

    def _warn(self, status: StatusSnapshot) -> None:
        """Log new warnings, if this worker leads."""
        led = status.group is not None and status.group.leader == self._worker
        before, self._warned = self._warned, group_warnings(self._topics.jobs, status) if led else ()
        for warning in self._warned:
            if warning not in before:
                log.warning("%s", warning)

    def _tell_trouble(self, last: TaskStatus, before: TaskStatus | None) -> str:
        """Log what went wrong with a task. If nothing did, return how it is; empty: that is no news."""
        state, failures = TaskState.UNASSIGNED, 0
        if before is not None and before.run_key == last.run_key:
            state, failures = before.state, before.failures
        moved_on = state is not last.state
        if last.error and (last.failures > failures or (moved_on and last.state is TaskState.FAILED)):
            again = "" if last.state is TaskState.FAILED else "; it will be tried again"
            trace = f"\n{last.error.traceback}" if last.error.traceback else ""
            label, times = self._topics.jobs.label(last.task), _how_often(last)
            log.error("Task %s failed%s: %s%s%s", label, times, last.error.message, again, trace)
        elif last.error and conflicts_since(last, before):
            log.info("Task %s: %s", self._topics.jobs.label(last.task), last.error.line)
        elif moved_on and last.state in _TOLD:
            attempt = "" if last.attempt == 1 else f", attempt {last.attempt}"
            return f"{last.state.value} (epoch {last.epoch}{attempt})"
        return ""


def _how_often(last: TaskStatus) -> str:
    return f", {last.counted_failures} times in a row" if keeps_failing(last) else ""


def _tell_alike(tasks: Sequence[str], how: str) -> None:
    """Log a line for each, if they are few: hundreds of short tasks may begin and end each second."""
    if len(tasks) <= _A_LINE_EACH:
        for task in tasks:
            log.info("Task %s is %s", task, how)
    else:
        for first in range(0, len(tasks), _MOST_NAMES):
            log.info("Tasks %s are %s", ", ".join(tasks[first : first + _MOST_NAMES]), how)
