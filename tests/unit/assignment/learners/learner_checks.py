"""What must hold for a single round with learner tasks, whatever has happened before."""

from __future__ import annotations

from learner_group import started, stopped

from airflow_provider.assignment.learners.model import READY, LearnerAssignment, LearnerRound, Limits
from airflow_provider.assignment.model import BEGINS_AGAIN_RANK, MoveReason
from airflow_provider.values.model import NO_TASKS

LIMITS = Limits(per_worker=3, per_group=8)


def check_ownership(this: LearnerRound, outcome: LearnerAssignment) -> None:
    """Nothing is ever owned twice: what is started, nobody had; what somebody else has, is not started."""
    owned = [task for tasks in this.owned.values() for task in tasks]
    everything = [task for tasks in outcome.target.values() for task in tasks]
    assert len(everything) == len(set(everything))
    assert set(everything) <= this.configured
    assert not started(outcome) & set(owned)
    for worker, tasks in this.owned.items():
        assert outcome.revoked[worker] <= tasks
        assert outcome.target[worker] == (tasks - outcome.revoked[worker]) | outcome.assigned[worker]
    if not outcome.delay_ms and this.staying:
        assert this.configured <= set(everything) | stopped(outcome)


def check_lessons(this: LearnerRound, outcome: LearnerAssignment) -> None:
    lessons = [task for tasks in outcome.learning.values() for task in tasks]
    assert len(lessons) == len(set(lessons)) <= LIMITS.per_group
    assert all(map(this.has_state, lessons))
    for worker, tasks in outcome.learning.items():
        held = NO_TASKS.union(*(outcome.target[owner] for owner in outcome.target if owner not in this.leaving_soon))
        pending_or_ready = this.pending | {task for task, far in this.learning[worker].items() if far == READY}
        assert not tasks & this.failed.get(worker, NO_TASKS) & held - pending_or_ready, "its place is another's"
        assert not tasks & outcome.target[worker]
        assert len(tasks) <= max(LIMITS.per_worker, len(this.learning[worker])), "none begins beyond the limit"
    for worker, tasks in outcome.learned.items():
        assert tasks == outcome.target[worker] & set(lessons)
    begun = NO_TASKS.union(*(move.tasks for move in outcome.lessons if move.source not in this.leaving_soon))
    for worker, tasks in this.failed.items():
        in_vain = {task for task in tasks & this.configured if this.learning[worker][task] < LIMITS.ready_from}
        in_vain -= this.owned[worker] | outcome.target[worker] | outcome.learning[worker]
        assert not in_vain & begun, "nobody tries it"
        assert in_vain <= outcome.memory.given_up.get(worker, NO_TASKS)
    assert not this.pending & NO_TASKS.union(*(move.tasks for move in outcome.lessons))
    assert outcome.memory.since_ms.keys() == {worker for worker, tasks in outcome.learning.items() if tasks}


def check_stops(this: LearnerRound, outcome: LearnerAssignment) -> None:
    """Nothing that has state stops before another worker is ready, and who is ready has what nobody else has."""
    ready = {task for worker in this.staying for task, progress in this.learning[worker].items() if progress == READY}
    for move in outcome.moves:
        stateful = frozenset(task for task in move.tasks if this.has_state(task)) - this.pending
        if move.target is None and move.reason is MoveReason.LEARNED and move.source not in this.leaving_soon:
            assert stateful <= ready
        elif move.target is None and move.reason is not MoveReason.LEARNED:
            assert not stateful or move.reason in {MoveReason.DELETED, MoveReason.DUPLICATE}
    unowned = this.configured - NO_TASKS.union(*this.owned.values())
    assert frozenset(task for task in unowned & ready if this.has_state(task)) <= started(outcome)


def check_who_leaves(this: LearnerRound, outcome: LearnerAssignment) -> None:
    """Who leaves or drains gets nothing but what it has stopped for a learner's sake."""
    back = {move.target for move in outcome.moves if move.reason is MoveReason.NOT_READY}
    owned = [task for tasks in this.owned.values() for task in tasks]
    for worker in this.owned.keys() - this.staying:
        assert not outcome.learning[worker]
        assert not outcome.assigned[worker] or worker in back
    learned = {task for lessons in this.learning.values() for task in lessons}
    begun = NO_TASKS.union(*(move.tasks for move in outcome.lessons))
    for worker in this.leaving_soon & this.owned.keys() if this.staying else ():
        runs = {task for task in this.owned[worker] if this.revocation_rank.get(task) == BEGINS_AGAIN_RANK}
        ends = {task for task in runs if not task.is_planner}
        superfluous = {task for task in ends if task not in this.configured or owned.count(task) > 1}
        assert not ends & begun
        assert not ends & outcome.revoked[worker] - learned - superfluous, "a batch task finishes where it runs"
    for worker in this.leaving_soon & this.owned.keys():
        assert (worker in outcome.shutdown) is (not this.owned[worker] and not outcome.target[worker])
