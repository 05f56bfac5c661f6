"""Whose slots are free while tasks wait elsewhere, and who fills no slot any more."""

from __future__ import annotations

from collections.abc import Container, Mapping

from airflow_provider.assignors.balance import Pool, choose
from airflow_provider.assignors.by_cost import CostPool
from airflow_provider.assignors.costs import NO_COSTS, Costs
from airflow_provider.assignors.record import GroupRecord
from airflow_provider.assignors.shares import Shares, merged, minus, plus
from airflow_provider.assignors.weights import Weights, split
from airflow_provider.leading.causes import FREE_SLOT, WAITS_AT_DRAINING
from airflow_provider.learners.lessons import Excess
from airflow_provider.ledger.costs import costs_of
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import configured, revocation_rank
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ledger.task_places import effective_status
from airflow_provider.protocol.bridge import BRIDGE
from airflow_provider.protocol.model import NO_TASKS, MemberId, Tasks, WorkerId
from airflow_provider.records import TaskState, TaskStatus, WorkerStatus


def drained(members: Mapping[WorkerId, MemberId], workers: Mapping[WorkerId, WorkerStatus]) -> frozenset[WorkerId]:
    """Which members start nothing more, and leave when what they run has finished: so they say themselves. What
    another process has said under the same name does not count.
    """
    return frozenset(
        worker
        for worker, member_id in members.items()
        if (said := workers.get(worker)) is not None and said.member_id == member_id and said.drains
    )


def nobody_stays(record: GroupRecord, workers: Mapping[WorkerId, WorkerStatus]) -> bool:
    """Whether all leave as soon as they have nothing, or drain: then nothing new is given to anybody."""
    if not record.leaving_soon:
        return False  # where all drain, each is as any other
    draining = drained(record.members, workers)
    away = record.leaving_soon if draining >= record.members.keys() else record.leaving_soon | draining
    return away >= record.members.keys()


