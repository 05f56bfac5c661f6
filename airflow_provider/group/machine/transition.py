"""One transition of a member machine: the state while an event is handled, and the steps that all protocols share."""

from __future__ import annotations

import zlib
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import ArmTimer, Command, Fail, PublishAssignment, StartTasks, StopTasks
from airflow_provider.group.machine.state import CommonChanges, CommonState
from airflow_provider.values.model import NO_TASKS, ConfigOffset, Epoch, Tasks

if TYPE_CHECKING:
    from typing_extensions import Unpack

S = TypeVar("S", bound=CommonState)


class CommonTransition(Generic[S]):
    """The state while an event is handled, and the resulting commands.

    Steps change the state and add commands. They never read a clock: ``now`` is the event's.
    """

    __slots__ = ("_changes", "_state", "commands", "now")

    def __init__(self, state: S, now_ms: int) -> None:
        self._state = state
        self._changes: dict[str, object] = {}
        self.now = now_ms
        self.commands: list[Command] = []

    @property
    def state(self) -> S:
        """The state after the last step. It is made on demand, so that several changes make one new value."""
        if self._changes:
            self._state, self._changes = self._state.changed(self._changes), {}
        return self._state

    def do(self, command: Command) -> None:
        """Add a command."""
        self.commands.append(command)

    def set(self, **changes: Unpack[CommonChanges]) -> None:
        """Change fields that all protocols have."""
        self._changes.update(changes)

    # ---- requests and timers

    def next_seq(self) -> int:
        """Number another request."""
        seq = self.state.seq + 1
        self.set(seq=seq)
        return seq

    def next_try_at(self) -> int:
        """Count a failed request, and return when to try it again.

        The wait doubles with each failure. It is spread by up to 20 % by the worker's name, so that not all workers try
        at the same time.
        """
        settings, attempts = self.state.settings, self.state.attempts
        wait = min(settings.retry_backoff_max_ms, settings.retry_backoff_ms << min(attempts, 20))
        spread = zlib.crc32(f"{settings.worker}/{attempts}".encode()) % 400 - 200
        self.set(attempts=attempts + 1)
        return self.now + wait + wait * spread // 1000

    def arm(self) -> None:
        """Ask for a timer at the next deadline, if it is not the one that was asked for already."""
        due = self.state.next_deadline()
        if due is not None and due != self.state.armed_at:
            self.set(armed_at=due)
            self.do(ArmTimer(at_ms=due))

    # ---- tasks

    @property
    def predecessor_may_run(self) -> bool:
        """Whether the process that had this worker's name may still have a valid lease."""
        return self.state.predecessor_may_run(self.now)

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        """Tell tasks to stop.

        Tasks that a predecessor may still run can't be told to. They stay held, and are released when that one's lease
        has ended.
        """
        tasks = (tasks & self.state.owned) - self.state.stopping
        if not tasks:
            return
        self.set(stopping=self.state.stopping | tasks)
        here = tasks - self.state.held if self.predecessor_may_run else tasks
        if here:
            self.set(held=self.state.held - here)
            self.do(StopTasks(tasks=here, reason=reason))

    def hold(self, tasks: Tasks) -> None:
        """Own more tasks, which do not start yet."""
        if tasks:
            self.set(owned=self.state.owned | tasks, held=self.state.held | tasks)

    def start(self, epoch: Epoch, *, spare_ms: int) -> None:
        """Start held tasks, if the jobs topic is read far enough, the lease is valid, and no predecessor may still run.

        After an answer that took most of a session, the lease is about to end. Tasks started then would have to stop
        before another heartbeat could be answered, so they start after the next answer.

        :param epoch: from which on the tasks belong to this worker
        :param spare_ms: how much of the lease must be left
        """
        state = self.state
        startable = state.held - state.stopping
        if not startable or state.config_offset < state.needed_offset or self.predecessor_may_run:
            return
        if state.lease_until is None or self.now >= state.lease_until - spare_ms:
            return
        self.set(held=state.held - startable)
        self.do(StartTasks(tasks=startable, epoch=epoch))

    def released(self, tasks: Tasks) -> None:
        """Note that tasks do not run here any more."""
        state = self.state
        here = tasks & state.owned
        if here:
            self.set(
                owned=state.owned - here,
                held=state.held - here,
                stopping=state.stopping - here,
                just_released=state.just_released | here,
            )

    def publish(self, epoch: Epoch) -> None:
        """Publish in the worker's own record what it owns in this epoch."""
        self.do(PublishAssignment(epoch=epoch, owned=self.state.owned, revoking=self.state.stopping))

    def note_config(self, offset: ConfigOffset) -> None:
        """Note how far the jobs topic has been read."""
        self.set(config_offset=max(self.state.config_offset, offset))

    # ---- the lease, and endings

    def lease_from(self, sent_at_ms: int, session_ms: int) -> int:
        """The end of the lease after the answer to a heartbeat: the coordinator got that later, so it waits longer."""
        until = sent_at_ms + session_ms
        return until if self.state.lease_until is None else max(until, self.state.lease_until)

    def stop_for_good(self, reason: StopReason) -> None:
        """Stop all tasks; those of a predecessor, too, because nobody waits for it here any more."""
        self.set(hold_until=None)
        self.stop(self.state.owned, reason)

    def own_nothing(self) -> None:
        """Give up all tasks without waiting for them to stop."""
        self.set(owned=NO_TASKS, held=NO_TASKS, stopping=NO_TASKS)

    def enter_final_phase(self, phase: Enum, error: str | None) -> None:
        """End the membership in this phase: send nothing more.

        :param error: why it has failed; None: it has not
        """
        self.set(awaiting=None, lease_until=None, heartbeat_at=None, leave_by=None)
        self._changes["phase"] = phase  # each protocol has its own phases
        if error is not None:
            self.do(Fail(error=error))
