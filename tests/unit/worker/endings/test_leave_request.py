"""A worker that was asked to leave when others have learned what it has; where nobody learns, it drains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from fake_watch import FakeWatch
from told_membership import OtherLife, ToldMembership
from waiting import eventually
from worker_life import A0, A1, ME

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.membership import Membership, MembershipListener, MembershipView, Saved
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.runner import OnEvent
from airflow_provider.spark.runners.detached_queries import DetachedQueries
from airflow_provider.state.records import ControlAction, ControlRecord, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.values.model import NO_TASKS, Epoch
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.endings.handed_over import HandedOver
from airflow_provider.worker.hands.standby import InTriggerer

pytestmark = pytest.mark.turned_clock


class LearningMembership(ToldMembership):
    """One of a group that learns tasks before they move, as long as the test does not say otherwise."""

    def __init__(self, listener: MembershipListener, epoch: Epoch, *, learns: bool) -> None:
        super().__init__(listener, epoch)
        self.learns = learns
        self.leaves_soon: list[str] = []

    @property
    def view(self) -> MembershipView:
        view = super().view
        return MembershipView(
            epoch=view.epoch,
            member_id=view.member_id,
            owned=view.owned,
            stopping=view.stopping,
            settled=view.settled,
            leaving=view.leaving,
            learns=self.learns,
        )

    def leave_soon(self, reason: str) -> None:
        self.leaves_soon.append(reason)


class Protocol:
    """Makes them."""

    def __init__(self, *, learns: bool) -> None:
        self.learns = learns
        self.made: list[LearningMembership] = []

    def make(self, listener: MembershipListener, saved: Saved | None) -> Membership:
        epoch = Epoch(0 if saved is None else saved["held by a test"])
        self.made.append(LearningMembership(listener, epoch, learns=self.learns))
        return self.made[-1]

    def taken_over(self, saved: Saved) -> Saved:
        return saved


class LearningLife(OtherLife):
    def __init__(self, *, learns: bool = True) -> None:
        super().__init__()
        self.protocol = Protocol(learns=learns)  # type: ignore[assignment]

    @property
    def membership(self) -> LearningMembership:
        return self.protocol.made[-1]  # type: ignore[return-value]

    @property
    def said(self) -> WorkerStatus:
        return self.topics.status.workers[ME]

    async def runs_its_tasks(self) -> None:
        await self.submit(kind=TaskKind.STREAMING)
        self.begin()
        await eventually(lambda: self.membership.predecessor is not None, "it has begun")
        self.membership.assign(frozenset({A0, A1}))
        await self.runs(A0, A1)

    async def ask(self, action: ControlAction = ControlAction.LEAVE_SOON, within_ms: int | None = None) -> None:
        wish = ControlRecord(worker=ME, action=action, at_ms=wall_ms(), within_ms=within_ms)
        await self.topics.publish_control(wish)

    async def gives_up(self) -> None:
        """Others have learned what it has."""
        self.membership.stop(frozenset({A0, A1}), StopReason.REVOKED)
        await eventually(lambda: not self.membership.owned, "it has given them up")


@pytest.fixture
async def life() -> AsyncIterator[LearningLife]:
    made = LearningLife()
    await made.runs_its_tasks()
    yield made
    await made.cancel()


@pytest.fixture
async def unlearning() -> AsyncIterator[LearningLife]:
    made = LearningLife(learns=False)
    await made.runs_its_tasks()
    yield made
    await made.cancel()


def assert_gone(life: LearningLife, outcome: Outcome, left: LeaveReason) -> None:
    assert outcome.ending is Ending.LEFT, "its Airflow task ends with success"
    assert (life.said.state, life.said.left) == (WorkerPhase.LEFT, left)
    assert not life.topics.jobs.controls, "the wish is fulfilled"


async def test_it_goes_on_until_others_have_learned_what_it_has(
    life: LearningLife, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await life.ask()
    await eventually(lambda: life.membership.leaves_soon == ["an operator of the group asked for it"])
    await eventually(lambda: life.said.leaves_soon, "its record says so")
    assert (life.said.state, life.said.drains, life.said.left) == (WorkerPhase.STABLE, False, None)
    assert life.said.running == {A0, A1}
    assert "finishes its batch tasks, and leaves when others have learned and taken over the rest" in caplog.text

    await life.gives_up()
    assert not life.ended, "it is in the group as long as the leader does not let it go"
    life.membership.listener.may_leave()
    assert_gone(life, await life.outcome(), LeaveReason.DRAINED)
    assert len(life.membership.leaves_soon) == 1, "asked once"


async def test_it_gives_up_at_once_what_has_failed_for_good(life: LearningLife) -> None:
    """Nobody learns that, so its worker would never have nothing left."""
    life.runner.fail(A0, "boom", retryable=False)
    await eventually(lambda: life.state(A0) is TaskState.FAILED)
    assert life.membership.owned == {A0, A1}, "it keeps it, to try it again"
    await life.ask()
    await eventually(lambda: life.membership.owned == {A1})


async def test_what_comes_back_to_it_meanwhile_it_starts(life: LearningLife) -> None:
    """Nobody was ready: the leader gives it back, to one that leaves soon as to any other."""
    await life.ask()
    await eventually(lambda: life.membership.leaves_soon)
    await life.gives_up()
    life.membership.assign(frozenset({A0}))
    await life.runs(A0)


async def test_where_nobody_learns_it_drains_and_says_so(
    unlearning: LearningLife, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await unlearning.ask()
    await eventually(lambda: unlearning.said.drains, "its record says so")
    assert unlearning.said.leaves_soon, "and why"
    assert unlearning.membership.leaves_soon == []
    assert "this group learns no tasks, so it starts no more tasks, and leaves when" in caplog.text
    unlearning.runner.finish(A0)
    unlearning.runner.finish(A1)
    assert_gone(unlearning, await unlearning.outcome(), LeaveReason.DRAINED)


async def test_it_does_not_wait_for_streams_that_others_can_go_on_with() -> None:
    server = ConnectServer(host="server")
    watch = FakeWatch(lambda _news: None)

    async def settings_of(handle: QueryHandle) -> ConnectSettings:
        return ConnectSettings(server=handle.server)

    def make_queries(on_event: OnEvent) -> DetachedQueries:
        return DetachedQueries(on_event, own=server, settings_of=settings_of, make_watch=lambda _settings, _hear: watch)

    life = LearningLife(learns=False)
    life.make_queries = make_queries
    await life.runs_its_tasks()
    handle = QueryHandle(server=server, session_id="s", query_id="q", run_id="r")
    life.runner.detaches(A0, handle.to_json())
    await eventually(lambda: watch.watched, "it only watches that one")
    await life.ask()
    await eventually(lambda: life.said.drains)
    assert not life.ended, "the other one ends with it"
    life.runner.finish(A1)
    assert_gone(life, await life.outcome(), LeaveReason.DRAINED)
    await life.cancel()


async def test_a_group_that_learns_no_more_has_it_drain(life: LearningLife) -> None:
    """A worker that speaks no such protocol has joined."""
    await life.ask()
    await eventually(lambda: life.membership.leaves_soon)
    life.membership.learns = False
    life.membership.assign(NO_TASKS)
    await eventually(lambda: life.said.drains)
    life.membership.learns = True
    life.membership.assign(NO_TASKS)
    await eventually(lambda: life.said.epoch == 3)
    assert life.said.drains, "who drains goes on with that"


@pytest.mark.parametrize("learns", [True, False])
async def test_when_its_time_is_over_it_stops_what_it_runs_and_goes(
    learns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    life = LearningLife(learns=learns)
    await life.runs_its_tasks()
    await life.ask(within_ms=50)
    assert_gone(life, await life.outcome(), LeaveReason.STOPPED)
    assert [task for task, _ in life.runner.told] == [A0, A1]
    assert "after 0.05 s at the latest" in caplog.text
    assert "was to leave its group within 0.05 s: it stops what it still runs, and leaves" in caplog.text


async def test_a_later_wish_counts(life: LearningLife) -> None:
    await life.ask(within_ms=10**9)
    await eventually(lambda: life.membership.leaves_soon)
    await life.ask(ControlAction.DRAIN)
    await eventually(lambda: life.said.drains)
    assert not life.said.leaves_soon
    await life.ask()
    life.membership.assign(NO_TASKS)
    await eventually(lambda: life.said.epoch == 2)
    assert not life.said.leaves_soon, "who drains already does not say that it drains for want of learners"
    await life.ask(ControlAction.STOP)
    assert_gone(life, await life.outcome(), LeaveReason.STOPPED)


@pytest.mark.parametrize("learns", [True, False])
async def test_its_time_goes_on_in_the_next_process(learns: bool) -> None:
    life = LearningLife(learns=learns)
    await life.runs_its_tasks()
    life.membership.stop(frozenset({A0, A1}), StopReason.REVOKED)
    life.worker.hand_over()
    outcome = await life.outcome()
    assert outcome.saved is not None
    await life.ask(within_ms=60_000)
    asked = {**outcome.saved, "asked_since_ms": wall_ms() - 60_000}
    assert HandedOver.from_json(asked).to_json() == asked
    life.begin(asked)
    assert_gone(life, await life.outcome(), LeaveReason.STOPPED)


async def test_who_is_handed_over_says_since_when_it_knows(life: LearningLife) -> None:
    before = wall_ms()
    await life.ask(within_ms=60_000)
    await eventually(lambda: life.membership.leaves_soon)
    await life.gives_up()
    life.worker.hand_over()
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    assert outcome.saved is not None
    assert before - 50 <= outcome.saved["asked_since_ms"] <= wall_ms() + 50
    life.begin(outcome.saved)
    await eventually(lambda: life.membership.leaves_soon, "the next process goes on with it")
    life.membership.listener.may_leave()
    assert_gone(life, await life.outcome(), LeaveReason.DRAINED)


async def test_who_is_not_in_its_group_yet_goes_right_away(caplog: pytest.LogCaptureFixture) -> None:
    life = LearningLife(learns=False)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await eventually(lambda: life.membership.predecessor is not None)
    await life.ask()
    assert_gone(life, await life.outcome(), LeaveReason.DRAINED)


@pytest.mark.parametrize("learns", [True, False])
async def test_in_a_triggerer_it_goes_in_the_same_way(learns: bool) -> None:
    life = LearningLife(learns=learns)
    life.settings = replace(life.settings, phase=WorkerPhase.DEFERRED)
    life.make_hands = InTriggerer(lambda: 60.0).make_hands(life.settings, life.topics)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await eventually(lambda: life.membership.predecessor is not None)
    life.membership.assign(frozenset({A0}))  # which it may not give to a process yet
    await eventually(lambda: life.said.state is WorkerPhase.DEFERRED)
    await life.ask()
    if learns:
        await eventually(lambda: life.said.leaves_soon)
        assert not life.ended
        life.membership.stop(frozenset({A0}), StopReason.REVOKED)
        life.membership.listener.may_leave()
    assert_gone(life, await life.outcome(), LeaveReason.DRAINED)
    assert life.said.drains is not learns
