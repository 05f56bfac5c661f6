"""The rules that must hold in every history of a declarative group, each a function whose docstring states it.

They use what the simulation sees from outside: what runs, what is committed, and what goes over the wire. Where a
public TLA+ model of KIP-848 checks the same, the docstring has its name there (``consumer_group_protocol_kip_848_v2``
of ``Vanlightly/kafka-tlaplus``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from simulation.invariants import Broken, invariant

from airflow_provider.group.declarative.assignors.remembered import decode_remembered
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.member.state import MembershipState, Phase
from airflow_provider.group.declarative.protocol.model import AWAY, JOINING, CurrentAssignment
from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import Command, StartTasks, StopTasks
from airflow_provider.state.records import WorkerStatus
from airflow_provider.values.model import Epoch, MemberId, TaskId, Tasks, WorkerId

if TYPE_CHECKING:
    from simulation.declarative.process import Process


# ---- tasks


@invariant
def at_most_one_may_write_a_task(task: TaskId, holders: Iterable[Process]) -> None:
    """At most one running copy of a task, in any process, passes its fence, whenever its process wakes.
    NoDoubleClientAssignment.
    """
    writing = [holder.name for holder in holders if holder.copies.may_write(task)]
    if len(writing) > 1:
        raise Broken(f"{task} may be written by {' and '.join(writing)}")


@invariant
def a_task_moves_with_a_higher_epoch(task: TaskId, worker: str, epoch: Epoch, before: tuple[str, Epoch] | None) -> None:
    """A worker starts a task in a higher epoch than the worker before, and never in a lower one than its own last
    start.
    """
    if before is None:
        return
    who, earlier = before
    if epoch < earlier or (epoch == earlier and who != worker):
        raise Broken(f"{task} starts at {worker} in epoch {epoch}: it has run at {who} in {earlier}")


@invariant
def a_task_that_may_be_written_is_held(process: Process, group: GroupState, names: Mapping[MemberId, str]) -> None:
    """The coordinator holds a task for the member that may write it, so nobody else can be given it. For a static
    member that is back, it may be held under its former id.
    """
    for task in process.copies.running:
        holder = group.holders.get(task)
        if process.copies.may_write(task) and (holder is None or names.get(holder) != process.worker):
            raise Broken(f"{process.name} may write {task}, which is held for {holder or 'nobody'}")


# ---- members


@invariant
def a_heartbeat_says_all_that_runs(process: Process, heartbeat: ConnectGroupHeartbeatRequest) -> None:
    """A heartbeat with owned tasks names all tasks that may write in this process."""
    if heartbeat.connectors_and_tasks is None or heartbeat.member_epoch < JOINING:
        return
    unsaid = process.copies.writing - tasks_of(heartbeat.connectors_and_tasks)
    if unsaid:
        raise Broken(f"{process.name} does not say that it runs {sorted(unsaid)}")


@invariant
def nothing_is_revoked_and_started_together(process: Process, commands: Sequence[Command]) -> None:
    """No answer makes a member both stop and start tasks."""
    revokes = any(isinstance(one, StopTasks) and one.reason is StopReason.REVOKED for one in commands)
    if revokes and any(isinstance(one, StartTasks) for one in commands):
        raise Broken(f"{process.name} is asked for both in one answer")


@invariant
def a_members_epoch_goes_back_only_to_join(process: Process, before: MembershipState) -> None:
    """The member's own view of its epoch only goes back when it joins. ClientSideMemberEpochIsMonotonic."""
    after = process.state
    if after.epoch < before.epoch and after.epoch != JOINING:
        raise Broken(f"{process.name} goes from epoch {before.epoch} back to {after.epoch}")
    if after.assignment_epoch < before.assignment_epoch:
        raise Broken(f"{process.name} writes in epoch {before.assignment_epoch}, then in {after.assignment_epoch}")


@invariant
def nobody_fails(process: Process, error: str) -> None:
    """No coordinator refuses a member for good, except when two share a name."""
    if process.state.phase is Phase.FAILED:
        raise Broken(f"{process.name}: {error}")


@invariant
def a_healthy_worker_stays_a_member(process: Process) -> None:
    """Whatever happens to coordinators, a member that is not paused or cut off is not removed."""
    if not process.touched:
        raise Broken(f"{process.name} has to join again, and nothing was wrong with it")


@invariant
def a_member_at_the_target_has_nothing_of_others(process: Process, group: GroupState) -> None:
    """A member at the target's epoch owns no task that the target gives to another member. ValidMemberEpoch."""
    state = process.state
    if state.phase is not Phase.STABLE or state.epoch == JOINING or int(state.epoch) != group.target.epoch:
        return
    if state.member_id not in group.members:
        return
    for task in state.owned:
        wanted_by = group.wanted_by.get(task, state.member_id)
        if wanted_by != state.member_id:
            raise Broken(f"{process.name} is at epoch {state.epoch}, and has {task}, which is {wanted_by}'s in it")


