"""A membership of another group protocol than Kafka's: what happens in it, the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from waiting import eventually
from worker_life import A0, A1, Life

from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.membership import (
    Ended,
    HowEnded,
    Membership,
    MembershipListener,
    Memberships,
    MembershipView,
    Saved,
)
from airflow_provider.kafka.clock import now_ms
from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import NO_TASKS, Epoch, MemberId, TaskId, Tasks

HELD: Final = "held by a test"


class ToldMembership:
    """A membership whose coordinator is the test (a :class:`Membership`)."""

    def __init__(self, listener: MembershipListener, epoch: Epoch) -> None:
        self.listener = listener
        self.predecessor: Predecessor | None = None
        self.epoch = epoch
        self.owned: Tasks = NO_TASKS
        self.stopping: Tasks = NO_TASKS
        self.leaving: str | None = None
        self.bug: BaseException | None = None
        self.lease_until_ms: int | None = None
        self.learned: list[Mapping[TaskId, float]] = []
        self.failed: Tasks = NO_TASKS

    @property
    def view(self) -> MembershipView:
        return MembershipView(
            epoch=self.epoch,
            member_id=MemberId(HELD),
            owned=self.owned,
            stopping=self.stopping,
            settled=self.epoch > 0 and not self.stopping,
            leaving=self.leaving is not None,
        )

    def begin(self, predecessor: Predecessor) -> None:
        self.predecessor = predecessor
        self.lease_until_ms = now_ms() + 60_000

    def tasks_stopped(self, tasks: Tasks) -> None:
        self.owned, self.stopping = self.owned - tasks, self.stopping - tasks
        if self.leaving is not None and not self.owned:
            asyncio.get_running_loop().call_soon(self.listener.ended, Ended(how=HowEnded.LEFT))

    tasks_finished = tasks_stopped

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        self.learned.append(progress)
        self.failed = failed

    def leave_soon(self, reason: str) -> None: ...

    def leave(self, reason: str) -> None:
        self.leaving = reason
        self.stop(self.owned, StopReason.LEAVING)
        self.tasks_stopped(NO_TASKS)

    def fail(self, bug: BaseException) -> None:
        self.bug = bug

    async def hand_over(self) -> Saved:
        return {HELD: self.epoch}

    async def aclose(self) -> None:
        self.lease_until_ms = None

    # ---- what the test says

    def assign(self, tasks: Tasks) -> None:
        self.epoch, self.owned = Epoch(self.epoch + 1), self.owned | tasks
        self.listener.start_tasks(tasks, self.epoch)
        self.listener.assigned(self.epoch)

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        self.stopping |= tasks
        self.listener.stop_tasks(tasks, reason)


class ToldProtocol:
    """Makes them (:class:`Memberships`)."""

    def __init__(self) -> None:
        self.made: list[ToldMembership] = []

    def make(self, listener: MembershipListener, saved: Saved | None) -> Membership:
        self.made.append(ToldMembership(listener, Epoch(0 if saved is None else saved[HELD])))
        return self.made[-1]

    def taken_over(self, saved: Saved) -> Saved:
        return saved


class OtherLife(Life):
    """A worker's life in that protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol = ToldProtocol()

    def memberships(self) -> Memberships:
        return self.protocol

    @property
    def membership(self) -> ToldMembership:
        return self.protocol.made[-1]


@asynccontextmanager
async def joining_elsewhere(linger_s: float = 60.0) -> AsyncIterator[OtherLife]:
    """It has begun, and nothing was assigned to it."""
    life = OtherLife()
    life.linger_s = linger_s
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await eventually(lambda: life.membership.predecessor is Predecessor.GONE, "it has begun")
    try:
        yield life
    finally:
        await life.cancel()


@asynccontextmanager
async def living_elsewhere(linger_s: float = 60.0) -> AsyncIterator[OtherLife]:
    """It has the tasks A0 and A1, and runs them."""
    async with joining_elsewhere(linger_s) as life:
        life.membership.assign(frozenset({A0, A1}))
        await life.runs(A0, A1)
        yield life
