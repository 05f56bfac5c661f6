"""Which workers have free slots while tasks wait elsewhere, and which start nothing any more."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

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
from airflow_provider.protocol.model import NO_TASKS, MemberId, TaskId, Tasks, WorkerId
from airflow_provider.records import TaskState, TaskStatus, WorkerStatus


def drained(members: Mapping[WorkerId, MemberId], workers: Mapping[WorkerId, WorkerStatus]) -> frozenset[WorkerId]:
    """The members that drain, by their own records. Records of other processes with the same name do not count."""
    return frozenset(
        worker
        for worker, member_id in members.items()
        if (said := workers.get(worker)) is not None and said.member_id == member_id and said.drains
    )


def nobody_stays(record: GroupRecord, workers: Mapping[WorkerId, WorkerStatus]) -> bool:
    """Whether all members leave soon or drain: then nobody gets new tasks."""
    if not record.leaving_soon:
        return False  # if all drain, nothing is gained by moving tasks
    draining = drained(record.members, workers)
    away = record.leaving_soon if draining >= record.members.keys() else record.leaving_soon | draining
    return away >= record.members.keys()


def spare_capacity(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> str | None:
    """The reason for a rebalance, if it would fill a free slot, or take tasks from a draining worker that will never
    start them. Such a round moves only waiting tasks.

    Of the workers that stay, the one with the fewest tasks gets some first. Its slots are in its own record. Tasks with
    state are counted as the assignor counts them, as if they were already spread: a round for tasks that are still
    being learned would change nothing.

    There is no reason while another round follows anyway (tasks are being revoked, or a delay is running): its result
    is not known yet, and a round right after one that revoked moves nothing.

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

    def wait(taken: Shares) -> bool:
        return all(_surely_wait(tasks, worker, left[worker], jobs, status) for worker, tasks in taken.items())

    sooner: Shares = {}
    if by_cost:
        beside = {worker: costs.taken_by(minus(tasks, apart)) + excess.loads[worker] for worker, tasks in left.items()}
        of_cost = {worker: tasks & by_cost for worker, tasks in left.items()}
        sooner = _ends_sooner(of_cost, costs.beside(beside), dry)
    elif dry:
        sooner = _misplaced(record, excess, stateful, rank, left, dry)
    if sooner and wait(sooner):
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
    return FREE_SLOT if any(taken.values()) and wait(taken) else None


def _ends_sooner(left: Shares, costs: Costs, dry: Container[WorkerId]) -> Shares:
    """The waiting tasks that would end sooner on a worker with a free slot.

    :param left: the tasks that are shared out by cost
    :param dry: the workers with free slots
    """
    pool = CostPool(left, {}, NO_TASKS, costs)
    taken = pool.relieve({})
    return taken if any(worker in dry for worker in pool.place(NO_TASKS.union(*taken.values()))) else {}


def _weights(members: Container[WorkerId], workers: Mapping[WorkerId, WorkerStatus]) -> Weights:
    """A bridge counts as many times as it has workers."""
    return {BRIDGE: _slots(workers.get(BRIDGE))} if BRIDGE in members else {}


def _of_stateful(record: GroupRecord, stateful: Tasks, left: Shares) -> Excess:
    """The tasks with state, which are spread first, as if all learned ones had already moved."""
    share, extras = divmod(len(stateful), len(left))
    learned = NO_TASKS.union(*record.learning.values())
    to_come = {worker: record.learning.get(worker, NO_TASKS) & stateful for worker in left}
    loads = {worker: len(tasks & stateful - learned) + len(to_come[worker]) for worker, tasks in left.items()}
    return Excess(share=share, extras=extras, loads=loads)


def _misplaced(
    record: GroupRecord,
    excess: Excess,
    stateful: Tasks,
    rank: Mapping[TaskId, int],
    left: Shares,
    dry: Iterable[WorkerId],
) -> Shares:
    """The waiting tasks with state that would start on a worker with a free slot; see :meth:`Excess.misplaced`."""
    idle = (stateful - rank.keys()).difference(*record.learning.values())
    waiting = {worker: tasks & idle for worker, tasks in left.items()}
    beside = {worker: len(minus(tasks, stateful)) for worker, tasks in left.items()}
    return excess.misplaced(waiting, beside, dry)


def _beyond_one(left: Shares, jobs: JobsSnapshot) -> Mapping[WorkerId, int]:
    """How many slots the tasks of each worker want beyond one per task."""
    if not jobs.has_large:
        return {}
    return {worker: sum(jobs.slots_of(task) - 1 for task in tasks) for worker, tasks in left.items()}


def _slots(worker: WorkerStatus | None) -> int:
    """The slots of a worker; one if it has not written them."""
    return worker.slots if worker else 1


def _surely_wait(tasks: Tasks, worker: WorkerId, left: Tasks, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether some of a worker's tasks certainly wait: the worker has written so, or it has more tasks than free slots.

    Nothing is written about tasks that wait for their first start, or are about to start.
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
    """Whether a task waits for several slots, so that no other task starts before it."""
    waits_for_slots = said.retry_at_ms is None and said.claim is None
    return waits_for_slots and min(jobs.slots_of(said.task), slots) > free
