"""The state while an event is handled, and the requests that a member sends."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from airflow_provider.group.classic.member.events import FindCoordinator, SendHeartbeat, SendJoin, SendLeave, SendSync
from airflow_provider.group.classic.member.metadata import offers
from airflow_provider.group.classic.member.state import MemberState, Phase, StateChanges
from airflow_provider.group.machine.transition import CommonTransition
from airflow_provider.values.model import NO_TASKS, UNKNOWN_MEMBER_ID, MemberId

if TYPE_CHECKING:
    from typing_extensions import Unpack

_HEARTBEAT_GROWTH = 1.5
_HEARTBEATS_A_SECOND = 200
"""How many a whole group sends at most while it heartbeats fast; a coordinator has other groups, too."""
_BEFORE_ANOTHER_ROUND_MS = 250
"""The longest interval while another round is known to be near: what moves does not run until all have joined it."""
_BETWEEN_HINTED_MS: Final = 100
"""The least time from a heartbeat to one that a hint has brought forward, and to the next: hints may come in floods."""


class Requesting(CommonTransition[MemberState]):
    """Sends requests to the coordinator, and decides when."""

    __slots__ = ()

    def set(self, **changes: Unpack[StateChanges]) -> None:
        """Change fields of the state."""
        self._changes.update(changes)

    def find_coordinator(self) -> None:
        state = self.state
        seq = self.next_seq()
        may_be_forgotten = state.may_be_forgotten or (state.returning and state.member_id != UNKNOWN_MEMBER_ID)
        self.set(awaiting=seq, coordinator=None, retry_at=None, may_be_forgotten=may_be_forgotten)
        self.do(FindCoordinator(seq=seq))

    def retry_later(self) -> None:
        """Look for the coordinator again after a while."""
        self.set(awaiting=None, coordinator=None, retry_at=self.next_try_at())

    def send_join(self, reason: str) -> None:
        """Join with what this worker has, and keep it running."""
        state = self.state
        assert state.coordinator is not None
        seq = self.next_seq()
        self.set(
            phase=Phase.PREPARING_REBALANCE,
            awaiting=seq,
            returning=state.returning or state.member_id == UNKNOWN_MEMBER_ID,
            join_reason=reason,
            join_sent_at=self.now,
            joining_since=self.now if state.joining_since is None else state.joining_since,
            rejoin_reason=None,
            just_released=NO_TASKS,
            another_round=False,
        )
        self.forget_round()
        self.do(
            SendJoin(
                seq=seq,
                node=state.coordinator,
                member_id=state.member_id,
                protocols=offers(state, self.now),
                reason=reason,
            )
        )

    def send_sync(self, assignments: Mapping[MemberId, bytes]) -> None:
        """Ask for this member's assignment; the leader sends all members'.

        No answer within a session means that the request or the answer was lost: even if the leader is gone, the
        coordinator answers sooner.
        """
        state = self.state
        assert state.coordinator is not None
        assert state.protocol is not None
        assert state.awaiting is not None
        self.set(sync_by=self.now + state.settings.session_timeout_ms)
        self.do(
            SendSync(
                seq=state.awaiting,
                node=state.coordinator,
                member_id=state.member_id,
                generation=state.generation,
                protocol=state.protocol,
                assignments=assignments,
            )
        )

    def send_heartbeat(self) -> None:
        state = self.state
        assert state.coordinator is not None
        shortest = self._shortest_step()
        longer = max(int(state.heartbeat_step * _HEARTBEAT_GROWTH) + 1, shortest)
        longest = max(_BEFORE_ANOTHER_ROUND_MS, shortest) if state.another_round else longer
        seq = self.next_seq()
        self.set(
            hinted=False,
            heartbeat_sent_at=self.now,
            heartbeat_at=self.now + state.heartbeat_step,
            heartbeat_step=min(state.settings.heartbeat_interval_ms, longer, longest),
        )
        self.do(SendHeartbeat(seq=seq, node=state.coordinator, member_id=state.member_id, generation=state.generation))

    def heartbeat_fast(self) -> None:
        """Heartbeat soon and then at growing intervals: a rebalance is often followed by another."""
        step = min(self.state.settings.heartbeat_interval_ms, self._shortest_step())
        self.set(heartbeat_step=step, heartbeat_at=self.now + step)

    def heartbeat_soon(self) -> None:
        """Bring the next heartbeat forward. Those after it come at growing intervals again, as the request at which a
        hint hints may come after it.

        All members read a hint at the same time, so those of a large group are spread by their names. A coordinator
        that has not answered the last heartbeat is not asked again before it has.
        """
        state = self.state
        if state.awaits_heartbeat:
            self.set(hinted=True)
            return
        least = max(_BETWEEN_HINTED_MS, self._shortest_of_group())
        spread = zlib.crc32(state.settings.worker.encode()) % (least - _BETWEEN_HINTED_MS + 1)
        step = min(state.settings.heartbeat_interval_ms, least)
        at = max(self.now + spread, state.heartbeat_sent_at + step)
        self.set(heartbeat_step=step, hinted=False)
        if at <= self.now:
            self.send_heartbeat()
        elif state.heartbeat_at is None or at < state.heartbeat_at:
            self.set(heartbeat_at=at)

    def heartbeat_slowly(self) -> None:
        """Heartbeat only to keep the session, while another answer is awaited that tells of any rebalance."""
        step = self.state.settings.heartbeat_interval_ms
        self.set(heartbeat_step=step, heartbeat_at=self.now + step)

    def _shortest_step(self) -> int:
        """The first interval after a round."""
        return max(self.state.settings.fast_heartbeat_ms, self._shortest_of_group())

    def _shortest_of_group(self) -> int:
        """The shortest interval with which the members of a large group do not overload the coordinator."""
        record = self.state.record
        return 0 if record is None else len(record.members) * 1000 // _HEARTBEATS_A_SECOND

    def send_leave(self) -> None:
        state = self.state
        assert state.coordinator is not None
        seq = self.next_seq()
        self.set(awaiting=seq)
        self.do(SendLeave(seq=seq, node=state.coordinator, member_id=state.member_id, reason=state.join_reason))

    def forget_round(self) -> None:
        """Stop waiting for anything of the round that this member was in."""
        self.set(rejoin_at=None, join_by=None, record_by=None, sync_by=None, unadopted=None, unpublished=None)
