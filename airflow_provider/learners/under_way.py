"""What is being learned, and what becomes of it in this round.

A learner that is ready gets its task as soon as nobody has it: the owner has stopped it before it joined, or is gone.
If the owner still has it, it stops it now, and the learner has it in the next round (KIP-415). What an owner has
stopped and nobody is ready for, it has again. A learner that is not ready goes on, unless the task had better
stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider.assignors.shares import Shares
from airflow_provider.learners.model import LearnerMemory, LearnerRound, Limits
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId


class Lesson(NamedTuple):
    """Who learns a task, how far it is (0 to 1), since when (wall clock), and whether it has failed."""

    worker: WorkerId
    progress: float
    since_ms: int
    failed: bool = False


Lessons = Mapping[TaskId, Lesson]


def lessons_of(round: LearnerRound, memory: LearnerMemory) -> dict[TaskId, Lesson]:  # noqa: A002
    """The one learner of each task that counts: of several the one that is furthest, and has not failed.

    Who leaves or drains learns nothing, and nothing is learned by its owner.
    """
    best: dict[TaskId, Lesson] = {}
    for worker in sorted(round.learning.keys() & round.staying):
        since, failed = memory.since_ms.get(worker, {}), round.failed.get(worker, NO_TASKS)
        for task, progress in round.learning[worker].items():
            wanted = round.has_state(task) and task in round.configured and task not in round.owned[worker]
            lesson = Lesson(worker, progress, min(since.get(task, round.now_ms), round.now_ms), task in failed)
            if wanted and (task not in best or _rank(lesson) > _rank(best[task])):
                best[task] = lesson
    return best


def _rank(lesson: Lesson) -> tuple[bool, float]:
    return not lesson.failed, lesson.progress


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """What nobody has, and who owns it from now on.

    :param handed: what learners own from now on
    :param taken_back: what owners have stopped for a learner's sake, and have again
    :param owners: of what was handed over: who had it, where that is known
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
    """Give what nobody has to learners that are ready, and to the owners that have only stopped it for them.

    :param created, lost: what nobody has, as KIP-415 tells it apart
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
        handed=by_worker(handed.items()),
        taken_back=by_worker((task, owner) for task, owner in owners.items() if task not in handed),
        owners={**{task: lost[task] for task in handed if task in lost}, **owners},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """What is learned further.

    :param lessons: who learns what, also what it is about to get
    :param holders: of these tasks: who has them; some wait for nobody in particular
    :param released: what its owner stops now, because the learner can start it
    :param given_up: what has been learned in vain
    """

    lessons: Lessons
    holders: Mapping[TaskId, WorkerId]
    released: Shares
    given_up: Lessons


def further(
    round: LearnerRound,  # noqa: A002
    limits: Limits,
    lessons: Lessons,
    holding: Shares,
    *,
    share: int,
    counts: Mapping[WorkerId, int],
) -> Further:
    """Sort out what goes on.

    :param lessons: without what was handed over or has just started
    :param holding: what each member has, started or not
    :param share: how many stateful tasks each worker that stays has at least, once all is even
    :param counts: how many of them it has now
    """
    tasks = frozenset(lessons)
    holders = {task: worker for worker, held in holding.items() for task in held & tasks}
    given_up = {
        task: lesson
        for task, lesson in lessons.items()
        if is_in_vain(lesson, round, limits)
        and holders.get(task) not in round.leaving_soon
        and (lesson.failed or holders.get(task, lesson.worker) != lesson.worker)
        and task not in round.pending
    }
    rest = {task: lesson for task, lesson in lessons.items() if task not in given_up}
    better_left = _better_left(rest, holders, share=share, counts=counts)
    on = {task: lesson for task, lesson in rest.items() if task not in better_left}
    released = (
        (task, holders[task])
        for task, lesson in on.items()
        if task in round.owned.get(holders.get(task, lesson.worker), ())
        and (is_ready(lesson, limits) or is_in_vain(lesson, round, limits) or task in round.pending)
    )
    return Further(
        lessons=on,
        holders={task: worker for task, worker in holders.items() if task in on},
        released=by_worker(released),
        given_up=given_up,
    )


def _better_left(
    lessons: Lessons, holders: Mapping[TaskId, WorkerId], *, share: int, counts: Mapping[WorkerId, int]
) -> Tasks:
    """What need not move any more, because its owner has room and its learner more than its share: the least advanced.

    Only then: one more worker that joins makes everybody's share smaller, and nobody starts over because of it.
    """
    left: set[TaskId] = set()
    now = dict(counts)
    for task, lesson in lessons.items():
        now[lesson.worker] += 1
        if holders.get(task) in now:
            now[holders[task]] -= 1
    for task in sorted(lessons, key=lambda task: (lessons[task].progress, task)):
        owner, worker = holders.get(task), lessons[task].worker
        if owner is not None and now.get(owner, share) < share < now[worker]:
            now[owner] += 1
            now[worker] -= 1
            left.add(task)
    return frozenset(left)


def is_ready(lesson: Lesson, limits: Limits) -> bool:
    return lesson.progress >= limits.ready_from


def is_in_vain(lesson: Lesson, round: LearnerRound, limits: Limits) -> bool:  # noqa: A002
    """Whether it has failed, or taken too long."""
    over = lesson.failed or round.now_ms - lesson.since_ms >= limits.longest_ms
    return over and not is_ready(lesson, limits)


def by_worker(pairs: Iterable[tuple[TaskId, WorkerId]]) -> dict[WorkerId, Tasks]:
    """Tasks with their workers, by worker."""
    tasks: defaultdict[WorkerId, list[TaskId]] = defaultdict(list)
    for task, worker in pairs:
        tasks[worker].append(task)
    return {worker: frozenset(tasks[worker]) for worker in sorted(tasks)}


def count_by_worker(lessons: Collection[Lesson]) -> dict[WorkerId, int]:
    counts: defaultdict[WorkerId, int] = defaultdict(int)
    for lesson in lessons:
        counts[lesson.worker] += 1
    return counts
