"""The assignors of one member of a declarative group: what they tell about its worker, and what they compute."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.group.declarative.assignors.client_assignor import (
    Assignment,
    ClientSideAssignor,
    Group,
    WorkerFacts,
)
from airflow_provider.group.declarative.member.computing import (
    as_prepared,
    assigned_by,
    described,
    group_of,
    installed,
    target_of,
)
from airflow_provider.group.declarative.member.events import AssignmentComputed, ComputeAssignment, DelaySet
from airflow_provider.group.declarative.member.recording import record_of
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberTarget
from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupPrepareAssignmentResponse,
    HeartbeatAssignment,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.event_loops.off_loop import off_loop
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.blame.tried_elsewhere import better_places, tried_elsewhere
from airflow_provider.state.records.status_topic.worker_absence import may_not_be_started, written_absences
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.slots.costs import costs_of
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import revocation_rank
from airflow_provider.values.model import NO_TASKS, ConfigOffset, Epoch, MemberId, Tasks, WorkerId

log: Final = logging.getLogger(__name__)

_ASK_AGAIN_MS: Final = 3_000
_FAILED: Final = 1
"""The error to install when an assignor raises: all members keep what they have."""


def absent_from(prepared: ConnectGroupPrepareAssignmentResponse, status: StatusSnapshot) -> dict[MemberId, Absence]:
    """What former members have written of their absence that they can have told no coordinator: their last heartbeat
    may have been lost, and a worker that waits for Airflow sends none. The coordinator knows what they told it before.
    """
    names = {said.member_id: name for name, said in status.workers.items()}
    gone = {
        one.member_id: WorkerId(one.instance_id) if one.instance_id else names.get(one.member_id, WorkerId(""))
        for one in prepared.departed
    }
    written = {name: said for name, said in status.workers.items() if said.left is not None or said.awaits is not None}
    return written_absences(
        gone, written, since=Epoch(prepared.group_epoch) if status.group is None else status.group.epoch
    )


class WorkerAssignors:
    """The assignors of one worker.

    :param assignors: the preferred one first
    :param slots: how many tasks the worker runs at the same time
    :ivar returns_ms: in how many milliseconds at most it returns if its process ends; None: not known
    """

    def __init__(
        self,
        assignors: tuple[ClientSideAssignor, ...],
        topics: GroupTopics,
        *,
        worker: WorkerId,
        member_id: MemberId,
        url: str,
        slots: int,
        returns_ms: int | None,
    ) -> None:
        self._assignors: Final = assignors
        self._topics: Final = topics
        self._worker: Final = worker
        self._member_id: Final = member_id
        self._url: Final = url
        self._slots: Final = slots
        self.returns_ms: Final = returns_ms
        self._known_misplaced = NO_TASKS
        self._misplaced_at_ms = 0
        self._asked_after: Epoch | None = None

    def said(self, delay_over_ms: int) -> tuple[Assignor, ...]:
        """What the assignors tell the coordinator now.

        It is taken from the worker's own record, once this membership has written it, and before that from what the
        record will say: any change causes another assignment. The time to return is taken from the record only when the
        worker leaves: a triggerer, which does not know it, repeats what was said before.

        :param delay_over_ms: when the last delay ended after which an assignor wanted another assignment; 0: none has
        """
        said = self._topics.status.workers.get(self._worker)
        mine = said if said is not None and said.member_id == self._member_id else None
        facts = WorkerFacts(
            url=self._url,
            slots=self._slots if mine is None else mine.slots,
            returns_ms=self.returns_ms if mine is None or mine.left is None else mine.returns_ms,
            leaving=None if mine is None else mine.left or (LeaveReason.DRAINED if mine.drains else None),
            unfit_at_ms=self._when_misplaced(),
            delay_over_ms=delay_over_ms,
        )
        return described(self._assignors, facts)

    def _when_misplaced(self) -> int:
        """When it was last found that tasks should be elsewhere. It stays the same when they have moved: any change
        causes another assignment. If they stay, whoever computed had not read of them yet.
        """
        misplaced, at_ms = self._unfit() | self._wait_in_vain(), wall_ms()
        if not misplaced <= self._known_misplaced or (misplaced and at_ms - self._misplaced_at_ms >= _ASK_AGAIN_MS):
            self._misplaced_at_ms = at_ms
        self._known_misplaced = misplaced
        return self._misplaced_at_ms

    def _unfit(self) -> Tasks:
        status = self._topics.status
        if status.group is None or not self._assignors:
            return NO_TASKS
        mine = status.group.owned_by(self._worker)
        if not any((last := status.tasks.get(task)) and last.failed_on and not last.state.final for task in mine):
            return NO_TASKS
        return mine & better_places(self._topics.jobs, status, wall_ms=wall_ms()).keys()

    def _wait_in_vain(self) -> Tasks:
        """The tasks that wait, in the last target, for a worker that has written that it will not return. The one that
        computed that target had not read this yet, and asks for the next: once, as the record of the next may not come.
        """
        record = self._topics.status.group
        if not isinstance(record, DeclarativeRecord) or not record.waits or record.leader != self._worker:
            return NO_TASKS
        workers = self._topics.status.workers
        left = {name: said.left for name, said in workers.items() if name in record.waits}
        in_vain = NO_TASKS.union(*(record.waits[name] for name in left if Absence(left=left[name]).at_most_ms == 0))
        if not in_vain or record.epoch == self._asked_after:
            return NO_TASKS
        self._asked_after = record.epoch
        return in_vain

    def on_assignment(self, assignment: HeartbeatAssignment) -> DelaySet:
        """Tell all assignors, as no answer says which one the group uses; the others can't read its bytes."""
        target = target_of(assignment)
        over_ms = self._asks_at_ms(target)
        if not over_ms:
            return DelaySet(now_ms=now_ms())
        return DelaySet(now_ms=now_ms(), over_at_ms=now_ms() + max(0, over_ms - wall_ms()), over_ms=over_ms)

    async def compute(self, command: ComputeAssignment) -> AssignmentComputed:
        """Run the selected assignor, in a thread if there is much to assign. If it fails, return an error."""
        prepared, assignors = command.prepared, self._assignors
        jobs, status = self._topics.jobs, self._topics.status
        at_ms = wall_ms()

        def assign() -> AssignmentComputed:
            last = status.group
            known = status if last is None else replace(status, group=as_prepared(last, prepared))
            rank, tried = revocation_rank(status.tasks), tried_elsewhere(jobs, known, wall_ms=at_ms)
            named = {WorkerId(one.instance_id) for one in prepared.members if one.instance_id}
            costs = costs_of(jobs, status, tasks_of(prepared.connectors_tasks), wall_ms=at_ms, pinned=tried.pinned)
            group = group_of(
                prepared,
                computing=self._member_id,
                now_ms=at_ms,
                revocation_rank=rank,
                costs=costs,
                tried=tried,
                absent=absent_from(prepared, status),
                held_back=may_not_be_started(named, status.workers, wall_ms=at_ms),
            )
            assignment = assigned_by(assignors, prepared.assignor_name, group)
            record = (
                None if assignment.error else self._record(group, assignment, prepared.group_epoch, jobs.offset, status)
            )
            return AssignmentComputed(
                now_ms=now_ms(),
                seq=command.seq,
                group_epoch=prepared.group_epoch,
                error=assignment.error,
                members=installed(assignment.members),
                delayed=installed(assignment.delayed),
                record=record,
            )

        try:
            return await off_loop(assign, tasks=sum(len(part.tasks) for part in prepared.connectors_tasks))
        except Exception:
            log.exception("worker %s: the assignor %r has failed", self._worker, prepared.assignor_name)
            return AssignmentComputed(now_ms=now_ms(), seq=command.seq, group_epoch=prepared.group_epoch, error=_FAILED)

    def _asks_at_ms(self, target: MemberTarget) -> int:
        """When this member has to ask for another assignment (wall clock); 0: it need not."""
        return min((at_ms for one in self._assignors if (at_ms := one.on_assignment(target)) is not None), default=0)

    def _record(
        self, group: Group, assignment: Assignment, epoch: GroupEpoch, offset: ConfigOffset, status: StatusSnapshot
    ) -> DeclarativeRecord:
        had = NO_TASKS.union(*(one.target.tasks for one in group.members.values()))
        return record_of(
            group,
            assignment,
            epoch=epoch,
            config_offset=offset,
            asks_at_ms=self._asks_at_ms(assignment.members[self._member_id]),
            before=status.group,
            done=frozenset(
                task for task in had - group.configured if (last := status.tasks.get(task)) and last.state.final
            ),
        )
