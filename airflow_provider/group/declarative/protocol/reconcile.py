"""Reconciliation: takes one step of one member towards its target. This is a pure function.

Theory of operation
===================

A target assignment says what each member is to have. Members need not wait for each other: whenever one sends a
heartbeat, the coordinator takes this step for it, and answers with the tasks that it may run from then on
(``assigned``).

=============  ===========================================================================================
``stable``     The member has the whole target of its epoch, until there is a newer target.
``unrevoked``  It was answered with less than it has, and has to stop the rest (``revoking``). These tasks
               stay held for it until a heartbeat says what it owns, and none of them is in it.
``unreleased`` It has nothing left to stop, and was assigned all of its target except what others hold. With
               each heartbeat it gets the tasks that were released in the meantime.
=============  ===========================================================================================

A step does this, in this order:

1. *Wait.* While revoked tasks are not acknowledged, nothing changes, even if the target has changed. A heartbeat that
   leaves out what the member owns (None) acknowledges nothing. So if a revoked task comes back into the target, it is
   first stopped, and then assigned again.
2. *Revoke.* The member keeps the tasks that are in its target, and is asked to stop the others. This answer assigns
   nothing new.
3. *Assign.* If there is nothing to stop, it gets the tasks of its target that no other member holds.

So no answer both revokes and assigns tasks, and a task is assigned to a member only if no other member has it as
``assigned`` or ``revoking``. It follows that no two members hold a task, if ``held_by_others`` is up to date.

The caller must make sure that ``owned`` is what this member, in its present epoch, owned after it had carried out the
last answer, or had given it up for good. Otherwise a member could say that it does not own a task, and then start it
because of an older answer.

The epoch of a member fences it, and an answer contains an assignment exactly if the epoch in the heartbeat is below
the target's. So a member takes its target's epoch only in the step that makes it stable. If that answer is lost, the
next heartbeat still has the old epoch, and the assignment is sent again. It also means that a new member may run tasks
while its epoch is still 0, with which members join. So a coordinator that does not know such a member lets it join only
if it says that it owns nothing.

Differences from Kafka
======================

The steps and the sets are those of Kafka 4.3's
``org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder``. These are different:

- The epoch of an ``unreleased`` member. In Kafka it is already the target's, so Kafka needs other rules for when an
  answer contains an assignment.
- A consumer's subscriptions have no counterpart here: a member takes any task.
- Kafka's state ``UNKNOWN``, of a record that a newer release has written, does not exist: reading the record fails.
- The assignor's metadata, which Kafka's server side assignors do not have, and the epoch of the target. A member gets
  both when it is assigned tasks from the target, not when it has to stop tasks for it. Until then its records keep the
  earlier epoch, because the new target may give the tasks that it still has to another member, whose records must win.
- A task that others hold according to the caller is held, even if this member was asked to stop it. Kafka looks at the
  member's own list first. This only makes a difference if a coordinator has given a task to two members.
"""

from __future__ import annotations

from collections.abc import Container

from airflow_provider.assignment.shares import minus, plus
from airflow_provider.group.declarative.protocol.model import (
    AssignmentEpoch,
    CurrentAssignment,
    MemberEpoch,
    MemberState,
    MemberTarget,
)
from airflow_provider.values.model import TaskId, Tasks


def reconcile(
    current: CurrentAssignment,
    target: MemberTarget,
    target_epoch: AssignmentEpoch,
    *,
    owned: Tasks | None,
    held_by_others: Container[TaskId],
) -> CurrentAssignment:
    """Take one step. If nothing changes, ``current`` itself is returned, and no record need be written.

    :param current: the member's current assignment
    :param target: the member's target
    :param target_epoch: the epoch of the target assignment
    :param owned: the tasks that the member owns according to its heartbeat; None: it does not say
    :param held_by_others: the tasks that are ``assigned`` or ``revoking`` at other members. Only tasks that this member
        does not have are looked up
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
