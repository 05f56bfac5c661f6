"""What is being learned, and how it continues in this round.

A learner that is ready gets its task as soon as nobody has it: the owner has stopped it before it joined, or is gone.
An owner that still has it stops it now, and the learner gets it in the next round (KIP-415). If an owner has stopped a
task and no learner is ready, it gets the task back. A learner that is not ready continues, unless the task should
rather stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider.assignment.learners.model import LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.shares import Numbers, Shares, grouped
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


class Lesson(NamedTuple):
    """Who learns a task, its progress (0 to 1), when the lesson began (wall clock), and whether it has failed."""

    worker: WorkerId
    progress: float
    since_ms: int
    failed: bool = False


Lessons = Mapping[TaskId, Lesson]


def lessons_of(round: LearnerRound, memory: LearnerMemory) -> dict[TaskId, Lesson]:  # noqa: A002
    """Choose one learner of each task: if there are several, the most advanced that has not failed.

    Workers that leave or drain do not count, nor does a task's owner.
    """
    best: dict[TaskId, Lesson] = {}
    for task, lesson in all_lessons(round, memory, round.staying):
        if task not in best or _rank(lesson) > _rank(best[task]):
            best[task] = lesson
    return best


def all_lessons(
    round: LearnerRound,  # noqa: A002
    memory: LearnerMemory,
    workers: Collection[WorkerId],
) -> Iterator[tuple[TaskId, Lesson]]:
    """What each of these workers learns and does not own. Several may learn a task, if some have missed a round."""
    for worker in sorted(round.learning.keys() & workers):
        since, failed = memory.since_ms.get(worker, {}), round.failed.get(worker, NO_TASKS)
        for task, progress in round.learning[worker].items():
            if round.has_state(task) and task in round.configured and task not in round.owned[worker]:
                began_ms = min(since.get(task, round.now_ms), round.now_ms)
                yield task, Lesson(worker, progress, began_ms, task in failed)


def _rank(lesson: Lesson) -> tuple[bool, float]:
    return not lesson.failed, lesson.progress


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Tasks that nobody has, and their new owners.

    :param handed: what learners own from now on
    :param taken_back: what owners had stopped for a learner, and get back
    :param owners: the previous owners of what was handed over, as far as known
    """

    handed: Shares = field(default_factory=dict)
    taken_back: Shares = field(default_factory=dict)
    owners: Mapping[TaskId, WorkerId] = field(default_factory=dict)


def hand_over(
    round: LearnerRound,  # noqa: A002
    memory: LearnerMemory,
    limits: Limits,
    lessons: Lessons,
    *,
    created: Tasks,
    lost: Mapping[TaskId, WorkerId],
) -> HandOver:
    """Give tasks that nobody has to learners that are ready, or back to owners that stopped them only for a learner.

    :param created, lost: what nobody has, as KIP-415 distinguishes it
    """
    owners = {
        task: owner
        for owner, tasks in memory.may_have_stopped(round).items()
        if owner in round.owned
        for task in tasks
        if task in created or lost.get(task) == owner
    }
    handed = {
        task: lesson.worker
        for task, lesson in lessons.items()
        if (task in created or task in lost)
        and (is_ready(lesson, limits) or (owners.get(task) in round.leaving_soon and is_in_vain(lesson, round, limits)))
    }
    return HandOver(
        handed=grouped(handed.items()),
        taken_back=grouped((task, owner) for task, owner in owners.items() if task not in handed),
        owners={**{task: lost[task] for task in handed if task in lost}, **owners},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """The lessons that continue.

    :param lessons: of each task, including those that move to their learner now
    :param holders: the present holders of these tasks; a task that waits for a worker has none
    :param released: what owners stop now, because the learner can start it
    """

    lessons: Lessons
    holders: Mapping[TaskId, WorkerId]
    released: Shares


def further(
    round: LearnerRound,  # noqa: A002
    limits: Limits,
    lessons: Lessons,
    holding: Shares,
    *,
    shares: Numbers,
    counts: Numbers,
) -> Further:
    """Decide which lessons continue.

    :param lessons: without tasks that were handed over or have just started
    :param holding: what each member has, started or not
    :param shares: how many stateful tasks each worker that stays has at least when all is even
    :param counts: how many of them it has now
    """
    tasks = frozenset(lessons)
    holders = {task: worker for worker, held in holding.items() for task in held & tasks}
    given_up = {
        task
        for task, lesson in lessons.items()
        if is_in_vain(lesson, round, limits)
        and holders.get(task) not in round.leaving_soon
        and (lesson.failed or holders.get(task, lesson.worker) != lesson.worker)
        and task not in round.pending
    }
    rest = {task: lesson for task, lesson in lessons.items() if task not in given_up}
    better_left = _better_left(rest, holders, shares=shares, counts=counts)
    continued = {task: lesson for task, lesson in rest.items() if task not in better_left}
    released = (
        (task, holders[task])
        for task, lesson in continued.items()
        if task in round.owned.get(holders.get(task, lesson.worker), ())
        and (is_ready(lesson, limits) or is_in_vain(lesson, round, limits) or task in round.pending)
    )
    return Further(
        lessons=continued,
        holders={task: worker for task, worker in holders.items() if task in continued},
        released=grouped(released),
    )


def _better_left(lessons: Lessons, holders: Mapping[TaskId, WorkerId], *, shares: Numbers, counts: Numbers) -> Tasks:
    """Tasks that need not move any more, because the owner has room and the learner is above its share.

    The least advanced lessons end first. There is no other reason to end one: when a worker joins, every share gets
    smaller, and no lesson must start over because of that.
    """
    left: set[TaskId] = set()
    now = dict(counts)
    for task, lesson in lessons.items():
        now[lesson.worker] += 1
        if holders.get(task) in now:
            now[holders[task]] -= 1
    for task in sorted(lessons, key=lambda task: (lessons[task].progress, task)):
        owner, worker = holders.get(task), lessons[task].worker
        if owner is None or owner not in shares:
            continue
        if now[owner] < shares[owner] and now[worker] > shares[worker]:
            now[owner] += 1
            now[worker] -= 1
            left.add(task)
    return frozenset(left)


def is_ready(lesson: Lesson, limits: Limits) -> bool:
    """Whether a lesson has progressed so far that its task may move."""
    return lesson.progress >= limits.ready_from


def is_in_vain(lesson: Lesson, round: LearnerRound, limits: Limits) -> bool:  # noqa: A002
    """Whether it has failed or taken too long."""
    over = lesson.failed or round.now_ms - lesson.since_ms >= limits.longest_ms
    return over and not is_ready(lesson, limits)
