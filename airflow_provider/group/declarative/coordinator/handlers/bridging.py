"""Groups that also have classic workers: exchanges state with the group's bridge.

Classic workers talk to Kafka's own coordinator, which knows nothing of declarative groups. So the declarative group is
one member of the classic group: its *bridge*, a static member, held by the process that coordinates the group. The
tasks that a classic round gives to the bridge are configured here. The tasks that a round takes from it are no longer
configured; the bridge releases each of them when no member runs it or will be assigned it. So a task runs on one side
only, and moves between the sides as between two classic workers.

*Leases.* When the bridge's session has ended, the classic group gives its tasks to others. So no member is granted a
session that ends later, and all members with tasks are removed when the bridge is lost.

*Epochs.* Records about a task are ordered by epoch, also when it moves from one side to the other. A classic epoch
grows with each round and can't be set, so each epoch of the declarative group *is* the epoch of a round that the bridge
took part in. To get a new epoch, the bridge joins again; in a cooperative round, this stops no task. So the records
about a task that moves here have lower epochs, and those after it has moved back have higher ones.

*Takeover.* The next coordinator lets the bridge join again under its name, which fences the former one, and say that it
owns all tasks that members may run. If the first round takes a task away, the member that has it is removed, because
classic workers may have got the task while there was no coordinator. If the classic group had a round without the
bridge since the group's epoch, or may have had one, all members with tasks are removed: classic workers may have had
those tasks in between, in a higher epoch. The records of classic rounds tell
(:attr:`~airflow_provider.state.rounds.classic.ClassicRecord.bridged_since`), even if a coordinator that noticed it has
ended before it removed the members. Of configured tasks that no member may run, no record says whether the former
bridge has released them since the target was computed. So the bridge does not claim them, and if it has them, they wait
for the next target.
"""

from __future__ import annotations

from airflow_provider.group.declarative.coordinator.events import BridgeClaims, BridgeLost, BridgeSaid, ToBridge
from airflow_provider.group.declarative.coordinator.handlers import computing, membership_changes
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks


def on_said(turn: Turn, event: BridgeSaid) -> None:
    """Configure the tasks that the bridge has, and begin an epoch if one is needed."""
    desk = turn.desk(event.group_id)
    state, is_first = desk.state, desk.bridge is None
    kept = {task: epoch for task, epoch in desk.given_in.items() if task in event.tasks and epoch > state.target.epoch}
    desk.given_in = kept | dict.fromkeys(event.tasks - _never_released(desk), event.epoch)
    desk.bridge = event
    desk.unrecorded = event.tasks if event.tasks != state.configured else None
    if is_first:  # no record tells whether the former coordinator wanted an epoch
        desk.wants_epoch = bool(state.members)
        _fence_holders_of_others(turn, desk, event.tasks)
    if state.members and (desk.wants_epoch or desk.unrecorded is not None):
        turn.begin_epoch(desk)
        computing.ensure_target(turn, desk)


def _never_released(desk: Desk) -> Tasks:
    """The tasks that the bridge has had all the time since the target was computed, as far as this is known."""
    if not desk.state.members:
        return NO_TASKS
    return desk.to_run if desk.bridge is not None else desk.to_run.intersection(desk.state.holders)


def on_lost(turn: Turn, event: BridgeLost) -> None:
    """Configure no tasks, and remove all members that hold some."""
    desk = turn.desk(event.group_id)
    desk.bridge = None
    desk.unrecorded = NO_TASKS if desk.state.configured else None
    _fence_holders_of_others(turn, desk, NO_TASKS)


def _fence_holders_of_others(turn: Turn, desk: Desk, tasks: Tasks) -> None:
    """Remove the members that hold other tasks than these."""
    state = desk.state
    for member_id in list(state.members):
        if not state.current[member_id].held <= tasks:
            message = f"classic workers may have been given tasks of {member_id}"
            membership_changes.fence(turn, desk, member_id, error=KafkaErrorCode.UNKNOWN_MEMBER_ID, message=message)


def claims(desk: Desk) -> BridgeClaims:
    """What a new bridge says it owns: the tasks that members may run. Others may run elsewhere by now."""
    return BridgeClaims(tasks=frozenset(desk.state.holders), epoch=Epoch(desk.state.epoch))


def to_bridge(desk: Desk, asked: Tasks) -> ToBridge:
    """What the bridge has to know of the group.

    :param asked: the tasks that the bridge wants to release
    """
    state = desk.state
    return ToBridge(
        members=len(state.members) + len(state.lingering),
        wants_epoch=bool(desk.wants_epoch and state.members),
        free=frozenset(task for task in asked - desk.to_run if task not in state.holders),
    )
