"""What a round decides before it balances: what is removed, lost, handed over to learners, or back at its owner.

This is KIP-415's comparison and its rule of lost work, applied to what is left after tasks were handed over and taken
back.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.learners.model import LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.learners.under_way import HandOver, Lessons, hand_over, lessons_of
from airflow_provider.assignment.policy import Policy
from airflow_provider.assignment.shares import Shares, all_of, grouped, merged, minus, plus
from airflow_provider.values.model import NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(cooperative_assignor.Settled):
    """Who keeps what, before anything is balanced.

    :param hand_over: the tasks that are handed over or taken back, which are in none of the others
    :param at_once: what members start whatever their shares are: what is warm there, or half warm, or their own and
        being learned; and what goes elsewhere
    :param lessons: the lessons of all other tasks
    """

    hand_over: HandOver
    at_once: Shares
    lessons: Lessons


def settle(
    round: LearnerRound,  # noqa: A002  # KIP-415's term
    memory: LearnerMemory,
    policy: Policy,
    limits: Limits,
) -> Settled:
    """Decide everything that does not depend on shares."""
    difference = cooperative_assignor.compare(round, memory.cooperative)
    lessons = lessons_of(round, memory)
    handing = hand_over(round, memory, limits, lessons, created=difference.created, lost=difference.lost)
    warm = merged((handing.handed, handing.taken_back))
    settled = cooperative_assignor.settle(
        round, memory.cooperative, difference.without(all_of(warm)), max_delay_ms=policy.max_delay_ms, warm=warm
    )
    goes, own = settled.elsewhere, settled.own
    handed = plus(all_of(handing.handed), goes.tasks)
    rest = {task: lesson for task, lesson in lessons.items() if task not in handed}
    free = settled.free
    half_warm = {task: lesson.worker for task, lesson in rest.items() if task in free and not lesson.failed}
    learned = frozenset(rest)
    had = merged((own, handing.taken_back))
    its_own = frozenset(task for task, lesson in rest.items() if task in had.get(lesson.worker, NO_TASKS))
    own_and_learned = {worker: tasks & learned for worker, tasks in own.items()}
    return Settled(
        difference=settled.difference,
        hand_over=handing,
        elsewhere=goes,
        drains=settled.drains.with_more(handing.taken_back).with_finishing(round.finished_by_leaving(settled.kept)),
        lost_work=settled.lost_work,
        kept=settled.kept,
        at_once=merged((warm, grouped(half_warm.items()), own_and_learned, goes.at_once)),
        own={worker: minus(tasks, learned) for worker, tasks in own.items()},
        free=minus(free, frozenset(half_warm)),
        lessons={task: lesson for task, lesson in rest.items() if task not in half_warm and task not in its_own},
    )
