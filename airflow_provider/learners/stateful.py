"""The stateful tasks of a round: a kind of its own, spread evenly over the workers that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.assignors.balance import Pool, choose
from airflow_provider.assignors.model import Move
from airflow_provider.assignors.shares import Shares, merged, minus, plus
from airflow_provider.learners.lessons import Excess, begin
from airflow_provider.learners.model import MOST_GIVEN_UP, LearnerMemory, LearnerRound, Limits
from airflow_provider.learners.settled import Settled, all_of, of_staying
from airflow_provider.learners.under_way import Further, by_worker, count_by_worker, further
from airflow_provider.protocol.model import NO_TASKS, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stateful:
    """The stateful tasks, as far as they are settled.

    :param tasks: all that are configured
    :param further: what is learned further
    :param excess: what is above the shares of those who stay
    :param shares: what each of these will have when all that is learned by now has been handed over
    :param given: what of the rest starts
    :param running: what each member runs or takes back, of what nobody learns, and may yet be learned
    :param idle: what each worker above its share gives up of what it has not started
    :param stops: how many of its running tasks each would have to give up beside that
    """

    tasks: Tasks
    further: Further
    excess: Excess
    shares: Shares
    given: Shares
    running: Shares
    idle: Shares
    stops: Mapping[WorkerId, int]


def spread(round: LearnerRound, memory: LearnerMemory, limits: Limits, settled: Settled) -> Stateful:  # noqa: A002
    """Give what is free to those who have the least, and count what is above the shares."""
    tasks = frozenset([task for task in round.configured if round.has_state(task)]) if round.stateful else NO_TASKS
    held = {
        worker: plus(kept, settled.at_once.get(worker, NO_TASKS)) & tasks if tasks else NO_TASKS
        for worker, kept in settled.kept.items()
    }
    staying = of_staying(held, round)
    kept = settled.drains.kept & tasks
    counts = {worker: len(has) for worker, has in staying.items()}
    share = len(tasks - (kept - settled.lessons.keys())) // max(1, len(staying))
    on = further(round, limits, settled.lessons, held, share=share, counts=counts)
    learned = frozenset(on.lessons)
    total = len(tasks - (kept - learned))
    share, extras = divmod(total, max(1, len(staying)))
    to_come = by_worker((task, lesson.worker) for task, lesson in on.lessons.items())
    shares = {worker: plus(minus(has, learned), to_come.get(worker, NO_TASKS)) for worker, has in staying.items()}
    given = _given(settled, shares, tasks, total) if shares and tasks else {}
    shares = {worker: plus(has, given.get(worker, NO_TASKS)) for worker, has in shares.items()}
    excess = Excess(share=share, extras=extras, loads={worker: len(has) for worker, has in shares.items()})
    stops = {} if settled.lost_work.waiting else excess.stops()
    idle = {
        worker: frozenset(choose(waiting, number, {}))
        for worker, number in stops.items()
        if number and (waiting := settled.kept[worker] & round.pending & shares[worker])
    }
    left_alone = plus(round.pending, learned)
    stays = plus(left_alone, _not_worth_a_try(all_of(given_up(round, memory, on)), tasks))
    return Stateful(
        tasks=tasks,
        further=on,
        excess=excess,
        shares=shares,
        given=given,
        running={
            worker: minus(has, left_alone if worker in round.leaving_soon else stays) for worker, has in held.items()
        },
        idle=idle,
        stops={worker: number - len(idle.get(worker, NO_TASKS)) for worker, number in stops.items()},
    )


def begin_lessons(
    round: LearnerRound,  # noqa: A002
    limits: Limits,
    stateful: Stateful,
    stops: Mapping[WorkerId, int],
) -> tuple[Move, ...]:
    """What is learned from this round on.

    :param stops: how many running tasks each worker gives up for balance now
    """
    if not stateful.tasks or not stateful.shares:
        return ()
    return begin(
        limits,
        stateful.excess,
        shares=stateful.shares,
        busy=count_by_worker(stateful.further.lessons.values()),
        deserted={
            worker: tasks for worker, tasks in stateful.running.items() if worker in round.leaving_soon and tasks
        },
        candidates=of_staying(stateful.running, round),
        stops=stops,
    )


def given_up(round: LearnerRound, memory: LearnerMemory, on: Further) -> Shares:  # noqa: A002
    """What has been learned in vain, now or before, by learner.

    It is not tried elsewhere: whether the worker is at fault or the job is not known, the task runs, and to try all
    workers would take a round for each. Once a worker comes or goes, or the job is submitted anew, it may be tried
    again.
    """
    same = memory.cooperative.members == round.owned.keys()
    now = by_worker((task, lesson.worker) for task, lesson in on.given_up.items())
    before = {
        worker: left
        for worker, tasks in (memory.given_up.items() if same else ())
        if (left := frozenset(task for task in tasks if task in round.configured and task.job not in round.renewed))
    }
    return merged((before, now))


def _not_worth_a_try(in_vain: Tasks, tasks: Tasks) -> Tasks:
    """These, and all tasks of the jobs of which these are many."""
    if not in_vain:
        return NO_TASKS
    hopeless = {job for job, number in Counter(task.job for task in in_vain).items() if number >= MOST_GIVEN_UP}
    return plus(in_vain, frozenset(task for task in tasks if task.job in hopeless)) if hopeless else in_vain


def _given(settled: Settled, shares: Shares, tasks: Tasks, total: int) -> Shares:
    pool = Pool(total, shares, {worker: own & tasks for worker, own in settled.own.items()})
    return merged((pool.returned, pool.place(settled.free & tasks)))
