"""Checks the rules whenever something happens that could break them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simulation.declarative import invariants
from simulation.declarative.candidate import Candidate
from simulation.declarative.shard_topics import KeyAndValue

from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.protocol.wire.record_values import ConnectWorkerGroupCurrentMemberAssignmentKey
from airflow_provider.group.declarative.protocol.wire.records import decode_record
from airflow_provider.state.records import WorkerStatus
from airflow_provider.values.model import Epoch, TaskId, WorkerId

if TYPE_CHECKING:
    from simulation.declarative.process import Process
    from simulation.declarative.world import World


def everything(group: GroupState) -> dict[str, Any]:
    """The whole state of a group, to compare it."""
    return {slot: getattr(group, slot) for slot in GroupState.__slots__}


class Checks:
    """The history of a world.

    :ivar group: its state by the committed records
    :ivar targets: how many have been installed
    :ivar read: the records from which each target was computed, by its epoch
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.group = GroupState("g")
        self.targets = 0
        self._holders: defaultdict[TaskId, list[Process]] = defaultdict(list)
        self._last: dict[TaskId, tuple[str, Epoch]] = {}
        self.read: dict[int, Mapping[WorkerId, WorkerStatus]] = {}

    # ---- tasks

    def started(self, process: Process, task: TaskId, epoch: Epoch) -> None:
        invariants.a_task_moves_with_a_higher_epoch(task, process.worker, epoch, self._last.get(task))
        self._last[task] = process.worker, epoch
        self._holders[task].append(process)
        invariants.at_most_one_may_write_a_task(task, self._holders[task])
        invariants.a_task_that_may_be_written_is_held(process, self.group, self._world.names)

    def stopped(self, process: Process, task: TaskId) -> None:
        self._holders[task].remove(process)

    def look(self) -> None:
        """Time has passed."""
        for task, holders in self._holders.items():
            if len(holders) > 1:
                invariants.at_most_one_may_write_a_task(task, holders)

    # ---- records

    def computes(self, epoch: int, records: Mapping[WorkerId, WorkerStatus]) -> None:
        """A member computes the target of this epoch from these records. If several do, what all of them have read
        counts: whose target is installed is not known.
        """
        before = self.read.get(epoch, records)
        self.read[epoch] = {worker: said for worker, said in records.items() if before.get(worker) is said}

    def committed(self, records: Sequence[KeyAndValue]) -> None:
        """A transaction was committed."""
        if not records:
            return
        group = self.group
        before = (group.epoch, group.target.epoch)
        for key, value in records:
            record = decode_record(key or b"", value)
            where = record.key
            if isinstance(where, ConnectWorkerGroupCurrentMemberAssignmentKey):
                was = group.current.get(where.member_id)
                group.apply(record)
                invariants.a_members_epoch_only_grows(where.member_id, was, group.current.get(where.member_id))
            else:
                group.apply(record)
        self.targets += group.target.epoch > before[1]
        invariants.epochs_only_grow(before, group)
        invariants.no_epoch_overtakes_the_one_that_it_follows(group)
        invariants.no_two_hold_a_task(group)
        if self._world.bridges is None:  # behind a bridge, the configuration changes before the target does
            invariants.a_target_has_each_task_once(group)
            invariants.a_member_that_is_done_has_its_target(group)
        if self._world.assignors and group.target.epoch > before[1]:
            read, latest_wall_ms = self.read.get(group.target.epoch, {}), self._world.wall + self._world.wall_skew_ms
            invariants.tasks_wait_shortly_for_who_is_not_started(group, read, latest_wall_ms)
        for process in self._world.members:
            invariants.a_task_that_may_be_written_is_held(process, group, self._world.names)
            invariants.a_member_at_the_target_has_nothing_of_others(process, group)

    def served(self, candidate: Candidate) -> None:
        """A coordinator has ended a turn. Its state is committed, unless another one has replaced it."""
        machine, log = candidate.machine, candidate.log
        if machine is None or log is None or log.is_fenced:
            return
        known = machine.groups.get("g")
        if known is not None or self.group.is_recorded:
            replayed = everything(self.group)
            invariants.the_state_is_what_replaying_gives(None if known is None else everything(known), replayed)

    # ---- at rest

    def at_rest(self) -> None:
        invariants.the_spread_is_at_most_one({process.name: process.copies.running for process in self._world.members})
