"""How a worker leaves its group on request: immediately, when its running tasks have finished, or when its batch tasks
have finished and others have learned the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from airflow_provider.assignment.model import Absence
from airflow_provider.group.live.timers import Timer, call_at
from airflow_provider.group.membership import Membership
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.state.records import ControlAction, ControlRecord
from airflow_provider.values.in_short import in_short
from airflow_provider.worker.endings.ending import DRAINED, STOPPED
from airflow_provider.worker.hands.port import Hands
from airflow_provider.worker.reporting.own_record import OwnRecord

log = logging.getLogger(__name__)

ASKED: Final = "an operator of the group asked for it"
"""The reason in the coordinator's log."""
_DRAINS: Final = "it starts no more tasks, and leaves when its running tasks have finished"
_MOST_NAMED: Final = 10
_GO_ON: Final = "; others adopt its detached streams"


class LeaveRequest:
    """What a worker does about a request to leave, until it has left.

    :param record: the worker's own record
    :param member: its membership, which is not used before :meth:`decide`
    :param look_again: called when :meth:`decide` has to be called again
    """

    def __init__(self, record: OwnRecord, hands: Hands, member: Membership, look_again: Callable[[], None]) -> None:
        self._record = record
        self._hands = hands
        self._member = member
        self._look_again = look_again
        self._wish: ControlRecord | None = None
        self._since_ms: int | None = None
        self._timer: Timer | None = None
        self._leaves_soon = False
        self._has_nothing_left = False

    @property
    def asked_since_ms(self) -> int | None:
        """When it read the request (wall clock, milliseconds since 1970), for the process that takes over."""
        return None if self._since_ms is None else wall_ms() - (now_ms() - self._since_ms)

    def resume(self, asked_since_ms: int | None) -> None:
        """Continue from another process, which read the request at that time."""
        if asked_since_ms is not None:
            self._since_ms = now_ms() - max(0, wall_ms() - asked_since_ms)

    def nothing_left(self) -> None:
        """The membership has no tasks left, and no round waits for it."""
        self._has_nothing_left = True
        self._look_again()

    def decide(self, wish: ControlRecord) -> Absence | None:
        """Whether to stop what still runs and leave now.

        :returns: the absence to record; None: not yet
        """
        if wish != self._wish:
            self._hear(wish)
        if wish.action is ControlAction.STOP or self._is_overdue(wish):
            return STOPPED
        if wish.action is ControlAction.LEAVE_SOON and not self._drains:
            if self._member.view.learns:
                return DRAINED if self._has_nothing_left else None
            self._drain("this group no longer learns tasks")
        left = self._hands.attached if wish.action is ControlAction.LEAVE_SOON else self._hands.running
        return None if left else DRAINED

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _drains(self) -> bool:
        return self._record.slots == 0

    def _hear(self, wish: ControlRecord) -> None:
        if self._since_ms is None or self._wish is not None:  # it differs from the previous request
            self._since_ms = now_ms()
        self._wish = wish
        if wish.within_ms is not None:
            self.close()
            self._timer = call_at(self._since_ms + wish.within_ms, self._look_again)
        soon = wish.action is ControlAction.LEAVE_SOON
        self._record.leaves_soon = soon and not self._drains
        limit = "" if wish.within_ms is None else f", after {wish.within_ms / 1000:g} s at the latest"
        if soon and self._member.view.learns and not self._drains:
            self._say(
                "it gets no more tasks, finishes its batch tasks, and leaves when others have learned and taken over"
                f" the rest{limit}"
            )
            self._record.write_again()
            if not self._leaves_soon:
                self._leaves_soon = True
                self._hands.let_failed_go()
                self._member.leave_soon(ASKED)
        elif not self._drains:
            how = f"this group learns no tasks, so {_DRAINS}{_GO_ON}" if soon else _DRAINS
            self._drain("" if wish.action is ControlAction.STOP else f"{how}{limit}")

    def _drain(self, how: str) -> None:
        running = in_short(sorted(self._hands.running), most=_MOST_NAMED)
        self._say(f"{how}; it still runs {running}" if how and running else how)
        self._record.slots = 0
        self._hands.drain()
        self._record.write_again()

    @staticmethod
    def _say(how: str) -> None:
        log.info("Somebody has asked this worker to leave its group%s", f": {how}" if how else "")

    def _is_overdue(self, wish: ControlRecord) -> bool:
        if wish.within_ms is None or self._since_ms is None or now_ms() - self._since_ms < wish.within_ms:
            return False
        if self._hands.running:
            log.warning(
                "This worker was to leave its group within %g s: it stops what it still runs, and leaves",
                wish.within_ms / 1000,
            )
        return True
