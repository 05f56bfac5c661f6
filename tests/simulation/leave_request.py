"""A worker that is asked to leave its group: the product's own rule decides how it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from airflow_provider.group.classic.member.events import LeaveSoonRequested
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.membership import MembershipView
from airflow_provider.state.records import ControlAction, ControlRecord, TaskKind
from airflow_provider.values.model import Tasks
from airflow_provider.worker.endings.leave_request import ASKED, LeaveRequest

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World


class Asked:
    """The request as its process knows it; for the product's rule, also the worker's record, hands and membership.

    :ivar slots: how many tasks it may run at the same time
    :ivar leaves_soon: whether it reports that it leaves when others have learned what it does not finish
    """

    def __init__(self, process: Process) -> None:
        self.slots = process.slots
        self.leaves_soon = False
        self.wish: ControlRecord | None = None
        self._process = process
        self._looks = False
        here = cast("Any", self)
        self._leave_request = LeaveRequest(here, here, here, self.look_later)

    def ask(self, action: ControlAction) -> None:
        """Somebody asks the worker to leave."""
        self.wish = ControlRecord(worker=self._process.worker, action=action, at_ms=0)
        self.look_later()

    def go_on(self, before: Asked) -> None:
        """Take over from the process that had the membership before."""
        self.wish = before.wish
        self.look_later()

    def may_leave(self) -> None:
        self._leave_request.nothing_left()

    def look_later(self) -> None:
        """Look in another turn of the worker's loop."""
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

    # ---- what the rule reads and calls

    @property
    def running(self) -> Tasks:
        return self._process.tasks.active

    @property
    def attached(self) -> Tasks:
        """No task here is detached."""
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
            learns=state.learns,
        )

    def drain(self) -> None:
        self._process.tasks.drain()

    def leave_for_good(self) -> None: ...

    def let_failed_go(self) -> None:
        self._process.tasks.let_failed_go()

    def write_again(self) -> None:
        self._process.say_again()

    def leave_soon(self, reason: str) -> None:
        self._process.feed(LeaveSoonRequested(now_ms=self._process.now, reason=reason))


def finish_what_drains(world: World) -> bool:
    """Finish the tasks that draining workers still run, and the batch tasks of those that leave soon."""
    streams = {job for job, defined in world.jobs.newest.jobs.items() if defined.kind is TaskKind.STREAMING}
    for process in world.members:
        drains = process.asked.slots == 0
        if (drains or process.asked.leaves_soon) and not process.asleep:
            for task in list(process.running):
                if drains or task.job not in streams:
                    process.tasks.finish(task)
    return False
