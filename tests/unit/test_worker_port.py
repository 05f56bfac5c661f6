"""A worker of another group protocol than Kafka's: it knows of its membership what the port says, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from waiting import eventually
from worker_life import A0, A1, ME, Life

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
from airflow_provider.ledger.records import TaskKind, WorkerPhase
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import NO_TASKS, Epoch, MemberId, TaskId, Tasks
from airflow_provider.worker.ending import Ending
from airflow_provider.worker.handed_over import HandedOver

HELD = "held by a test"


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

    def learning_progressed(self, progress: Mapping[TaskId, float]) -> None: ...

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


@pytest.fixture
async def life() -> AsyncIterator[OtherLife]:
    async with _living() as life:
        yield life


@asynccontextmanager
async def _living(linger_s: float = 60.0) -> AsyncIterator[OtherLife]:
    life = OtherLife()
    life.linger_s = linger_s
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await eventually(lambda: life.membership.predecessor is Predecessor.GONE, "it has begun")
    life.membership.assign(frozenset({A0, A1}))
    await life.runs(A0, A1)
    try:
        yield life
    finally:
        await life.cancel()


async def test_it_runs_what_it_is_assigned_and_gives_up_what_is_revoked(life: OtherLife) -> None:
    grant = life.worker.lease.grant
    life.membership.stop(frozenset({A0}), StopReason.REVOKED)
    await eventually(lambda: life.membership.owned == {A1}, "it is released")
    assert life.worker.lease.grant == grant, "what goes on is held as before"
    life.membership.assign(NO_TASKS)
    await eventually(lambda: life.topics.status.workers[ME].owned == {A1}, "and its record says so")
    said = life.topics.status.workers[ME]
    assert (said.epoch, said.member_id, said.state) == (2, HELD, WorkerPhase.STABLE)


@pytest.mark.parametrize("reason", list(StopReason))
async def test_the_reason_says_whether_the_lease_is_another_one_afterwards(life: OtherLife, reason: StopReason) -> None:
    grant = life.worker.lease.grant
    life.membership.stop(frozenset({A0, A1}), reason)
    assert (life.worker.lease.grant > grant) == (
        reason not in (StopReason.REVOKED, StopReason.LEARNED, StopReason.EAGER)
    )


async def test_it_leaves_when_everything_has_stopped(life: OtherLife) -> None:
    life.runner.stubborn.add(A1)
    life.worker.leave("enough")
    await eventually(lambda: life.membership.owned == {A1})
    assert not life.ended
    life.runner.let_go(A1)
    assert (await life.outcome()).ending is Ending.LEFT
    assert life.membership.leaving == "enough"


@pytest.mark.parametrize(("how", "ending"), [(HowEnded.FENCED, Ending.FENCED), (HowEnded.FAILED, Ending.FAILED)])
async def test_how_its_membership_ends_is_how_it_ends(life: OtherLife, how: HowEnded, ending: Ending) -> None:
    life.membership.stop(life.membership.owned, StopReason.FENCED)
    life.membership.listener.ended(Ended(how=how, error="no such member"))
    outcome = await life.outcome()
    assert (outcome.ending, outcome.error) == (ending, "no such member")


async def test_what_its_membership_saves_comes_back_to_it_unseen() -> None:
    async with _living(linger_s=0.0) as life:
        life.membership.stop(life.membership.owned, StopReason.REVOKED)
        outcome = await life.outcome()
        assert outcome.ending is Ending.HANDED_OVER
        assert outcome.saved is not None
        assert HandedOver.from_json(outcome.saved).membership == {HELD: 1}
        life.begin(outcome.saved)
        assert life.membership.epoch == 1
