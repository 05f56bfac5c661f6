"""Lost work: how long it waits for its worker, and who gets it then.

Source: Kafka Connect's ``handleLostAssignments``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider.membership.assignors.model import Memory
from airflow_provider.membership.assignors.spread import deal
from airflow_provider.membership.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of the lost work in this round.

    :param delay_ms: how much longer it waits; 0: no delay runs
    :param deadline_ms: when the delay is over, wall clock; 0: none runs
    :param candidates: who was empty while the delay ran
    :param to_candidates: goes to workers that came back, by worker
    :param as_new: goes to whoever has the least
    :param waited: whether a delay ended in this round
    """

    delay_ms: int = 0
    deadline_ms: int = 0
    candidates: tuple[WorkerId, ...] = ()
    to_candidates: Mapping[WorkerId, Tasks] = field(default_factory=dict)
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
        return _after_delay(lost, kept, [worker for worker in memory.candidates if worker in kept])
    delay_ms = min(memory.deadline_ms - now_ms, max_delay_ms) if runs else max_delay_ms
    empty = sorted(worker for worker, tasks in kept.items() if not tasks)
    return Verdict(
        delay_ms=delay_ms,
        deadline_ms=now_ms + delay_ms,
        candidates=tuple(dict.fromkeys((*memory.candidates, *empty))),
    )


def _after_delay(
    lost: Mapping[TaskId, WorkerId], kept: Mapping[WorkerId, Tasks], candidates: Sequence[WorkerId]
) -> Verdict:
    if not candidates:
        return Verdict(as_new=frozenset(lost), waited=True)
    to_candidates: dict[WorkerId, list[TaskId]] = {worker: [] for worker in candidates}
    planners = {task: owner for task, owner in lost.items() if task.is_planner}
    tasks = {task: owner for task, owner in lost.items() if not task.is_planner}
    for kind in (planners, tasks):
        for worker, hand in _give_back(kind, kept, candidates).items():
            to_candidates[worker] += hand
    return Verdict(to_candidates={worker: frozenset(hand) for worker, hand in to_candidates.items()}, waited=True)


def _give_back(
    lost: Mapping[TaskId, WorkerId], kept: Mapping[WorkerId, Tasks], candidates: Sequence[WorkerId]
) -> dict[WorkerId, list[TaskId]]:
    """Share lost work among the candidates in equal numbers, to each what was its own as far as that goes.

    Where the numbers can't be equal, those get one more who lost the most, then those who came first.
    """
    own: dict[WorkerId, list[TaskId]] = {worker: [] for worker in candidates}
    for task in sorted(lost):
        if lost[task] in own:
            own[lost[task]].append(task)
    share, extras = divmod(len(lost), len(candidates))
    by_claim = sorted(candidates, key=lambda worker: -len(own[worker]))
    quota = {worker: share + (position < extras) for position, worker in enumerate(by_claim)}
    back = {worker: own[worker][: quota[worker]] for worker in candidates}
    rest = lost.keys() - {task for hand in back.values() for task in hand}
    room = {worker: len(back[worker]) - quota[worker] for worker in candidates}
    held = {worker: kept[worker].union(back[worker]) for worker in candidates}
    for worker, hand in deal(rest, room, held).items():
        back[worker] += hand
    return back
