"""The assignors of one process: what they report about its worker, and what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.group.declarative.assignors.client_assignor import WorkerFacts
from airflow_provider.group.declarative.member.computing import assigned_by, described, group_of, installed, target_of
from airflow_provider.group.declarative.member.events import (
    AssignmentComputed,
    AssignorsChanged,
    ComputeAssignment,
    DelaySet,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import HeartbeatAssignment
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.live.declarative.worker_assignors import absent_from
from airflow_provider.state.records.status_topic.worker_absence import may_not_be_started
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId

if TYPE_CHECKING:
    from simulation.declarative.process import Process

FAILED = 1


class Offers:
    """As in ``group.worker_assignors``, but without its topics.

    :ivar leaving: why the worker leaves, once it does
    :ivar failing: whether its assignor raises
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self.leaving: LeaveReason | None = None
        self.failing = False

    def said(self) -> tuple[Assignor, ...]:
        process = self._process
        facts = WorkerFacts(
            url=process.worker, slots=4, leaving=self.leaving, delay_over_ms=process.state.delay_passed_ms
        )
        return described(process.world.assignors, facts)

    def say_what_is_new(self) -> None:
        said, process = self.said(), self._process
        if said != process.state.assignors:
            process.feed(lambda: AssignorsChanged(now_ms=process.now, assignors=said))

    def on_assignment(self, assignment: HeartbeatAssignment) -> None:
        process = self._process
        asked = [one.on_assignment(target_of(assignment)) for one in process.world.assignors]
        over_ms = min((at_ms for at_ms in asked if at_ms is not None), default=0)

        def event() -> DelaySet:
            if not over_ms:
                return DelaySet(now_ms=process.now)
            over_at_ms = process.now + max(0, over_ms - process.wall)
            return DelaySet(now_ms=process.now, over_at_ms=over_at_ms, over_ms=over_ms)

        process.feed(event)

    def compute(self, command: ComputeAssignment) -> None:
        process = self._process
        process.world.clock.after(process.rng.randint(0, 100), lambda: process.feed(lambda: self._computed(command)))

    def _computed(self, command: ComputeAssignment) -> AssignmentComputed:
        process, prepared = self._process, command.prepared
        epoch = prepared.group_epoch
        if self.failing:
            return AssignmentComputed(now_ms=process.now, seq=command.seq, group_epoch=epoch, error=FAILED)
        records, named = process.world.records, {WorkerId(one.instance_id) for one in prepared.members}
        process.world.checks.computes(epoch, records)
        group = group_of(
            prepared,
            computing=process.member_id,
            now_ms=process.wall,
            revocation_rank={},
            absent=absent_from(prepared, StatusSnapshot(workers=records)),
            held_back=may_not_be_started(named, records, wall_ms=process.wall),
        )
        assignment = assigned_by(process.world.assignors, prepared.assignor_name, group)
        return AssignmentComputed(
            now_ms=process.now,
            seq=command.seq,
            group_epoch=epoch,
            error=assignment.error,
            members=installed(assignment.members),
            delayed=installed(assignment.delayed),
        )