# ---- records


@invariant
def epochs_only_grow(before: tuple[int, int], group: GroupState) -> None:
    """The epochs of the group and of its target only grow, whichever process coordinates."""
    after = (group.epoch, group.target.epoch)
    if after[0] < before[0] or after[1] < before[1]:
        raise Broken(f"group and target were at {before}, and are at {after}")


@invariant
def no_epoch_overtakes_the_one_that_it_follows(group: GroupState) -> None:
    """A member's epoch is at most the target's, and that at most the group's."""
    if group.target.epoch > group.epoch:
        raise Broken(f"the target is of epoch {group.target.epoch}, the group at {group.epoch}")
    for member_id in group.members:
        if group.current[member_id].epoch > group.target.epoch:
            raise Broken(f"{member_id} is at {group.current[member_id].epoch}, the target at {group.target.epoch}")


@invariant
def a_members_epoch_only_grows(
    member_id: MemberId, before: CurrentAssignment | None, after: CurrentAssignment | None
) -> None:
    """While it is a member; one that leaves for a while, or joins, starts again. GcSideMemberEpochIsMonotonic."""
    if before is None or after is None or after.epoch in (JOINING, AWAY) or before.epoch == AWAY:
        return
    if after.epoch < before.epoch:
        raise Broken(f"{member_id} was at epoch {before.epoch}, and is at {after.epoch}")


@invariant
def no_two_hold_a_task(group: GroupState) -> None:
    """No two members hold a task, including those that linger. ValidPartitionEpoch."""
    held = sum(len(current.held) for current in group.current.values())
    if held != len(group.holders):
        raise Broken(f"{held} tasks are held, and {len(group.holders)} of them are different")
    for member_id, current in group.current.items():
        for task in current.held:
            if group.holders[task] != member_id:
                raise Broken(f"{task} is held for {member_id} and for {group.holders[task]}")


@invariant
def a_target_has_each_task_once(group: GroupState) -> None:
    """A target has exactly the configured tasks, including those that wait for a lost member. LegalTargetAssignment."""
    target = group.target
    shares = [share.tasks for share in (*target.members.values(), *target.delayed.values())]
    union: Tasks = frozenset().union(*shares)
    if len(union) != sum(map(len, shares)):
        raise Broken(f"the target of epoch {target.epoch} has a task twice")
    if int(target.epoch) == group.epoch and group.members and not target.error and union != group.configured:
        raise Broken(f"the target of epoch {target.epoch} differs in {sorted(union ^ group.configured)}")


@invariant
def tasks_wait_shortly_for_who_is_not_started(
    group: GroupState, read: Mapping[WorkerId, WorkerStatus], latest_wall_ms: int
) -> None:
    """The tasks of a member that Airflow does not start wait as long as its record says, and not the longest delay.

    :param read: the records that whoever computed the target had read
    """
    for said in read.values():
        waits = group.target.delayed.get(said.member_id)
        if waits is None or said.awaits is None or said.returns_ms is None:
            continue
        left_ms = decode_remembered(waits.metadata).until_ms - latest_wall_ms
        if left_ms > said.returns_ms:
            raise Broken(
                f"{sorted(waits.tasks)} wait {left_ms} ms more for {said.worker}, which said {said.returns_ms}"
            )


@invariant
def a_member_that_is_done_has_its_target(group: GroupState) -> None:
    """A stable member has exactly its target, and nothing to stop. ValidStableGroupState."""
    for member_id in group.members:
        current = group.current[member_id]
        if not group.target.epoch or not current.is_at(group.target.epoch):
            continue
        if current.revoking or current.assigned != group.target.of(member_id).tasks:
            raise Broken(f"{member_id} is stable at epoch {current.epoch}, and has not what the target says")


@invariant
def the_state_is_what_replaying_gives(coordinators: object, replayed: object) -> None:
    """A coordinator's state after a transaction equals what the next one would learn from the records."""
    if coordinators != replayed:
        raise Broken(f"a coordinator has {coordinators}, and its records say {replayed}")


# ---- at rest


@invariant
def everything_converges(why_not: str) -> None:
    """Some time after the faults, each member has its target, and nothing waits. EventuallyConverges."""
    if why_not:
        raise Broken(why_not)


@invariant
def the_spread_is_at_most_one(running: Mapping[str, Collection[TaskId]]) -> None:
    """The workers' numbers of planners differ by at most one, and so do their numbers of tasks."""
    for kind in (True, False):
        loads = {name: sum(task.is_planner is kind for task in tasks) for name, tasks in running.items()}
        if loads and max(loads.values()) - min(loads.values()) > 1:
            raise Broken(f"{'planners' if kind else 'tasks'}: {loads}")


@invariant
def a_group_at_rest_stays_at_rest(before: int, after: int) -> None:
    """Nothing happens, so nobody begins a new epoch."""
    if before != after:
        raise Broken(f"the group has gone from epoch {before} to {after}, and nothing has happened")
