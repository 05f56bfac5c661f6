"""Builds and sends the requests of a member, while an event is handled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.group.declarative.member.events import Request, SendRequest
from airflow_provider.group.declarative.member.state import MembershipState, Phase, StateChanges
from airflow_provider.group.declarative.protocol.model import JOINING, LEAVING, MemberEpoch
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import MemberRequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.machine.transition import CommonTransition
from airflow_provider.values.model import NO_TASKS, Tasks

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Requesting(CommonTransition[MembershipState]):
    """The member's state while an event is handled, with the requests that it sends."""

    __slots__ = ()

    def set(self, **changes: Unpack[StateChanges]) -> None:
        """Change fields of the state."""
        self._changes.update(changes)

    def ask(self, request: Request, body: MemberRequestBody, timeout_ms: int) -> int:
        """Send a request, and return its number."""
        seq = self.next_seq()
        self.do(SendRequest(seq=seq, request=request, body=body, timeout_ms=timeout_ms))
        return seq

    def send_heartbeat(self) -> None:
        """Send a heartbeat. If an earlier one is not answered yet, its reply will be ignored."""
        state = self.state
        body = self._heartbeat() if state.leave_by is None else self._last_heartbeat()
        self.set(
            awaiting=self.ask(Request.HEARTBEAT, body, _patience_ms(state)),
            heartbeat_at=None,
            just_released=NO_TASKS,
        )

    def _last_heartbeat(self) -> ConnectGroupHeartbeatRequest:
        """The heartbeat by which it leaves. It contains changed metadata of its assignors, perhaps why it leaves."""
        state = self.state
        says_assignors = bool(state.assignors) and state.assignors != state.said_assignors
        return ConnectGroupHeartbeatRequest(
            group_id=state.settings.group_id,
            member_id=state.member_id,
            member_epoch=LEAVING,
            instance_id=state.settings.worker,
            client_assignors=state.assignors if says_assignors else None,
        )

    def _heartbeat(self) -> ConnectGroupHeartbeatRequest:
        """The next heartbeat. It contains all fields when the member joins and after an error, otherwise what has
        changed.

        If an answer is given up, the heartbeat also says what the member owns, because that answer may have had another
        epoch.

        In epoch 0, changed metadata of assignors are sent with all other fields: a coordinator that does not know the
        member any more would otherwise take this for an incomplete first heartbeat.

        Once it has joined, the member does not say what it owns while a predecessor may run, because the coordinator
        would conclude that nothing else runs under this name.
        """
        state, settings = self.state, self.state.settings
        changed = bool(state.assignors) and state.assignors != state.said_assignors
        whole = state.says_all or (changed and state.epoch == JOINING)
        says_owned = whole or state.awaiting is not None or state.owned != state.said
        owned: Tasks | None = state.owned if says_owned else None
        if state.phase is not Phase.JOINING and self.predecessor_may_run:
            owned = None
        says_assignors = changed or (whole and bool(state.assignors))
        self.set(
            said=state.owned if owned is not None else state.said,
            said_assignors=state.assignors if says_assignors else state.said_assignors,
            says_all=False,
            acknowledges=state.acknowledges and (owned is None or bool(state.revoked)),
        )
        return ConnectGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=state.member_id,
            member_epoch=MemberEpoch(state.epoch),
            instance_id=settings.worker if whole else None,
            rebalance_timeout_ms=settings.rebalance_timeout_ms if whole else -1,
            client_assignors=state.assignors if says_assignors else None,
            connectors_and_tasks=None if owned is None else units_of(owned),
        )

    def retry_later(self) -> None:
        """Send a heartbeat with all fields after the backoff."""
        self.set(
            awaiting=None,
            says_all=True,
            said=None,
            said_assignors=None,
            heartbeat_at=self.next_try_at(),
        )


def _patience_ms(state: MembershipState) -> int:
    """How long to wait for the reply to a heartbeat, in milliseconds. The coordinator may hold it for an interval. If
    possible, two waits in a row fit into a lease.

    Heartbeats that a coordinator holds are lost with it, and the next one can only answer new ones. So the first wait
    is short, even in a long session. Each further one is twice as long, because the coordinator may be overloaded.
    """
    spare = state.session_ms - state.margin_ms - 2 * state.interval_ms
    longest = max(spare // 2, state.interval_ms // 4, 1)
    return state.interval_ms + min(longest, 2 * state.interval_ms << min(state.attempts, 20))
