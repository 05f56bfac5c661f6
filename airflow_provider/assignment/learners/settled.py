"""What a round decides before it balances: what is removed, lost, handed over to learners, or back at its owner.

This is KIP-415's comparison and its rule of lost work, applied to what is left after tasks were handed over and taken
back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider.assignment.cooperative import compare
from airflow_provider.assignment.draining import Draining, draining
from airflow_provider.assignment.learners.model import LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.learners.under_way import HandOver, Lessons, hand_over, lessons_of
from airflow_provider.assignment.lost import LostWork, judge
from airflow_provider.assignment.moving.elsewhere import Elsewhere, elsewhere
from airflow_provider.assignment.moving.moves import Difference
from airflow_provider.assignment.policy import Policy
from airflow_provider.assignment.replanned import planned_again
from airflow_provider.assignment.shares import Shares, grouped, merged, minus, plus
from airflow_provider.values.model import NO_TASKS, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Who keeps what, before anything is balanced.

    :param difference: without tasks that were handed over or taken back, or go elsewhere
    :param elsewhere: what goes to a certain worker, because it has failed where it was
    :param drains: workers that finish what they run, and start nothing
    :param kept: what each member keeps of what it owned
    :param at_once: what members start whatever their shares are: what is warm there, or half warm, or their own and
        being learned; and what goes elsewhere
    :param own: what else members get back, within their shares
    :param free: what any worker may start
    :param lessons: the lessons of all other tasks
    """

    difference: Difference
    hand_over: HandOver
    elsewhere: Elsewhere
    drains: Draining
    lost_work: LostWork
    kept: Shares
    at_once: Shares
    own: Shares
    free: Tasks
    lessons: Lessons

    @property
    def left(self) -> Shares:
        """What each member keeps without what goes elsewhere."""
        return self.elsewhere.left_of(self.kept)


def settle(
    round: LearnerRound,  # noqa: A002  # KIP-415's term
    memory: LearnerMemory,
    policy: Policy,
    limits: Limits,
) -> Settled:
    """Decide everything that does not depend on shares."""
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
    goes = elsewhere(round, kept, (*difference.created, *difference.lost) if round.tried.places else ())
    difference = goes.beyond(difference)
    held = {worker: plus(tasks, warm.get(worker, NO_TASKS)) for worker, tasks in kept.items()}
    lost_work = judge(difference.lost, held, memory.cooperative, round, max_delay_ms=policy.max_delay_ms)
    lost_work = _only_for_staying(round, lost_work)
    again = of_staying(planned_again(difference.created, round, memory.cooperative), round)
    free = plus(minus(difference.created, all_of(again)), lost_work.as_new)
    handed = plus(all_of(handing.handed), goes.tasks)
    rest = {task: lesson for task, lesson in lessons.items() if task not in handed}
    half_warm = {task: lesson.worker for task, lesson in rest.items() if task in free and not lesson.failed}
    own, learned = merged((lost_work.own, again)), frozenset(rest)
    had = merged((own, handing.taken_back))
    its_own = frozenset(task for task, lesson in rest.items() if task in had.get(lesson.worker, NO_TASKS))
    own_and_learned = {worker: tasks & learned for worker, tasks in own.items()}
    return Settled(
        difference=difference,
        hand_over=handing,
        elsewhere=goes,
        drains=draining(round, kept).with_more(handing.taken_back),
        lost_work=lost_work,
        kept=kept,
        at_once=merged((warm, grouped(half_warm.items()), own_and_learned, goes.at_once)),
        own={worker: minus(tasks, learned) for worker, tasks in own.items()},
        free=minus(free, frozenset(half_warm)),
        lessons={task: lesson for task, lesson in rest.items() if task not in half_warm and task not in its_own},
    )


def of_staying(shares: Shares, round: LearnerRound) -> Shares:  # noqa: A002
    """The shares of the workers that can get tasks."""
    staying = round.staying
    return {worker: tasks for worker, tasks in shares.items() if worker in staying}


def all_of(shares: Shares) -> Tasks:
    """The tasks of all workers together."""
    return NO_TASKS.union(*shares.values())


def _only_for_staying(round: LearnerRound, lost_work: LostWork) -> LostWork:  # noqa: A002
    """Give what workers that leave or drain would get back to the workers that have the least instead."""
    own = of_staying(lost_work.own, round)
    if len(own) == len(lost_work.own):
        return lost_work
    return replace(lost_work, own=own, as_new=plus(lost_work.as_new, minus(all_of(lost_work.own), all_of(own))))
