"""Counts what has happened in a group since the last look: rounds, and steps of tasks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.declared import Metric
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.metrics.spokesman import spokesman
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import conflicts_since
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.status_view import StatusSnapshot, Step, Steps, steps_since
from airflow_provider.state.views.task_progress.progress import converged
from airflow_provider.values.model import Epoch, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What was counted so far.

    :param seen: the tasks, as they were then
    :param epoch: of the last round that was counted
    :param unconverged_since_ms: when the first round was decided that changed a converged group (wall clock, ms since
        1970); None: it is converged, or there was no round
    """

    seen: StatusSnapshot
    epoch: Epoch
    unconverged_since_ms: int | None

    @classmethod
    def beginning(cls, status: StatusSnapshot, counted: Epoch) -> Course:
        """Begin to count; what happened before is not counted.

        :param counted: the last round that the same worker has counted in another process; 0: this is its first
        """
        epoch = Epoch(0) if status.group is None else status.group.epoch
        since = None if status.group is None or converged(status.group, status.workers) else status.group.at_ms
        return cls(seen=status.of_tasks(), epoch=min(counted, epoch) or epoch, unconverged_since_ms=since)

    def until(
        self, status: StatusSnapshot, group: str, held: Collection[WorkerId], now_ms: int
    ) -> tuple[Course, list[Sample]]:
        """Count what is new.

        :param held: the workers that this process reports about
        :param now_ms: wall clock, milliseconds since 1970
        :returns: what was counted then, and the samples to send
        """
        counts = _Counts(group)
        samples: list[Sample] = []
        new = status.group if status.group is not None and status.group.epoch > self.epoch else None
        if new is not None and new.leader in held:
            counts.round(new)
        for step in _of(held, steps_since(self.seen, status)):
            counts.step(step)
            samples.extend(_times(step, group))
        since = self.unconverged_since_ms
        if since is None and new is not None:
            since = new.at_ms
        if since is not None and converged(status.group, status.workers):
            if spokesman(status) in held:
                took = max(0, now_ms - since)
                samples.append(Sample(metric=declared.REBALANCE_TIME, value=took, tags=(group,)))
            since = None
        return (
            replace(
                self,
                seen=status.of_tasks() if status.tasks is not self.seen.tasks else self.seen,
                epoch=self.epoch if new is None else new.epoch,
                unconverged_since_ms=since,
            ),
            [*counts.samples(), *samples],
        )


def _of(held: Collection[WorkerId], steps: Steps) -> Iterator[Step]:
    """The steps of the held workers, without looping over these: few workers have new steps, however many are held."""
    for worker, of_worker in steps.items():
        if worker in held:
            yield from of_worker


class _Counts:
    """Adds up samples: with many short tasks, some hundred begin and end each second."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._counted: Counter[tuple[Metric, tuple[str, ...]]] = Counter()

    def samples(self) -> Iterator[Sample]:
        for (metric, tags), count in self._counted.items():
            if count > 0:
                yield Sample(metric=metric, value=count, tags=(self._group, *tags))

    def round(self, record: GroupRecord) -> None:
        self._counted[declared.REBALANCES, ()] += 1
        for move in record.moves:
            if move.source is not None and move.target not in (None, move.source):
                for task in move.tasks:
                    self._counted[declared.MOVED, (task.job, move.reason.value)] += 1
        for in_vain in record.given_up.values():
            for task in in_vain:
                self._counted[declared.LESSONS_GIVEN_UP, (task.job,)] += 1

    def step(self, step: Step) -> None:
        last, before = step.last, _before(step)
        failures = _more(last.failures, before.failures if before else 0)
        now = last.state if before is None or before.state is not last.state else None
        for metric, count in (
            (declared.STARTED, _more(_begun(last), _begun(before) if before else 0)),
            (declared.ATTEMPTS_FAILED, failures),
            (declared.RETRIED, failures - (last.state is TaskState.FAILED)),
            (declared.FAILED, now is TaskState.FAILED),
            (declared.FINISHED, now is TaskState.FINISHED),
            (
                declared.STALLED,
                last.stalled_since_ms is not None and (before is None or before.stalled_since_ms is None),
            ),
            (declared.STOPPED, now is TaskState.STOPPED and last.started_at_ms is not None),
            (declared.SPARK_DEATHS, _more(last.spark_deaths, before.spark_deaths if before else 0)),
            (declared.PROCESS_DEATHS, _more(last.process_deaths, before.process_deaths if before else 0)),
            (declared.CONFLICTS, conflicts_since(last, before)),
        ):
            if count > 0:
                self._counted[metric, (last.task.job,)] += int(count)


def _times(step: Step, group: str) -> Iterator[Sample]:
    last, before = step.last, _before(step)
    tags = (group, last.task.job)
    moved_on = before is None or before.state is not last.state
    if moved_on and last.state is TaskState.FINISHED and last.took_ms is not None:
        metric = declared.PLANNER_TIME if last.task.is_planner else declared.TASK_TIME
        yield Sample(metric=metric, value=last.took_ms, tags=tags)
    stopped = before is not None and before.state is TaskState.STOPPED
    if (
        before
        and stopped
        and before.finished_at_ms
        and last.started_at_ms
        and last.started_at_ms != before.started_at_ms
    ):
        still = max(0, last.started_at_ms - before.finished_at_ms)
        yield Sample(metric=declared.STOOD_STILL, value=still, tags=tags)


def _before(step: Step) -> TaskStatus | None:
    """The status before, if it is of the same run."""
    return step.before if step.before is not None and step.before.run_key == step.last.run_key else None


def _begun(status: TaskStatus) -> int:
    return status.attempt if status.started_at_ms is not None else status.attempt - 1


def _more(now: int, before: int) -> int:
    """By how much a count has grown. It restarts when a task that failed for good is tried again."""
    return max(0, now - before)
