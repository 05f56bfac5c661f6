"""What is decided before anything is evened out: what is gone, what is warm somewhere, what is lost, who has its own.

It is KIP-415's comparison and its rule of lost work, after what learners take over and owners take back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider.assignors.cooperative import compare
from airflow_provider.assignors.draining import Draining, draining
from airflow_provider.assignors.lost import LostWork, judge
from airflow_provider.assignors.moves import Difference
from airflow_provider.assignors.policy import Policy
from airflow_provider.assignors.replanned import planned_again
from airflow_provider.assignors.shares import Shares, merged, minus, plus
from airflow_provider.learners.model import LearnerMemory, LearnerRound, Limits
from airflow_provider.learners.under_way import HandOver, Lessons, by_worker, hand_over, lessons_of
from airflow_provider.protocol.model import NO_TASKS, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Who has what, before anything is evened out.

    :param difference: without what was handed over
    :param drains: who runs to its end what it runs, and starts nothing
    :param kept: every member, and what it goes on with of what it owned
    :param at_once: what is started without a look at shares: it is warm there, or half warm, or its own and learned
    :param own: what else members are to get again, within their shares
    :param free: what anybody may start
    :param lessons: who learns what of the rest
    """

    difference: Difference
    hand_over: HandOver
    drains: Draining
    lost_work: LostWork
    kept: Shares
    at_once: Shares
    own: Shares
    free: Tasks
    lessons: Lessons


def settle(
    round: LearnerRound,  # noqa: A002  # it is KIP-415's word
    memory: LearnerMemory,
    policy: Policy,
    limits: Limits,
) -> Settled:
    """Settle a round as far as no shares are needed."""
    difference = compare(round, memory.cooperative)
    lessons = lessons_of(round, memory)
    handing = hand_over(round, memory, limits, lessons, created=difference.created, lost=difference.lost)
    warm = merged((handing.handed, handing.taken_back))
    gone = all_of(warm)
    difference = replace(
        difference,
        created=minus(difference.created, gone),
        lost={task: worker for task, worker in difference.lost.items() if task not in gone},
    )
    stopped = difference.stopped
    kept = {worker: minus(round.owned[worker], stopped) for worker in sorted(round.owned)}
    held = {worker: plus(tasks, warm.get(worker, NO_TASKS)) for worker, tasks in kept.items()}
    lost_work = judge(difference.lost, held, memory.cooperative, round, max_delay_ms=policy.max_delay_ms)
    lost_work = _only_for_staying(round, lost_work)
    again = of_staying(planned_again(difference.created, round, memory.cooperative), round)
    free = plus(minus(difference.created, all_of(again)), lost_work.as_new)
    handed = all_of(handing.handed)
    rest = {task: lesson for task, lesson in lessons.items() if task not in handed}
    half_warm = {task: lesson.worker for task, lesson in rest.items() if task in free and not lesson.failed}
    own, learned = merged((lost_work.own, again)), frozenset(rest)
    had = merged((own, handing.taken_back))
    its_own = frozenset(task for task, lesson in rest.items() if task in had.get(lesson.worker, NO_TASKS))
    own_and_learned = {worker: tasks & learned for worker, tasks in own.items()}
    return Settled(
        difference=difference,
        hand_over=handing,
        drains=draining(round, kept),
        lost_work=lost_work,
        kept=kept,
        at_once=merged((warm, by_worker(half_warm.items()), own_and_learned)),
        own={worker: minus(tasks, learned) for worker, tasks in own.items()},
        free=minus(free, frozenset(half_warm)),
        lessons={task: lesson for task, lesson in rest.items() if task not in half_warm and task not in its_own},
    )


def of_staying(shares: Shares, round: LearnerRound) -> Shares:  # noqa: A002
    """Those of the workers that can be given something."""
    staying = round.staying
    return {worker: tasks for worker, tasks in shares.items() if worker in staying}


def all_of(shares: Shares) -> Tasks:
    """The tasks of all workers together."""
    return NO_TASKS.union(*shares.values())


def _only_for_staying(round: LearnerRound, lost_work: LostWork) -> LostWork:  # noqa: A002
    """What somebody else would get again goes to the worker that has the least."""
    own = of_staying(lost_work.own, round)
    if len(own) == len(lost_work.own):
        return lost_work
    return replace(lost_work, own=own, as_new=plus(lost_work.as_new, minus(all_of(lost_work.own), all_of(own))))
