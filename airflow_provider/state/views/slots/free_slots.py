"""Which workers have free slots while tasks wait elsewhere, and which start nothing any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider.assignment.balancing.pools import Kinds, Pools, SharedWork
from airflow_provider.assignment.balancing.portions import portions, uneven
from airflow_provider.assignment.costs import NO_COSTS
from airflow_provider.assignment.draining import Draining
from airflow_provider.assignment.learners.excess import Excess
from airflow_provider.assignment.learners.model import that_end
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.shares import Numbers, Shares, merged, minus, plus
from airflow_provider.state.records import TaskState, TaskStatus, WorkerStatus
from airflow_provider.state.records.status_topic.worker_absence import may_not_be_started
from airflow_provider.state.rounds.causes import FREE_SLOT, OTHER_SLOTS, WAITS_AT_DRAINING, WAITS_AT_LEAVING
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.costs import costs_of, slots_of
from airflow_provider.state.views.slots.learned_jobs import learned_jobs
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured, revocation_rank
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import NO_GENERATION, NO_TASKS, MemberId, Tasks, WorkerId


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


def spare_capacity(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int, pinned: Tasks = NO_TASKS) -> str | None:
    """The reason for a rebalance, if it would fill a free slot, or take tasks from a draining worker that will never
    start them, or from one that leaves soon and would stay for another attempt. Such a round moves only waiting tasks.

    What it would move, and where to, is asked of the assignor itself. Slots are in the workers' own records.
    Tasks with state are counted as the assignor counts them, as if they were already spread: a round for tasks that are
    still being learned would change nothing. If nobody learns one yet, a round in which a lesson begins helps what
    waits behind its task.

    There is no reason while another round follows anyway (tasks are being revoked, or a delay is running): its result
    is not known yet, and a round right after one that revoked moves nothing.

    :param wall_ms: now, milliseconds since 1970
    :param pinned: tasks that do not move, though they may wait
    :returns: the reason; None: there is none
    """
    record = status.group
    if record is None or record.revokes or record.delay_ms or record.deadline_ms:
        return None
    unfinished = frozenset(task for task in configured(jobs, status.tasks) if not task.is_planner)
    members, workers = record.members, status.workers
    draining = drained(members, workers) | may_not_be_started(members, workers, wall_ms=wall_ms)
    owned = {worker: record.owned_by(worker) & unfinished for worker in record.members}
    left = {worker: tasks for worker, tasks in owned.items() if worker not in draining | record.leaving_soon}
    if not left:
        return None
    rank = revocation_rank(status.tasks)
    of_draining = NO_TASKS.union(*(owned[worker] for worker in draining)).difference(*record.learning.values())
    if not of_draining <= rank.keys():
        return WAITS_AT_DRAINING
    of_leaving = NO_TASKS.union(*(owned[worker] for worker in record.leaving_soon & owned.keys()))
    of_leaving = of_leaving.difference(*record.learning.values())
    if any(_is_to_be_tried_again(status.tasks.get(task)) for task in of_leaving):
        return WAITS_AT_LEAVING
    finished_there = that_end(of_leaving, rank)
    theirs = unfinished - of_draining - finished_there
    staying = _Staying(record, jobs, status, left, unfinished, theirs, wall_ms=wall_ms, pinned=pinned)
    helps = any(map(staying.surely_wait, staying.moves())) or staying.lesson_makes_room()
    return FREE_SLOT if helps else None


def other_slots(status: StatusSnapshot) -> str | None:
    """The reason for a rebalance, if slots differ from those by which the last round has shared out the work: its
    leader had not read them yet, or a worker is back with others.

    :returns: the reason; None: there is none, or another round follows anyway
    """
    record = status.group
    if not isinstance(record, ClassicRecord) or record.revokes or record.deadline_ms:
        return None
    slots = slots_of(status)
    known = {worker: slots[worker] for worker in record.members if slots.get(worker)}
    equal = not (record.slots or uneven(known, known))
    return None if equal or known.items() <= record.slots.items() else OTHER_SLOTS


class _Staying:
    """The workers that stay, and their tasks as the assignor shares them out: those with state, those of known cost,
    and the others by number.

    :param left: the tasks of each worker
    :param unfinished: all tasks of the group
    :param theirs: those that these workers share, with what nobody has yet
    """

    def __init__(
        self,
        record: GroupRecord,
        jobs: JobsSnapshot,
        status: StatusSnapshot,
        left: Shares,
        unfinished: Tasks,
        theirs: Tasks,
        *,
        wall_ms: int,
        pinned: Tasks,
    ) -> None:
        self._record = record
        self._jobs = jobs
        self._status = status
        self._left = left
        self._capacity = _capacity(left, jobs, status)
        self._free = {worker for worker, tasks in left.items() if len(tasks) < self._capacity[worker]}
        self._started = plus(frozenset(revocation_rank(status.tasks)), pinned)
        self._theirs = theirs
        learned = NO_TASKS.union(*record.learning.values())
        has_state = learned & unfinished
        if record.learns:
            stateful_jobs = learned_jobs(jobs, status)
            has_state |= {task for task in unfinished if task.job in stateful_jobs}
        self._stateful = stateful = theirs & has_state
        costs = costs_of(jobs, status, unfinished, wall_ms=wall_ms, pinned=pinned) if self._free else NO_COSTS
        stands_for = {BRIDGE: _slots(status.workers.get(BRIDGE))} if BRIDGE in left else {}
        self._costs = replace(costs, stands_for=stands_for)
        self._excess = _of_stateful(record, stateful, left, slots_of(status))
        idle = stateful - self._started - learned
        self._idle = {worker: tasks & idle for worker, tasks in left.items()}

    def moves(self) -> Iterator[Shares]:
        """What a round may take from each worker to fill a free slot."""
        if not self._free:
            return
        idle: Shares = {}
        if self._stateful:
            beside = {worker: len(minus(tasks, self._stateful)) for worker, tasks in self._left.items()}
            yield self._excess.misplaced(self._idle, beside, self._free)
            idle = self._excess.idle(self._idle)
        gets_idle = self._excess.takers(idle)
        _, by_number, *others = self._pools().of_each
        taken = by_number.relieve({})
        if self._free & {*by_number.place(NO_TASKS.union(*taken.values())), *gets_idle}:
            yield merged((taken, idle))
        for pool in others:
            taken = pool.relieve({})
            if not self._free.isdisjoint(pool.place(NO_TASKS.union(*taken.values()))):
                yield taken

    def lesson_makes_room(self) -> bool:
        """Whether a worker with a free slot would begin to learn a task while others surely wait: behind it or not, as
        they are shared out as if those with state were spread already.

        Not while something is learned, as each end of a lesson makes a round. Nor if a lesson has failed, or somebody
        is to leave soon: then a round might begin none.
        """
        record, excess = self._record, self._excess
        if not (record.learns and self._stateful and self._free) or record.leaving_soon:
            return False
        if any(record.learning.values()) or any(record.given_up.values()):
            return False
        gives = any(number > len(self._idle[worker]) for worker, number in excess.stops(self._idle).items())
        if not gives or excess.least not in self._free:
            return False
        waiting = {worker: minus(tasks, self._started) for worker, tasks in self._left.items()}
        return any(self.surely_wait({worker: tasks}) for worker, tasks in waiting.items())

    def surely_wait(self, taken: Shares) -> bool:
        """Whether there are such tasks, and all of them certainly wait where they are."""
        return any(taken.values()) and all(
            _surely_wait(tasks, worker, self._left[worker], self._jobs, self._status) for worker, tasks in taken.items()
        )

    def _pools(self) -> Pools:
        """The pools of a round in which only waiting tasks move."""
        known = Round(
            now_ms=0,
            generation=NO_GENERATION,
            last_completed=NO_GENERATION,
            configured=self._theirs,
            owned=self._left,
            stays=self._started,
            costs=self._costs,
        )
        kinds = Kinds.of(known, self._stateful)
        stateless = {worker: minus(tasks, self._stateful) for worker, tasks in self._left.items()}
        even = self._excess.even(self._excess.stops(self._idle))
        drains = Draining(runs={}, waits={})
        return SharedWork(known, kinds, drains, stateless, {}, NO_TASKS, beside=even).pools(Memory())


def _of_stateful(record: GroupRecord, stateful: Tasks, left: Shares, slots: Numbers) -> Excess:
    """The tasks with state, which are spread first, as if all learned ones had already moved."""
    learned = NO_TASKS.union(*record.learning.values())
    to_come = {worker: record.learning.get(worker, NO_TASKS) & stateful for worker in left}
    loads = {worker: len(tasks & stateful - learned) + len(to_come[worker]) for worker, tasks in left.items()}
    return Excess(may_have=portions(len(stateful), left, slots), loads=loads)


def _capacity(left: Shares, jobs: JobsSnapshot, status: StatusSnapshot) -> dict[WorkerId, int]:
    """How many tasks each worker can run at the same time, as some of its tasks take several of its slots."""

    def beyond_one(tasks: Tasks) -> int:
        return sum(jobs.slots_of(task) - 1 for task in tasks) if jobs.has_large else 0

    return {worker: _slots(status.workers.get(worker)) - beyond_one(tasks) for worker, tasks in left.items()}


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


def _is_to_be_tried_again(said: TaskStatus | None) -> bool:
    """Whether a task has failed, and waits for its next attempt."""
    return said is not None and said.state is TaskState.PENDING and said.retry_at_ms is not None


def _holds_up(said: TaskStatus, jobs: JobsSnapshot, slots: int, free: int) -> bool:
    """Whether a task waits for several slots, so that no other task starts before it."""
    waits_for_slots = said.retry_at_ms is None and said.claim is None
    return waits_for_slots and min(jobs.slots_of(said.task), slots) > free
