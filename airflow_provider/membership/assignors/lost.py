"""Lost work: how long it waits for its worker, and who gets it then.

Source: Kafka Connect's ``handleLostAssignments``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider.membership.assignors.model import Memory
from airflow_provider.membership.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of the lost work in this round.

    :param delay_ms: how much longer it waits; 0: no delay runs
    :param deadline_ms: when the delay is over, wall clock; 0: none runs
    :param candidates: who was empty while the delay ran
    :param own: what workers that came back get again, by worker, as far as it is within their shares
    :param as_new: goes to whoever has the least
    :param waited: whether a delay ended in this round
    """

    delay_ms: int = 0
    deadline_ms: int = 0
    candidates: tuple[WorkerId, ...] = ()
    own: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    as_new: Tasks = NO_TASKS
    waited: bool = False


def judge(
    lost: Mapping[TaskId, WorkerId], kept: Mapping[WorkerId, Tasks], memory: Memory, *, now_ms: int, max_delay_ms: int
) -> Verdict:
    """Decide about the lost work.

    The delay that runs may be one of module ``pace``, after rounds that revoked: it is waited for in the same way, and
    lost work waits no longer than it does.

    :param lost: each lost task and the worker that had it
    :param kept: every member and what it keeps in this round
    """
    runs = memory.deadline_ms > 0
    nobody_is_missed = memory.members <= kept.keys()
    nothing_to_wait_for = not lost and not memory.revoked_in_previous
    no_reason_to_start = not runs and (not lost or nobody_is_missed)
    if max_delay_ms == 0 or nothing_to_wait_for or no_reason_to_start:
        return Verdict(as_new=frozenset(lost))
    if runs and now_ms >= memory.deadline_ms:
        return _after_delay(lost, [worker for worker in memory.candidates if worker in kept])
    delay_ms = min(memory.deadline_ms - now_ms, max_delay_ms) if runs else max_delay_ms
    empty = sorted(worker for worker, tasks in kept.items() if not tasks)
    return Verdict(
        delay_ms=delay_ms,
        deadline_ms=now_ms + delay_ms,
        candidates=tuple(dict.fromkeys((*memory.candidates, *empty))),
    )


def _after_delay(lost: Mapping[TaskId, WorkerId], candidates: Sequence[WorkerId]) -> Verdict:
    """To each candidate its own; the rest to whoever has the least, which candidates mostly have."""
    own: dict[WorkerId, set[TaskId]] = {worker: set() for worker in candidates}
    rest: set[TaskId] = set()
    for task, worker in lost.items():
        own.get(worker, rest).add(task)
    return Verdict(own={worker: frozenset(tasks) for worker, tasks in own.items()}, as_new=frozenset(rest), waited=True)
