"""The lessons that a member has part in: as the one who learns, or as the one whose task it is. A value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider.learners.model import LearnedRule
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, tasks_from_json, tasks_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """As the last assignment has it.

    A task that moves to its learner is learned no more, but what was made ready for it is kept until it starts.

    :param learning: what this member makes ready, while others have it or nobody
    :param progress: how far each is of which that is known, from 0 to 1, by task
    :param learned: what others learn of what this member had then
    :param failed: what of ``learning`` could not be made ready here
    :param known_ready: what others are ready for, as far as this member has heard
    """

    learning: Tasks = NO_TASKS
    progress: tuple[tuple[TaskId, float], ...] = ()
    failed: Tasks = NO_TASKS
    learned: Tasks = NO_TASKS
    known_ready: Tasks = NO_TASKS

    def how_far(self) -> dict[TaskId, float]:
        """What this member learns, and how far each is."""
        return {**dict.fromkeys(self.learning, 0.0), **dict(self.progress)}

    def ready(self, ready_from: float) -> Tasks:
        """What may move to this member now."""
        return frozenset(task for task, progress in self.progress if progress >= ready_from)

    def next(self, learning: Tasks, learned: Tasks) -> Lessons:
        """After an assignment."""
        return Lessons(
            learning=learning,
            progress=tuple((task, progress) for task, progress in self.progress if task in learning),
            failed=self.failed & learning,
            learned=learned,
            known_ready=self.known_ready & learned,
        )

    def heard(self, progress: Mapping[TaskId, float], failed: Tasks) -> Lessons:
        """After news of what this member learns."""
        known = {**dict(self.progress), **{task: far for task, far in progress.items() if task in self.learning}}
        return replace(self, progress=tuple(sorted(known.items())), failed=failed & self.learning)

    def knowing(self, ready: Tasks) -> Lessons:
        """After news of what others learn."""
        return replace(self, known_ready=ready & self.learned)

    def to_stop(self, rule: LearnedRule) -> Tasks:
        """What an owner stops before it joins, so that a learner can have it in that round."""
        return rule.stops(self.learned, self.known_ready)

    def to_json(self) -> dict[str, Any]:
        """Without what only this process has made ready, or heard."""
        return {"learning": tasks_to_json(self.learning), "learned": tasks_to_json(self.learned)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lessons:
        """The inverse of :meth:`to_json`; of what an older release has written: none."""
        return cls(
            learning=tasks_from_json(data.get("learning", [])),
            learned=tasks_from_json(data.get("learned", [])),
        )


NO_LESSONS: Final = Lessons()
