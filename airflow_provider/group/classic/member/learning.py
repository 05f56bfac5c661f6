"""How a member takes part in learning: tasks are warmed up on their new worker before they move (from version 3).

An assignment says what a member learns, and which of its tasks others learn. A member that has become ready for a task
joins again, so that the leader can let the task move. If its owner knows of that before it joins the round, it stops
the task first (:class:`~airflow_provider.values.group_protocol.learned_rule.LearnedRule`); then it moves in one round.
"""

from __future__ import annotations

from airflow_provider.group.classic.member.events import (
    LearnersReady,
    LearningProgressed,
    LeaveSoonRequested,
    MayLeave,
    StartLearning,
    StopLearning,
)
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.classic.member.transition import Transition
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment
from airflow_provider.values.model import NO_TASKS, Tasks


def adopt_target(member: Transition, assignment: ExtensibleAssignment) -> None:
    """Own what the target has. It is complete, so a member that returns to a stable group needs nothing else.

    Tasks that a member has released since it joined are still in the target. They have ended, or the next round moves
    them.
    """
    state = member.state
    assert assignment.target is not None  # the leader could assign
    member.own(assignment.target.tasks() - state.just_released, assignment.revoked.tasks())
    learn(member, assignment.learning.tasks(), assignment.learned.tasks())
    if assignment.shutdown and member.state.leaving_soon is not None and not member.state.owned:
        member.do(MayLeave())


def learn(member: Transition, learning: Tasks, learned: Tasks) -> None:
    """Learn exactly the tasks in ``learning``, while others learn those in ``learned``."""
    state = member.state
    learning = learning - state.owned
    before = state.lessons.learning
    if dropped := before - learning - state.owned:
        member.do(StopLearning(tasks=dropped))
    if new := learning - before:
        member.do(StartLearning(tasks=new))
    member.set(lessons=state.lessons.next(learning, learned & state.owned))


def learn_nothing(member: Transition) -> None:
    """Learn nothing: the group uses an older protocol, or this member is to leave it."""
    learn(member, NO_TASKS, NO_TASKS)


def on_learning_progressed(member: Transition, event: LearningProgressed) -> None:
    """Join again if a task is ready, so that it can move, or has failed, so that another one can be learned."""
    state = member.state
    ready_from = state.settings.ready_from
    before, now = state.lessons, state.lessons.heard(event.progress, event.failed)
    member.set(lessons=now)
    if now_ready := now.ready(ready_from) - before.ready(ready_from):
        member.want_join(f"{state.settings.worker} is ready for {', '.join(map(str, sorted(now_ready)))}")
    if now_failed := now.failed - before.failed:
        member.want_join(f"{state.settings.worker} could not make ready {', '.join(map(str, sorted(now_failed)))}")


def on_learners_ready(member: Transition, event: LearnersReady) -> None:
    """Note it for when this member joins next; the learner makes the group rebalance."""
    member.set(lessons=member.state.lessons.knowing(event.tasks))


def on_leave_soon_requested(member: Transition, event: LeaveSoonRequested) -> None:
    """Tell the group in another round, or report that this member may leave now."""
    member.set(leaving_soon=event.reason)
    if member.state.owned or not _hears_of_no_round(member):
        member.want_join(_leaves_soon(member))
    else:
        may_leave(member)


def leave_unheard(member: Transition) -> None:
    """Join another round if the group may not know that this member leaves soon.

    A member that returns to a stable group may be answered with its last round (KIP-814), whose leader did not know it.
    """
    if member.state.leaving_soon is not None and member.state.owned:
        member.set(rejoin_reason=member.state.rejoin_reason or _leaves_soon(member))
    else:
        may_leave(member)


def _leaves_soon(member: Transition) -> str:
    return f"{member.state.settings.worker} leaves soon: {member.state.leaving_soon}"


def may_leave(member: Transition) -> None:
    """Report that this member may leave, if it wants to leave soon and has nothing left.

    Not while it joins: it may have stopped a task only for a learner, and get it back. The assignment tells.
    """
    if member.state.leaving_soon is not None and not member.state.owned and _hears_of_no_round(member):
        member.do(MayLeave())


def _hears_of_no_round(member: Transition) -> bool:
    return member.state.phase is Phase.STABLE and member.state.rejoin_reason is None
