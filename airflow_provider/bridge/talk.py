"""What the bridge of a group says to its coordinator, by what its membership in the classic group tells it. No I/O.

A task that classic workers have given to it is *given*; one that it has to give up, or that has come to its end, it
*stops*: the coordinator says when nobody runs it or will be given it, and then the bridge lets go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from airflow_provider.coordinator.events import BridgeAsks, BridgeLost, BridgeSaid, ToBridge
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.bridge import BRIDGE, bridge_url
from airflow_provider.protocol.holding import StopReason
from airflow_provider.protocol.model import NO_TASKS, Epoch, TaskId, Tasks
from airflow_provider.shards.bridges import PutWord


class BridgeMembership(Protocol):
    """What a bridge needs of its membership in the classic group."""

    @property
    def leaving(self) -> bool: ...

    @property
    def lease_until_ms(self) -> int | None: ...

    def tasks_stopped(self, tasks: Tasks) -> None: ...

    def tasks_finished(self, tasks: Tasks) -> None: ...

    def say(self, url: str) -> None:
        """Join again, with this url, if it is another one than before."""

    def leave(self, reason: str) -> None: ...


class BridgeTalk:
    """Of one bridge.

    :param claims: what the members of the declarative group may run as it begins
    :param put: takes what it says
    :param now_ms: the clock of leases
    :param last: the record of the last classic round that is known as it begins
    :ivar asks: what it would let go of
    :ivar members: for how many declarative workers it stands
    """

    def __init__(
        self,
        group_id: str,
        claims: Tasks,
        membership: BridgeMembership,
        put: PutWord,
        now_ms: Callable[[], int],
        last: ClassicRecord | None = None,
    ) -> None:
        self._group_id: Final = group_id
        self._membership: Final = membership
        self._put: Final = put
        self._now_ms: Final = now_ms
        self._given = set(claims)
        self._stops: dict[TaskId, int] = {}
        self._finished: set[TaskId] = set()
        self._number = 0
        self._is_in = False
        self._claims = claims
        self._last = last
        self._said: BridgeSaid | None = None
        self.epoch = Epoch(0)
        self.members = self._counted = 1
        self.asks = BridgeAsks()

    # ---- what the coordinator says

    def hear(self, asked: BridgeAsks, answer: ToBridge) -> Tasks:
        """What it has committed.

        :param asked: what this is the answer to: what has been asked for since, may be run again
        :returns: what was let go of
        """
        self.members = max(1, answer.members)
        free = frozenset(task for task in answer.free if self._stops.get(task, asked.number + 1) <= asked.number)
        finished, stopped = free & self._finished, free - self._finished
        for task in free:
            del self._stops[task]
        self._finished -= finished
        self._ask()
        if finished:
            self._membership.tasks_finished(finished)
        if stopped:
            self._membership.tasks_stopped(stopped)
        if not answer.members:
            if not self._membership.leaving:
                self._membership.leave("the last declarative worker has left")
        elif answer.wants_epoch or self.members != self._counted:
            self._counted = self.members
            self._membership.say(bridge_url(self.members, self.epoch))
        return free

    # ---- what its membership says

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        self._given |= tasks
        for task in tasks:
            self._stops.pop(task, None)
        self._finished -= tasks
        self.epoch = max(self.epoch, epoch)
        self._ask()
        self.say()

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        self._finished -= tasks
        self._give_up(tasks)
        if reason.ends_lease and not (reason is StopReason.LEAVING and self._is_in):
            self._is_in, self._said = False, None
            self._lose()
        else:
            self.say()

    def assigned(self, epoch: Epoch) -> None:
        if self._claims and self._missed_rounds_before(epoch):
            self._lose()
        self._claims = NO_TASKS
        self._is_in = True
        self.epoch = max(self.epoch, epoch)
        self.say()

    def read(self, record: ClassicRecord) -> None:
        """The record of a classic round. Until the bridge is in, such a round may have given away what it claims."""
        if self._claims and (BRIDGE not in record.members or self._missed_rounds_before(record.epoch)):
            self._lose()
        self._last = record

    def _missed_rounds_before(self, epoch: Epoch) -> bool:
        """Whether there were rounds whose records are unknown: they may have given away what it claims."""
        return self._last is not None and epoch > self._last.epoch + 1

    # ---- what it says

    def look(self, configured: Tasks) -> None:
        """What has come to its end needs no round, but the declarative group goes on without it."""
        over = frozenset(self._given) - configured
        if over and self._is_in:
            self._finished |= over
            self._give_up(over)
        self.say()

    def say(self) -> None:
        """Not before it has its assignment: until then nobody knows what others have been given."""
        lease_until_ms = self._membership.lease_until_ms
        if not self._is_in or lease_until_ms is None:
            return
        tasks, said = frozenset(self._given), self._said
        if said is not None and said.tasks == tasks:
            tasks = said.tasks
            if (said.epoch, said.lease_until_ms) == (self.epoch, lease_until_ms):
                return
        self._said = BridgeSaid(
            now_ms=self._now_ms(),
            group_id=self._group_id,
            epoch=self.epoch,
            tasks=tasks,
            lease_until_ms=lease_until_ms,
        )
        self._put(self._said)

    def _lose(self) -> None:
        self._claims = NO_TASKS
        self._put(BridgeLost(now_ms=self._now_ms(), group_id=self._group_id))

    def _give_up(self, tasks: Tasks) -> None:
        self._given -= tasks
        self._number += 1
        self._stops.update(dict.fromkeys(tasks, self._number))
        self._ask()

    def _ask(self) -> None:
        self.asks = BridgeAsks(frozenset(self._stops), self._number)


def still_claimed(claims: Tasks, last: ClassicRecord | None, group_id: str, put: PutWord, now_ms: int) -> Tasks:
    """What a bridge that begins may claim. If the group has gone on without one, that one's lease is over, and others
    have been given what it had: then its coordinator hears that it was lost.

    :param last: the record of the last classic round that is known
    """
    if not claims or last is None or BRIDGE in last.members:
        return claims
    put(BridgeLost(now_ms=now_ms, group_id=group_id))
    return NO_TASKS
