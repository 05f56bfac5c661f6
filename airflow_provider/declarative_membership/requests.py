"""The state while an event is handled, and the requests that come out of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.declarative.model import JOINING, LEAVING, MemberEpoch
from airflow_provider.declarative.units import units_of
from airflow_provider.declarative.wire.apis import MemberRequestBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest
from airflow_provider.declarative_membership.events import Request, SendRequest
from airflow_provider.declarative_membership.state import MembershipState, Phase, StateChanges
from airflow_provider.protocol.member_machine import Changing
from airflow_provider.protocol.model import NO_TASKS, Tasks

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Requesting(Changing[MembershipState]):
    """What a member asks its coordinator, and what it says of itself."""

    __slots__ = ()

    def set(self, **changes: Unpack[StateChanges]) -> None:
        self._changes.update(changes)

    def ask(self, request: Request, body: MemberRequestBody, timeout_ms: int) -> int:
        """:returns: the number of the request"""
        seq = self.next_seq()
        self.do(SendRequest(seq=seq, request=request, body=body, timeout_ms=timeout_ms))
        return seq

    def send_heartbeat(self) -> None:
        """Say how this member is. One that was sent before and not answered is given up: its reply does nothing any
        more, so that what this one says is the last word.
        """
        state = self.state
        body = self._heartbeat() if state.leave_by is None else self._goodbye()
        self.set(
            awaiting=self.ask(Request.HEARTBEAT, body, _patience_ms(state)),
            heartbeat_at=None,
            released_since_sent=NO_TASKS,
        )

    def _goodbye(self) -> ConnectGroupHeartbeatRequest:
        """With what its assignors have not said yet: why it leaves, perhaps."""
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
        """Everything when it joins and after an error, otherwise what has changed. While an answer is on its way, also
        what it owns: that answer may have told it another epoch, and comes too late.

        What its assignors say it says in epoch 0 with all the rest: a coordinator that does not know it any more would
        take that for a first heartbeat which lacks something.

        As long as a predecessor may run, it does not say what it owns, once it has joined: that would be taken for the
        word that nothing else runs under this name.
        """
        state, settings = self.state, self.state.settings
        changed = bool(state.assignors) and state.assignors != state.said_assignors
        whole = state.says_all or (changed and state.epoch == JOINING)
        says_owned = whole or state.awaiting is not None or state.owned != state.said
        owned: Tasks | None = state.owned if says_owned else None
        if state.phase is not Phase.JOINING and state.predecessor_may_run(self.now):
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
            server_assignor=settings.server_assignor if whole else None,
            client_assignors=state.assignors if says_assignors else None,
            connectors_and_tasks=None if owned is None else units_of(owned),
        )

    def retry_later(self) -> None:
        """Say everything again after a while."""
        self.set(
            awaiting=None,
            says_all=True,
            said=None,
            said_assignors=None,
            heartbeat_at=self.next_try_at(),
        )


def _patience_ms(state: MembershipState) -> int:
    """How long to wait for the reply to a heartbeat, which the coordinator may hold for an interval. Two in a row fit
    into a lease, if that is possible at all.

    What a coordinator holds is lost with it, and the next one can't say anything unasked. So the first wait is short
    even in a long session; each further one is twice as long, as the coordinator may have too much to do.
    """
    spare = state.session_ms - state.margin_ms - 2 * state.interval_ms
    longest = max(spare // 2, state.interval_ms // 4, 1)
    return state.interval_ms + min(longest, 2 * state.interval_ms << min(state.attempts, 20))
