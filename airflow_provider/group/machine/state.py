"""What the state of a membership has in every group protocol: above all its tasks and its lease."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct, structs

from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.settings import CommonSettings
from airflow_provider.values.model import NO_TASKS, ConfigOffset, LocalProtocolError, Tasks

if TYPE_CHECKING:
    from typing_extensions import Self


class CommonChanges(TypedDict, total=False):
    """The fields of a :class:`CommonState` that events change. Repeated for mypy, which can't derive such a type."""

    seq: int
    awaiting: int | None
    attempts: int
    config_offset: ConfigOffset
    needed_offset: ConfigOffset
    predecessor: Predecessor
    hold_until: int | None
    owned: Tasks
    held: Tasks
    stopping: Tasks
    just_released: Tasks
    lease_until: int | None
    heartbeat_at: int | None
    leave_by: int | None
    armed_at: int | None


class CommonState(Struct, frozen=True, kw_only=True):
    """All times are monotonic milliseconds; None: nothing is due.

    An owned task is in one of four stages. It runs (it is in ``owned`` only), is held, is stopping, or is both held and
    stopping: then a predecessor may still run it, and it is released when that one's lease has ended. The stages are
    sets instead of a value for each task, since most events concern many tasks and come with sets: assigned, revoked,
    stopped, or reported ones. So a step is one operation on sets, whatever their size, and states share what has not
    changed.

    :param phase: it ends in ``left``, ``fenced`` or ``failed``
    :param seq: the number of the last request or computation
    :param awaiting: ``seq`` of the one request whose answer is awaited (none of the classic protocol's heartbeats)
    :param attempts: how many requests have failed in succession
    :param config_offset: how far the jobs topic has been read
    :param needed_offset: held tasks start only when it has been read so far
    :param hold_until: the earliest start of held tasks that a predecessor may still run
    :param owned: what this worker has, running, held, or stopping; the group is told so
    :param held: the part of ``owned`` that may not be started yet, or has stopped again
    :param stopping: the part of ``owned`` that was told to stop, and has not yet
    :param just_released: what it has released since it last told the group what it owns (a join or, in a declarative
        group, a heartbeat); the answer to that may still name these
    :param lease_until: no other member can be given this one's tasks before then
    :param heartbeat_at: when to send the next heartbeat
    :param leave_by: when to give up waiting for the answer by which it leaves; None: it does not leave yet
    :param armed_at: the time for which the caller's timer is set
    """

    settings: CommonSettings
    phase: Enum
    seq: int = 0
    awaiting: int | None = None
    attempts: int = 0

    config_offset: ConfigOffset = ConfigOffset(0)
    needed_offset: ConfigOffset = ConfigOffset(0)
    predecessor: Predecessor = Predecessor.UNKNOWN
    hold_until: int | None = None

    owned: Tasks = NO_TASKS
    held: Tasks = NO_TASKS
    stopping: Tasks = NO_TASKS
    just_released: Tasks = NO_TASKS

    lease_until: int | None = None
    heartbeat_at: int | None = None
    leave_by: int | None = None
    armed_at: int | None = None

    def changed(self, changes: Mapping[str, object]) -> Self:
        """A copy with some fields changed.

        Every event changes some, and a triggerer holds thousands of memberships. So this is one of msgspec's values,
        which are copied ten times as fast as data classes.
        """
        return structs.replace(self, **changes)

    @property
    def running(self) -> Tasks:
        """What may be running here now, whatever is to become of it."""
        return self.owned - self.held

    @property
    def margin_ms(self) -> int:
        """How long before the end of the lease tasks are told to stop."""
        return self.settings.lease_margin_ms

    @property
    def lease_stop_at(self) -> int | None:
        """When tasks have to be told to stop if no heartbeat is answered before; None: nothing runs."""
        if self.lease_until is None or self.owned <= self.held | self.stopping:
            return None
        return self.lease_until - self.margin_ms

    def predecessor_may_run(self, now_ms: int) -> bool:
        """Whether the process that had this worker's name may still have a valid lease."""
        return self.hold_until is not None and now_ms < self.hold_until

    def next_deadline(self) -> int | None:
        """When the member has to be called again if nothing else happens."""
        raise NotImplementedError

    def check(self, invariants: Mapping[str, bool]) -> None:
        """Check invariants.

        :param invariants: those of one protocol, and whether they hold
        :raises LocalProtocolError: naming the broken one
        """
        of_all = {
            "held tasks are owned": self.held <= self.owned,
            "stopping tasks are owned": self.stopping <= self.owned,
        }
        for invariant, holds in {**of_all, **invariants}.items():
            if not holds:
                raise LocalProtocolError(f"{invariant}: {self}")
