"""The stateful tasks of a round, a kind of their own, spread in proportion to slots over the workers that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider.assignment.balancing.balance import Pool
from airflow_provider.assignment.balancing.portions import Portions, portions
from airflow_provider.assignment.learners.excess import Excess
from airflow_provider.assignment.learners.model import MOST_GIVEN_UP, LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.learners.settled import Settled
from airflow_provider.assignment.learners.under_way import Further, all_lessons, further, is_in_vain
from airflow_provider.assignment.shares import Numbers, Shares, all_of, grouped, merged, minus, plus
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stateful:
    """The stateful tasks, as far as they are decided.

    :param tasks: all that are configured
    :param further: the lessons that continue
    :param given_up: what nobody learns for balance any more, by the worker that could not make it ready
    :param excess: how many tasks the workers that stay have above their shares
    :param shares: what each of these will have when all present lessons have ended in a move
    :param given: what starts now
    :param running: what each member runs or has taken back, and could be learned by others, but is not yet
    :param idle: what workers above their shares give up because it has not started
    :param stops: how many running tasks each would have to give up besides
    """

    tasks: Tasks
    further: Further
    given_up: Shares
    excess: Excess
    shares: Shares
    given: Shares
    running: Shares
    idle: Shares
    stops: Numbers


def spread(round: LearnerRound, memory: LearnerMemory, limits: Limits, settled: Settled) -> Stateful:  # noqa: A002
    """Give free tasks to the workers that have the least, and count what is above the shares."""
    tasks = frozenset([task for task in round.configured if round.has_state(task)]) if round.stateful else NO_TASKS
    held = {
        worker: plus(kept, settled.at_once.get(worker, NO_TASKS)) & tasks if tasks else NO_TASKS
        for worker, kept in settled.left.items()
    }
    staying = round.of_staying(held)
    kept = settled.drains.kept & tasks
    counts = {worker: len(has) for worker, has in staying.items()}
    may_have = _portions(len(tasks - (kept - settled.lessons.keys())), staying, round)
    continued = further(round, limits, settled.lessons, held, shares=may_have.whole, counts=counts)
    learned = frozenset(continued.lessons)
    may_have = _portions(len(tasks - (kept - learned)), staying, round)
    to_come = grouped((task, lesson.worker) for task, lesson in continued.lessons.items())
    shares = {worker: plus(minus(has, learned), to_come.get(worker, NO_TASKS)) for worker, has in staying.items()}
    beside = _without_state(settled, shares, tasks)
    given = _given(settled, shares, tasks, may_have, beside) if shares and tasks else {}
    shares = {worker: plus(has, given.get(worker, NO_TASKS)) for worker, has in shares.items()}
    excess = Excess(may_have=may_have, loads={worker: len(has) for worker, has in shares.items()})
    waiting = {worker: settled.left[worker] & round.pending & has for worker, has in shares.items()}
    stops: Numbers = {}
    idle: Shares = {}
    if not settled.lost_work.waiting:
        stops, idle = excess.stops(waiting), excess.idle(waiting)
        if round.stays and tasks:  # what waits moves, and nothing else
            idle = merged((idle, excess.misplaced(waiting, beside, shares)))
    left_alone = plus(round.pending, learned)
    given_up = _given_up(round, memory, limits, continued, held)
    stays = plus(left_alone, _not_worth_a_try(all_of(given_up), tasks))
    return Stateful(
        tasks=tasks,
        further=continued,
        given_up=given_up,
        excess=excess,
        shares=shares,
        given=given,
        running={
            worker: minus(has, plus(left_alone, kept) if worker in round.leaving_soon else stays)
            for worker, has in held.items()
        },
        idle=idle,
        stops={worker: max(0, number - len(idle.get(worker, NO_TASKS))) for worker, number in stops.items()},
    )


def _given_up(
    round: LearnerRound,  # noqa: A002
    memory: LearnerMemory,
    limits: Limits,
    continued: Further,
    held: Shares,
) -> Shares:
    """The tasks whose lessons failed or took too long, now or before, by learner: even if another worker learns the
    task as well and is further, but not if the task goes to the learner all the same.

    No other worker tries them: it is not known whether the worker or the job is at fault, the task runs, and to try all
    workers would take a round for each. When a worker joins or leaves, or the job is submitted again, they may be tried
    again.

    :param held: what each member has from now on
    """
    same = memory.cooperative.members == round.owned.keys()
    now = grouped(
        (task, lesson.worker)
        for task, lesson in all_lessons(round, memory, held)
        if is_in_vain(lesson, round, limits)
        and task not in held[lesson.worker]
        and continued.lessons.get(task) != lesson
    )
    before = {
        worker: left
        for worker, tasks in (memory.given_up.items() if same else ())
        if (left := frozenset(task for task in tasks if task in round.configured and task.job not in round.renewed))
    }
    return merged((before, now))


def _not_worth_a_try(in_vain: Tasks, tasks: Tasks) -> Tasks:
    """The tasks in vain, and all tasks of jobs that have many of these."""
    if not in_vain:
        return NO_TASKS
    hopeless = {job for job, number in Counter(task.job for task in in_vain).items() if number >= MOST_GIVEN_UP}
    return plus(in_vain, frozenset(task for task in tasks if task.job in hopeless)) if hopeless else in_vain


def _portions(total: int, staying: Collection[WorkerId], round: LearnerRound) -> Portions:  # noqa: A002
    return portions(total, staying, round.costs.slots) if staying else Portions({}, {}, 0)


def _given(settled: Settled, shares: Shares, tasks: Tasks, may_have: Portions, beside: Numbers) -> Shares:
    own = {worker: own & tasks for worker, own in settled.own.items()}
    pool = Pool(may_have, shares, own, beside=beside)
    return merged((pool.returned, pool.place(settled.free & tasks)))


def _without_state(settled: Settled, shares: Shares, tasks: Tasks) -> dict[WorkerId, int]:
    """How many tasks without state each worker keeps."""
    return {
        worker: sum(not task.is_planner for task in minus(settled.left[worker], tasks)) for worker in shares if tasks
    }
