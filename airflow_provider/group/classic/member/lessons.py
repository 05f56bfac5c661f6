"""The lessons of a member, as a learner and as the owner of learned tasks: a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, tasks_from_json, tasks_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """The lessons according to the last assignment.

    When a task moves to its learner its lesson ends, but what was warmed up is kept until the task starts.

    :param learning: what this member learns, while others or nobody own it
    :param progress: of those of which it is known, from 0 to 1, by task
    :param learned: which of the tasks that this member had then others learn
    :param failed: those of ``learning`` that could not be made ready here
    :param known_ready: those of ``learned`` for which others are ready, as far as this member knows
    """

    learning: Tasks = NO_TASKS
    progress: tuple[tuple[TaskId, float], ...] = ()
    failed: Tasks = NO_TASKS
    learned: Tasks = NO_TASKS
    known_ready: Tasks = NO_TASKS

    def how_far(self) -> dict[TaskId, float]:
        """The tasks that this member learns, each with its progress from 0 to 1."""
        return {**dict.fromkeys(self.learning, 0.0), **dict(self.progress)}

    def ready(self, ready_from: float) -> Tasks:
        """The tasks that may move to this member now."""
        return frozenset(task for task, progress in self.progress if progress >= ready_from)

    def next(self, learning: Tasks, learned: Tasks) -> Lessons:
        """The lessons after another assignment."""
        return Lessons(
            learning=learning,
            progress=tuple((task, progress) for task, progress in self.progress if task in learning),
            failed=self.failed & learning,
            learned=learned,
            known_ready=self.known_ready & learned,
        )

    def heard(self, progress: Mapping[TaskId, float], failed: Tasks) -> Lessons:
        """A copy with news of what this member learns."""
        known = {**dict(self.progress), **{task: far for task, far in progress.items() if task in self.learning}}
        return replace(self, progress=tuple(sorted(known.items())), failed=failed & self.learning)

    def knowing(self, ready: Tasks) -> Lessons:
        """A copy with news of what others learn."""
        return replace(self, known_ready=ready & self.learned)

    def to_stop(self, rule: LearnedRule) -> Tasks:
        """The tasks that an owner stops before it joins, so that a learner can have them in that round."""
        return rule.stops(self.learned, self.known_ready)

    def to_json(self) -> dict[str, Any]:
        """Without progress, failures and known readiness, which only hold in this process."""
        return {"learning": tasks_to_json(self.learning), "learned": tasks_to_json(self.learned)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lessons:
        """The inverse of :meth:`to_json`; no lessons if an older release has written it."""
        return cls(
            learning=tasks_from_json(data.get("learning", [])),
            learned=tasks_from_json(data.get("learned", [])),
        )


NO_LESSONS: Final = Lessons()
