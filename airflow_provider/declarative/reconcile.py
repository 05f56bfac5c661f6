"""Reconciliation: one step of one member from where it is towards its target. A function of values, and no more.

Theory of operation
===================

A target assignment says what each member is to have. Nobody waits for everybody: whenever a member sends a heartbeat,
the coordinator takes this one step for it and answers with what it may run from then on (``assigned``).

=============  ===========================================================================================
``stable``     It has the whole target of its epoch. A newer target begins the next way.
``unrevoked``  It was answered with less than it has: it has to stop the rest, which is still held for it
               (``revoking``), until a heartbeat says what it owns and none of these tasks is among it.
``unreleased`` It has nothing left to stop, and has been assigned all of its target but what others still
               hold. With each heartbeat it gets what has been released since.
=============  ===========================================================================================

A step, in this order:

1. *Wait.* While tasks that it was asked to stop are not acknowledged, nothing changes, whatever the target says by now.
   A heartbeat that leaves out what it owns (None) acknowledges nothing. So a task that it is to have after all is first
   stopped, and then assigned anew.
2. *Revoke.* It keeps what it has of the target, and is asked to stop the rest. It is assigned nothing in that answer.
3. *Assign.* When there is nothing to stop, it gets what is in its target and nobody else holds.

So tasks are never both revoked and assigned in one answer, and a task is assigned to a member only when nobody else has
it as ``assigned`` or ``revoking``. That no two hold it follows, if ``held_by_others`` is true when it is asked.

What the caller owes: ``owned`` is what this very member, in its present epoch, owned after it had dealt with the last
answer or given it up for good. A member that could still act on an older answer may say that it does not own a task,
and start it afterwards.

The epoch of a member fences it, and an answer carries an assignment exactly when the epoch in the heartbeat is below
the target's. So a member takes the epoch of its target when it has all of it, in the step that makes it stable, and
keeps its old one till then. Should that answer get lost, it asks again with the old epoch, and is sent the assignment
again. So a newcomer may run tasks while its epoch is still 0, the one with which members join: a coordinator that does
not know such a member lets it join only if it says that it owns nothing.

Where this differs from Kafka
=============================

The steps and the sets are those of Kafka 4.3's
``org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder``. What is different:

- The epoch of an ``unreleased`` member. In Kafka that is already the target's, and when an answer carries an assignment
  needs other rules there.
- A consumer's subscriptions. Nothing corresponds to them here: a member takes any task.
- Kafka's state ``UNKNOWN``, of a record that a newer release has written: reading records refuses such a thing before.
- The assignor's metadata, which Kafka's server-side assignors do not have, and the epoch of the target that they are
  of. A member gets both with the tasks that they belong to: when it is assigned from the target, not when it has to
  stop something for it. What it keeps meanwhile the new target may give to another member, which must be the later one.
- A task that the caller says others hold is held, even if this member was asked to stop it: Kafka looks at its own
  list first. Only a coordinator that has given a task to two could tell the difference.
"""

from __future__ import annotations

from collections.abc import Container

from airflow_provider.assignors.shares import minus, plus
from airflow_provider.declarative.model import (
    AssignmentEpoch,
    CurrentAssignment,
    MemberEpoch,
    MemberState,
    MemberTarget,
)
from airflow_provider.protocol.model import TaskId, Tasks


def reconcile(
    current: CurrentAssignment,
    target: MemberTarget,
    target_epoch: AssignmentEpoch,
    *,
    owned: Tasks | None,
    held_by_others: Container[TaskId],
) -> CurrentAssignment:
    """Take one step. What does not change comes back as the very same object: then there is no record to write.

    :param current: where the member is
    :param target: what it is to have
    :param target_epoch: of the whole target assignment
    :param owned: what its heartbeat says that it owns; None: it does not say
    :param held_by_others: the tasks that are ``assigned`` or ``revoking`` at another member; asked only for those that
        this member misses
    """
    if current.is_at(target_epoch):
        return current
    if current.state is MemberState.UNREVOKED and not _has_stopped(current.revoking, owned):
        return current
    kept = current.assigned & target.tasks
    revoking = minus(current.assigned, kept)
    if revoking and not _has_stopped(revoking, owned):
        return CurrentAssignment(
            epoch=current.epoch,
            state=MemberState.UNREVOKED,
            assigned=kept,
            revoking=revoking,
            metadata=current.metadata,
            assignment_epoch=current.assignment_epoch,
        )
    return _assigned(current, kept, target, target_epoch, held_by_others)


def _assigned(
    current: CurrentAssignment,
    kept: Tasks,
    target: MemberTarget,
    target_epoch: AssignmentEpoch,
    held_by_others: Container[TaskId],
) -> CurrentAssignment:
    missing = minus(target.tasks, kept)
    released = frozenset(task for task in missing if task not in held_by_others)
    whole = len(released) == len(missing)
    following = CurrentAssignment(
        epoch=MemberEpoch(target_epoch) if whole else current.epoch,
        state=MemberState.STABLE if whole else MemberState.UNRELEASED,
        assigned=target.tasks if whole else plus(kept, released),
        metadata=target.metadata,
        assignment_epoch=target_epoch,
    )
    return current if following == current else following


def _has_stopped(tasks: Tasks, owned: Tasks | None) -> bool:
    return owned is not None and tasks.isdisjoint(owned)