def spare_capacity(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> str | None:
    """Why to rebalance, where that would fill a free slot, or take from a worker that drains what it will never start.
    Such a round takes only tasks that wait.

    Of those that stay, the worker that has the fewest tasks is the first to be given some. What its slots are it says
    itself. Tasks with state are counted as the assignor counts them, as if they were spread already: a round for what
    is still being learned would change nothing.

    Not while another round is to follow anyway (tasks are being revoked, a delay runs): what it brings is not known
    yet, and a round right after one that revoked moves nothing.

    :param wall_ms: now, milliseconds since 1970
    :returns: the reason; None: there is none
    """
    record = status.group
    if record is None or record.revokes or record.delay_ms or record.deadline_ms:
        return None
    unfinished = frozenset(task for task in configured(jobs, status.tasks) if not task.is_planner)
    rank = revocation_rank(status.tasks)
    draining = drained(record.members, status.workers)
    owned = {worker: record.owned_by(worker) & unfinished for worker in record.members}
    left = {worker: tasks for worker, tasks in owned.items() if worker not in draining | record.leaving_soon}
    left = split(left, _weights(left, status.workers), kept=unfinished)
    kept = NO_TASKS.union(*(owned[worker] for worker in draining)).difference(*record.learning.values())
    if left and not kept <= rank.keys():
        return WAITS_AT_DRAINING
    if not left:
        return None
    stateful = unfinished & NO_TASKS.union(*record.learning.values())
    if record.learns:
        stateful |= {task for task in unfinished - kept if task.job in jobs.stateful}
    large = _beyond_one(left, jobs)
    free = {worker: _slots(status.workers.get(worker)) - large.get(worker, 0) for worker in left}
    dry = {worker for worker, tasks in left.items() if len(tasks) < free[worker]}
    costs = costs_of(jobs, status, unfinished, wall_ms=wall_ms) if dry else NO_COSTS
    by_cost = NO_TASKS if stateful else costs.among(unfinished)
    apart = plus(stateful, by_cost)
    excess = _of_stateful(record, stateful, left)
    if by_cost:
        beside = {worker: costs.taken_by(minus(tasks, apart)) + excess.loads[worker] for worker, tasks in left.items()}
        of_cost = {worker: tasks & by_cost for worker, tasks in left.items()}
        sooner = _ends_sooner(of_cost, costs.beside(beside), dry)
        if sooner and all(_surely_wait(tasks, worker, left[worker], jobs, status) for worker, tasks in sooner.items()):
            return FREE_SLOT
    stops = excess.stops()
    running = {worker: minus(tasks, apart) & rank.keys() for worker, tasks in left.items()}
    waiting = {worker: minus(minus(tasks, apart), running[worker]) for worker, tasks in left.items()}
    fixed = {worker: number + len(running[worker]) for worker, number in excess.even(stops).items()}
    loads = {
        worker: len(minus(tasks, apart)) + len(tasks & by_cost & rank.keys()) + excess.loads[worker]
        for worker, tasks in left.items()
    }
    fewest = min(loads.values())
    if not any(load == fewest < free[worker] for worker, load in loads.items()):
        return None
    idle = {worker: choose(left[worker] & stateful - rank.keys(), number, {}) for worker, number in stops.items()}
    taken = merged((Pool(len(unfinished - kept - by_cost), waiting, {}, fixed).relieve({}), idle))
    wait = all(_surely_wait(tasks, worker, left[worker], jobs, status) for worker, tasks in taken.items())
    return FREE_SLOT if any(taken.values()) and wait else None


def _ends_sooner(left: Shares, costs: Costs, dry: Container[WorkerId]) -> Shares:
    """What waits and would end sooner elsewhere, if some of it would on a worker that has a slot free.

    :param left: what is shared out by what it costs
    :param dry: the workers that have
    """
    pool = CostPool(left, {}, NO_TASKS, costs)
    taken = pool.relieve({})
    return taken if any(worker in dry for worker in pool.place(NO_TASKS.union(*taken.values()))) else {}


def _weights(members: Container[WorkerId], workers: Mapping[WorkerId, WorkerStatus]) -> Weights:
    """A bridge has as many slots as it stands for workers."""
    return {BRIDGE: _slots(workers.get(BRIDGE))} if BRIDGE in members else {}


def _of_stateful(record: GroupRecord, stateful: Tasks, left: Shares) -> Excess:
    """What is spread first, as if all that is learned had moved."""
    share, extras = divmod(len(stateful), len(left))
    learned = NO_TASKS.union(*record.learning.values())
    to_come = {worker: record.learning.get(worker, NO_TASKS) & stateful for worker in left}
    loads = {worker: len(tasks & stateful - learned) + len(to_come[worker]) for worker, tasks in left.items()}
    return Excess(share=share, extras=extras, loads=loads)


def _beyond_one(left: Shares, jobs: JobsSnapshot) -> Mapping[WorkerId, int]:
    """How many slots the tasks of each worker want beside one for each."""
    if not jobs.has_large:
        return {}
    return {worker: sum(jobs.slots_of(task) - 1 for task in tasks) for worker, tasks in left.items()}


def _slots(worker: WorkerStatus | None) -> int:
    """One at least, if it has not said."""
    return worker.slots if worker else 1


def _surely_wait(tasks: Tasks, worker: WorkerId, left: Tasks, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether some of what a worker has left to do waits: the worker says so, or it has other tasks for its free slots.

    It says nothing of what waits for its first start, and of what is about to start nothing yet.
    """
    said = {task for task in left if (last := status.tasks.get(task)) and last.state is TaskState.PENDING}
    now = {task: last.state for task in left if (last := effective_status(task, jobs, status))}
    silent = {task for task in left - said if now.get(task) is TaskState.PENDING}
    if not tasks <= said | silent:
        return False
    record = status.workers.get(worker)
    if record is None:
        free = len(left)
    else:
        free = record.slots - sum(jobs.slots_of(task) for task, state in now.items() if state is TaskState.RUNNING)
        if jobs.has_large and any(_holds_up(status.tasks[task], jobs, record.slots, free) for task in said):
            free = 0
    return len(tasks & silent) <= max(0, len(silent) - max(0, free))


def _holds_up(said: TaskStatus, jobs: JobsSnapshot, slots: int, free: int) -> bool:
    """Whether a task waits for more slots than are free, and nothing else begins before it."""
    waits_for_slots = said.retry_at_ms is None and said.claim is None
    return waits_for_slots and min(jobs.slots_of(said.task), slots) > free
