"""A group that also has classic workers: what its bridge says, and what it has to know.

Classic workers talk to Kafka's own coordinator, which knows nothing of declarative groups. So the declarative group is
one member of the classic one: its *bridge*, a static member, driven where the group is coordinated. What classic rounds
give to the bridge is configured here; what they take from it is no longer configured, and the bridge lets go of it
when nobody runs it or will be given it. So a task is run on one side only, and moves as between two classic workers.

*Leases.* The classic group gives the bridge's tasks away when the bridge's session has ended. So no member is granted a
session that reaches beyond that, and when the bridge is lost all who have tasks are removed.

*Epochs.* What is written of a task is ordered by epoch, also when it moves from one side to the other. A classic epoch
grows by a round and can't be set; so an epoch of the declarative group *is* that of a round which the bridge was in.
Whatever needs a new one has the bridge join again, which in a cooperative round stops nobody. So what is given here was
written in lower epochs before, and what is given back is written in higher ones.

*Another coordinator* has the bridge join again under its name, which fences the one before, and say that it owns all
that anybody here may run. Who has a task that its first round does not leave to the bridge is removed: others may have
been given it while no coordinator was there. All who have tasks are, if the classic group had a round without a bridge,
or may have had one: others may have had those tasks in between, in a higher epoch.
"""

from __future__ import annotations

from airflow_provider.coordinator import computing, members
from airflow_provider.coordinator.desk import Desk
from airflow_provider.coordinator.events import BridgeLost, BridgeSaid, ToBridge
from airflow_provider.coordinator.turn import Turn
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import NO_TASKS, Tasks


def on_said(turn: Turn, event: BridgeSaid) -> None:
    desk = turn.desk(event.group_id)
    state, is_first = desk.state, desk.bridge is None
    known = desk.to_run if state.members else NO_TASKS
    kept = {task: epoch for task, epoch in desk.given_in.items() if task in event.tasks and epoch > state.target.epoch}
    desk.given_in = kept | dict.fromkeys(event.tasks - known, event.epoch)
    desk.bridge = event
    desk.unrecorded = event.tasks if event.tasks != state.configured else None
    if is_first:  # what may have needed an epoch no record says
        desk.wants_epoch = bool(state.members)
        _remove_who_has_more(turn, desk, event.tasks)
    if state.members and (desk.wants_epoch or desk.unrecorded is not None):
        turn.begin_epoch(desk)
        computing.ensure_target(turn, desk)


def on_lost(turn: Turn, event: BridgeLost) -> None:
    desk = turn.desk(event.group_id)
    desk.bridge = None
    desk.unrecorded = NO_TASKS if desk.state.configured else None
    _remove_who_has_more(turn, desk, NO_TASKS)


def _remove_who_has_more(turn: Turn, desk: Desk, tasks: Tasks) -> None:
    state = desk.state
    for member_id in list(state.members):
        if not state.current[member_id].held <= tasks:
            message = f"what {member_id} had classic workers may have been given"
            members.fence(turn, desk, member_id, error=KafkaErrorCode.UNKNOWN_MEMBER_ID, message=message)


def claims(desk: Desk) -> Tasks:
    """All that anybody may run, or may be given: what a bridge owns that begins now."""
    state = desk.state
    return frozenset(state.holders) | (state.configured if state.members else NO_TASKS)


def to_bridge(desk: Desk, asked: Tasks) -> ToBridge:
    """:param asked: what the bridge would let go of"""
    state = desk.state
    return ToBridge(
        members=len(state.members) + len(state.lingering),
        wants_epoch=bool(desk.wants_epoch and state.members),
        free=frozenset(task for task in asked - desk.to_run if task not in state.holders),
    )
