"""Lost work: how long it waits for its worker, and who gets it then.

If nothing is known of the worker, one delay counts for all, as in Kafka Connect's ``handleLostAssignments``. Otherwise
each worker is treated by what is known: one that has returned gets its own tasks, one that never will is not waited
for, and one that has said when it will return is waited for until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.shares import Shares, grouped
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWork:
    """What happens to the lost work in this round.

    :param delay_ms: how long some of it waits at least; 0: nothing waits
    :param deadline_ms: when the delay for workers of which nothing is known ends, wall clock; 0: none runs
    :param candidates: workers that had no tasks while that delay ran, so may be lost ones that have returned
    :param own: what workers that have returned get back, by worker, as far as it is within their shares. Those that
        drain, or leave soon, get nothing
    :param as_new: what goes to the workers that have the least
    :param waiting: what nobody gets yet, by the worker that had it
    :param awaited: until when (wall clock) work waits for workers that have said when they will return
    :param waited: whether a delay ended in this round
    """

    delay_ms: int = 0
    deadline_ms: int = 0
    candidates: tuple[WorkerId, ...] = ()
    own: Shares = field(default_factory=dict)
    as_new: Tasks = NO_TASKS
    waiting: Shares = field(default_factory=dict)
    awaited: Mapping[WorkerId, int] = field(default_factory=dict)
    waited: bool = False


def judge(
    lost: Mapping[TaskId, WorkerId],
    kept: Shares,
    memory: Memory,
    round: Round,  # noqa: A002  # KIP-415's term
    *,
    max_delay_ms: int,
) -> LostWork:
    """Decide about the lost work.

    :param lost: each lost task and the worker that had it
    :param kept: what each member keeps in this round
    """
    shares = grouped(lost.items())
    back = {worker: tasks for worker, tasks in shares.items() if worker in kept and worker in round.named}
    ends = {
        worker: end_ms
        for worker in sorted(shares.keys() - kept.keys())
        if (end_ms := _end_ms(worker, memory, round, max_delay_ms)) is not None
    }
    awaited = {worker: end_ms for worker, end_ms in ends.items() if end_ms > round.now_ms}
    unknown = {worker: tasks for worker, tasks in shares.items() if worker not in back and worker not in ends}
    missed = bool(memory.members - kept.keys() - ends.keys())
    lost_work = _of_unknown_workers(
        unknown, kept, memory, missed=missed, now_ms=round.now_ms, max_delay_ms=max_delay_ms
    )
    delays = filter(None, (lost_work.delay_ms, *(end_ms - round.now_ms for end_ms in awaited.values())))
    returned = {**lost_work.own, **back}
    own = round.of_staying(returned)
    at_once = [shares[worker] for worker in ends.keys() - awaited.keys()]
    return replace(
        lost_work,
        delay_ms=min(delays, default=0),
        own=own,
        as_new=lost_work.as_new.union(*at_once, *(returned[worker] for worker in returned.keys() - own.keys())),
        waiting={**lost_work.waiting, **{worker: shares[worker] for worker in awaited}},
        awaited=awaited,
    )


def _end_ms(worker: WorkerId, memory: Memory, round: Round, max_delay_ms: int) -> int | None:  # noqa: A002
    """Until when (wall clock) the tasks of an absent worker wait for it; None: nothing is known of it.

    The time to return that the worker has recorded counts from the round that misses it. If nothing was known by that
    round, the common delay applies. Later news only count if they shorten the wait: the worker has said since that it
    never returns, or returns sooner.
    """
    absence = round.absent.get(worker)
    at_most_ms = None if absence is None else absence.at_most_ms
    if at_most_ms == 0:
        return round.now_ms
    latest_ms = round.now_ms + (max_delay_ms if at_most_ms is None else min(at_most_ms, max_delay_ms))
    if worker in memory.awaited:
        return min(memory.awaited[worker], latest_ms)
    if at_most_ms is None or (worker not in memory.members and latest_ms >= memory.deadline_ms):
        return None
    return latest_ms


def _of_unknown_workers(
    lost: Shares, kept: Shares, memory: Memory, *, missed: bool, now_ms: int, max_delay_ms: int
) -> LostWork:
    """Apply KIP-415's rule to the lost work of workers of which nothing is known.

    If the running delay is one of module ``pace``, after rounds that revoked, lost work waits for its end in the same
    way, and no longer.

    :param missed: whether a member of the last round, of which nothing is known, is not in this one
    """
    runs = memory.deadline_ms > 0
    nothing_to_wait_for = not lost and not memory.revoked_in_previous
    no_reason_to_start = not runs and (not lost or not missed)
    if max_delay_ms == 0 or nothing_to_wait_for or no_reason_to_start:
        return LostWork(as_new=NO_TASKS.union(*lost.values()))
    if runs and now_ms >= memory.deadline_ms:
        return _after_delay(lost, [worker for worker in memory.candidates if worker in kept])
    delay_ms = min(memory.deadline_ms - now_ms, max_delay_ms) if runs else max_delay_ms
    empty = sorted(worker for worker, tasks in kept.items() if not tasks)
    return LostWork(
        delay_ms=delay_ms,
        deadline_ms=now_ms + delay_ms,
        candidates=tuple(dict.fromkeys((*memory.candidates, *empty))),
        waiting=lost,
    )


def _after_delay(lost: Shares, candidates: Sequence[WorkerId]) -> LostWork:
    """Give each candidate its own, and the rest to the workers that have the least, which candidates mostly are."""
    return LostWork(
        own={worker: lost.get(worker, NO_TASKS) for worker in candidates},
        as_new=NO_TASKS.union(*(tasks for worker, tasks in lost.items() if worker not in candidates)),
        waited=True,
    )
