"""Handles heartbeats: the proposal's five steps, in its order."""

from __future__ import annotations

from airflow_provider.group.declarative.coordinator.assignors import selection
from airflow_provider.group.declarative.coordinator.events import RequestArrived
from airflow_provider.group.declarative.coordinator.handlers import membership_changes
from airflow_provider.group.declarative.coordinator.handlers.answering import answer_or_hold, take_step
from airflow_provider.group.declarative.coordinator.handlers.validation import is_first
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk, Held
from airflow_provider.group.declarative.protocol.model import AWAY, JOINING, LEAVING, CurrentAssignment, Member
from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
)
from airflow_provider.group.declarative.protocol.wire.messages.refusals import refusal
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, Tasks


def on_heartbeat(turn: Turn, event: RequestArrived, heartbeat: ConnectGroupHeartbeatRequest) -> None:
    """Handle a heartbeat: answer it, refuse it, or hold it."""
    _Heartbeat(turn, event, heartbeat).handle()


class _Heartbeat:
    """One heartbeat while it is handled.

    :ivar owned: the tasks that its member says it owns; None: it does not say
    """

    __slots__ = ("desk", "event", "heartbeat", "member_id", "owned", "turn")

    def __init__(self, turn: Turn, event: RequestArrived, heartbeat: ConnectGroupHeartbeatRequest) -> None:
        self.turn = turn
        self.event = event
        self.heartbeat = heartbeat
        self.member_id = heartbeat.member_id
        owned = heartbeat.connectors_and_tasks
        self.owned: Tasks | None = None if owned is None else tasks_of(owned)
        self.desk: Desk = turn.desk(heartbeat.group_id)

    def handle(self) -> None:
        if self.heartbeat.member_epoch < JOINING:
            self._leave()
        elif self._is_supported() and self._is_in_the_group():
            self._reconcile()

    # ---- 1 and 2: the group, and the member

    def _is_in_the_group(self) -> bool:
        """Whether its sender is a member; it may have just joined. If not, the heartbeat was refused."""
        state, member_id = self.desk.state, self.member_id
        if self.heartbeat.member_epoch == JOINING:
            former = self._former()
            if former is not None:
                return self._take_place_of(former)
            if member_id not in state.members:
                return self._join()
        elif member_id in self.desk.replaced:
            return self._refuse(KafkaErrorCode.FENCED_INSTANCE_ID, "another member has its instance id now")
        current = state.current.get(member_id)
        if current is None or member_id not in state.members:
            return self._refuse(KafkaErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not in the group")
        if current.epoch == AWAY:
            return self._come_back()
        return self._has_its_epoch(current) and self._change()

    def _former(self) -> MemberId | None:
        """The member that has its instance id so far, if it is another one."""
        instance_id = self.heartbeat.instance_id
        former = self.desk.state.instances.get(instance_id) if instance_id is not None else None
        return None if former == self.member_id else former

    def _join(self) -> bool:
        if self.owned or not is_first(self.heartbeat):
            return self._refuse(
                KafkaErrorCode.UNKNOWN_MEMBER_ID,
                f"{self.member_id} is not in the group; a member that joins must own nothing, and fill all fields",
            )
        membership_changes.join(self.turn, self.desk, self.member_id, self._said())
        return True

    def _take_place_of(self, former: MemberId) -> bool:
        if self.member_id in self.desk.state.members:
            return self._refuse(
                KafkaErrorCode.FENCED_INSTANCE_ID, f"{former} has the instance id {self.heartbeat.instance_id}"
            )
        if self.owned is None or self.owned:
            return self._refuse(
                KafkaErrorCode.UNKNOWN_MEMBER_ID,
                f"{self.member_id} is not in the group; a member that replaces {former} must own nothing",
            )
        membership_changes.take_place(self.turn, self.desk, former, self.member_id, self._said())
        return True

    def _come_back(self) -> bool:
        if self.heartbeat.member_epoch != JOINING or self.owned is None or self.owned:
            return self._refuse(
                KafkaErrorCode.UNKNOWN_MEMBER_ID,
                f"{self.member_id} has left; a member that comes back must own nothing",
            )
        membership_changes.come_back(self.turn, self.desk, self.member_id)
        return self._change()

    # ---- 3: its epoch

    def _has_its_epoch(self, current: CurrentAssignment) -> bool:
        """Whether the heartbeat has the member's epoch. If not, the member is fenced.

        An earlier epoch is accepted if an answer may have been lost: the member says what it owns, and holds all of
        it here, too.
        """
        asked = self.heartbeat.member_epoch
        if asked == current.epoch:
            return True
        if asked < current.epoch and self.owned is not None and self.owned <= current.held:
            return True
        message = f"{self.member_id} is in epoch {current.epoch}, not in {asked}"
        fenced = KafkaErrorCode.FENCED_MEMBER_EPOCH
        membership_changes.fence(self.turn, self.desk, self.member_id, error=fenced, message=message)
        return self._refuse(fenced, message)

    # ---- 4: what the member says of itself

    def _change(self) -> bool:
        membership_changes.change(self.turn, self.desk, self.member_id, self._said())
        return True

    def _said(self) -> Member:
        return membership_changes.said(self.desk.state.members.get(self.member_id), self.heartbeat, self.event)

    def _is_supported(self) -> bool:
        """Whether its assignors fit those of the others. This is part of the validation, before anything changes."""
        heartbeat, state = self.heartbeat, self.desk.state
        name = heartbeat.server_assignor
        if name is not None:
            message = f"ServerAssignor is {name!r}, but coordinators here have no assignors: send ClientAssignors"
            return self._refuse(KafkaErrorCode.UNSUPPORTED_ASSIGNOR, message)
        joins = heartbeat.member_epoch == JOINING and is_first(heartbeat) and self.member_id not in state.members
        if heartbeat.client_assignors is None and not joins:
            return True
        said = self._said()
        if not said.client_assignors:
            return self._refuse(KafkaErrorCode.UNSUPPORTED_ASSIGNOR, f"{self.member_id} has no assignor: name one")
        wrong = selection.unsupported(self._one_of_each_other_kind(), self.member_id, said)
        return wrong is None or self._refuse(KafkaErrorCode.UNSUPPORTED_ASSIGNOR, wrong)

    def _one_of_each_other_kind(self) -> dict[MemberId, Member]:
        """One other member of each kind. It stands for all of its kind, which may be thousands."""
        state, itself = self.desk.state, (self.member_id, self._former())
        some = (next((one for one in alike if one not in itself), None) for alike in state.kinds.values())
        return {one: state.members[one] for one in some if one is not None}

    # ---- 5: one step towards its target

    def _reconcile(self) -> None:
        turn, desk, member_id = self.turn, self.desk, self.member_id
        turn.grant_session(desk, member_id, turn.now_ms)
        take_step(turn, desk, member_id, self.owned)
        heartbeat = Held(self.event.request, self.heartbeat.member_epoch, turn.now_ms)
        answer_or_hold(turn, desk, member_id, heartbeat, whole=self.heartbeat.rebalance_timeout_ms > 0)

    # ---- leaving

    def _leave(self) -> None:
        """Let a member leave. It has stopped everything by then, also if it was removed before."""
        state, member_id = self.desk.state, self.member_id
        if member_id not in state.members:
            membership_changes.has_ended(self.turn, self.desk, member_id)
            self._refuse(KafkaErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not in the group")
            return
        if self.heartbeat.member_epoch == LEAVING:
            membership_changes.leave(self.turn, self.desk, member_id, self._said())
        elif state.members[member_id].instance_id != self.heartbeat.instance_id:
            self._refuse(KafkaErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} has another instance id")
            return
        else:
            membership_changes.leave_for_a_while(self.turn, self.desk, member_id)
        self.turn.reply(
            self.event.request,
            ConnectGroupHeartbeatResponse(member_epoch=self.heartbeat.member_epoch, heartbeat_interval_ms=0),
        )

    def _refuse(self, error: KafkaErrorCode, message: str) -> bool:
        """Answer with an error, and return False."""
        self.turn.reply(self.event.request, refusal(self.heartbeat, error, message))
        return False
