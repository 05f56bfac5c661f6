"""Translates between the bridge's membership in the classic group and its coordinator. No I/O.

The tasks that classic rounds have given to the bridge are *given*. A task that it has to give up, or that has ended,
*stops*: the coordinator says when no member runs it or will be assigned it, and then the bridge releases it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from airflow_provider.group.declarative.coordinator.events import (
    BridgeAsks,
    BridgeClaims,
    BridgeLost,
    BridgeSaid,
    ToBridge,
)
from airflow_provider.group.declarative.server.migration.bridges import PutWord
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.bridge import BRIDGE, bridge_url
from airflow_provider.values.model import Epoch, TaskId, Tasks


class BridgeMembership(Protocol):
    """What a bridge needs of its membership in the classic group."""

    @property
    def leaving(self) -> bool: ...

    @property
    def lease_until_ms(self) -> int | None:
        """Until when the lease is valid, by the clock of leases; None: there is none."""

    def tasks_stopped(self, tasks: Tasks) -> None: ...

    def tasks_finished(self, tasks: Tasks) -> None: ...

    def say(self, url: str) -> None:
        """Join again if this url differs from the last one."""

    def leave(self, reason: str) -> None: ...


class BridgeTalk:
    """The state of one bridge.

    :param claims: what it says it owns when it begins
    :param put: takes what the bridge tells its coordinator
    :param now_ms: the clock of leases
    :param last: the record of the last known classic round when it begins
    :ivar asks: the tasks that it wants to release
    :ivar epoch: the epoch of the last classic round that it took part in
    :ivar members: how many declarative workers it stands for
    """

    def __init__(
        self,
        group_id: str,
        claims: BridgeClaims,
        membership: BridgeMembership,
        put: PutWord,
        now_ms: Callable[[], int],
        last: ClassicRecord | None = None,
    ) -> None:
        self._group_id: Final = group_id
        self._membership: Final = membership
        self._put: Final = put
        self._now_ms: Final = now_ms
        self._given = set(claims.tasks)
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
        """Take what the coordinator has committed.

        :param asked: the question that this answers. Tasks that stop since a later question are not released
        :returns: the released tasks
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

    # ---- called by the membership

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        """Take tasks that a classic round has given to the bridge."""
        self._given |= tasks
        for task in tasks:
            self._stops.pop(task, None)
        self._finished -= tasks
        self.epoch = max(self.epoch, epoch)
        self._ask()
        self.say()

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        """Give up tasks. If the lease is over, the bridge is lost."""
        self._finished -= tasks
        self._give_up(tasks)
        if reason.ends_lease and not (reason is StopReason.LEAVING and self._is_in):
            self._is_in, self._said = False, None
            self._lose()
        else:
            self.say()

    def assigned(self, epoch: Epoch) -> None:
        """Note that the bridge has its assignment of a classic round: it is in the group."""
        if self._claims.tasks and self._missed_rounds_before(epoch):
            self._lose()
        self._claims = BridgeClaims()
        self._is_in = True
        self.epoch = max(self.epoch, epoch)
        self.say()

    def read(self, record: ClassicRecord) -> None:
        """Read the record of a classic round. Before the bridge is in the group, such a round may have given the
        claimed tasks to others.
        """
        if self._claims.tasks and (_may_be_void(self._claims, record) or self._missed_rounds_before(record.epoch)):
            self._lose()
        self._last = record

    def _missed_rounds_before(self, epoch: Epoch) -> bool:
        """Whether there were rounds without a known record. They may have given the claimed tasks to others."""
        return self._last is not None and epoch > self._last.epoch + 1

    # ---- what it says

    def look(self, configured: Tasks) -> None:
        """Give up tasks that have ended, and report the lease.

        In the classic group, the end of a task needs no round, but in the declarative group it is a change.
        """
        over = frozenset(self._given) - configured
        if over and self._is_in:
            self._finished |= over
            self._give_up(over)
        self.say()

    def say(self) -> None:
        """Tell the coordinator the tasks and the lease, if they have changed. Before the bridge has its assignment, it
        is not known which tasks others were given.
        """
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
        self._claims = BridgeClaims()
        self._put(BridgeLost(now_ms=self._now_ms(), group_id=self._group_id))

    def _give_up(self, tasks: Tasks) -> None:
        self._given -= tasks
        self._number += 1
        self._stops.update(dict.fromkeys(tasks, self._number))
        self._ask()

    def _ask(self) -> None:
        self.asks = BridgeAsks(frozenset(self._stops), self._number)


def still_claimed(
    claims: BridgeClaims, last: ClassicRecord | None, group_id: str, put: PutWord, now_ms: int
) -> BridgeClaims:
    """What a new bridge may claim, and tell the coordinator if the former bridge was lost, or may have been.

    If the last round took place without a bridge, the former one's lease is over and others were given its tasks: then
    it may claim nothing. If that is only possible, it claims them, because members may still run them.

    :param last: the record of the last known classic round
    """
    if not claims.tasks or last is None or not _may_be_void(claims, last):
        return claims
    put(BridgeLost(now_ms=now_ms, group_id=group_id))
    return claims if BRIDGE in last.members else BridgeClaims()


def _may_be_void(claims: BridgeClaims, last: ClassicRecord) -> bool:
    """Whether rounds may have taken place without a bridge, so that its lease was over and others were given its tasks.
    There may be a bridge again: one whose coordinator has ended before it recorded the loss.
    """
    since = last.bridged_since
    return BRIDGE not in last.members or (since is not None and since > claims.epoch)
