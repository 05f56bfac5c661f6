"""A worker that is asked to leave its group: how it goes is decided by the product's own rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from airflow_provider.group.membership import MembershipView
from airflow_provider.membership.events import LeaveSoonRequested
from airflow_provider.membership.state import Phase
from airflow_provider.protocol.model import SubProtocol, Tasks
from airflow_provider.records import ControlAction, ControlRecord
from airflow_provider.worker.leave_request import ASKED, LeaveRequest

if TYPE_CHECKING:
    from simulation.process import Process


class Asked:
    """What a process knows of a wish that its worker leaves; and, for that rule, its record, hands and membership.

    :ivar slots: how many tasks it runs at the same time, of those that it starts
    :ivar leaves_soon: whether it says that it goes when others have learned what it has
    """

    def __init__(self, process: Process) -> None:
        self.slots = process.world.slots
        self.leaves_soon = False
        self.wish: ControlRecord | None = None
        self._process = process
        self._looks = False
        here = cast("Any", self)
        self._leave_request = LeaveRequest(here, here, here, self.look_later)

    def ask(self, action: ControlAction) -> None:
        """Somebody wishes that the worker leaves."""
        self.wish = ControlRecord(worker=self._process.worker, action=action, at_ms=0)
        self.look_later()

    def go_on(self, before: Asked) -> None:
        """Another process has held the membership."""
        self.wish = before.wish
        self.look_later()

    def may_leave(self) -> None:
        self._leave_request.nothing_left()

    def look_later(self) -> None:
        """In another turn of the worker's loop."""
        if self.wish is not None and not self._looks:
            self._looks = True
            self._process.world.clock.after(0, lambda: self._process.when_awake(self._look))

    def _look(self) -> None:
        self._looks = False
        process, wish = self._process, self.wish
        assert wish is not None
        if not process.in_group or process.state.phase in (Phase.INITIAL, Phase.LEAVING):
            return
        absence = self._leave_request.decide(wish)
        if absence is not None:
            process.leave(absence, ASKED)

    # ---- what the rule asks, and has done

    @property
    def running(self) -> Tasks:
        return self._process.tasks.active

    @property
    def attached(self) -> Tasks:
        """Nothing here goes on without its process."""
        return self.running

    @property
    def view(self) -> MembershipView:
        state = self._process.state
        return MembershipView(
            epoch=state.epoch,
            member_id=state.member_id,
            owned=state.owned,
            stopping=state.stopping,
            settled=False,
            leaving=False,
            learns=state.protocol is SubProtocol.EXTENSIBLE,
        )

    def drain(self) -> None:
        self._process.tasks.drain()

    def leave_for_good(self) -> None: ...

    def let_failed_go(self) -> None:
        self._process.tasks.let_failed_go()

    def say_again(self) -> None:
        self._process.say_again()

    def leave_soon(self, reason: str) -> None:
        self._process.feed(LeaveSoonRequested(now_ms=self._process.now, reason=reason))
