"""A worker in a declarative group with the real coordinator: from the first heartbeat to the last."""

from __future__ import annotations

import asyncio

import pytest
from declarative_life import SHORT_SESSION_MS, DeclarativeLife, living_declared
from stand_ins import IdleListener
from waiting import eventually
from worker_life import A0, A1, ME

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import Assignment, Group
from airflow_provider.group.declarative.assignors.facts import decode_facts
from airflow_provider.group.declarative.member.events import TasksDue
from airflow_provider.group.declarative.member.saved import save
from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.declarative.protocol.model import LEAVING
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.declarative import declarative_member
from airflow_provider.group.machine.events import Event
from airflow_provider.group.membership import Ended, HowEnded, MembershipListener
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.state.records import TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.task_progress.progress import converged
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks, WorkerId
from airflow_provider.worker.endings.ending import Ending

pytestmark = pytest.mark.turned_clock


class Recorder(IdleListener):
    """Remembers what it was told."""

    def __init__(self, ended: list[Ended]) -> None:
        self.epoch = Epoch(0)
        self._ended = ended

    def assigned(self, epoch: Epoch) -> None:
        self.epoch = epoch

    def ended(self, ended: Ended) -> None:
        self._ended.append(ended)


async def with_a_second(
    life: DeclarativeLife, listener: MembershipListener | None = None
) -> declarative_member.DeclarativeMember:
    """Another member, when it has got one of the two tasks."""
    second = life.others("w2").make(listener or IdleListener(), None)
    second.begin(Predecessor.GONE)
    await eventually(lambda: len(second.state.running) == 1, "one task has moved")
    return second


def _group(life: DeclarativeLife) -> GroupRecord:
    record = life.topics.status.group
    assert record is not None
    return record


async def test_it_joins_computes_runs_and_leaves() -> None:
    async with living_declared() as life:
        view = life.declarative.view
        assert (view.settled, view.owned, view.leaving) == (True, frozenset({A0, A1}), False)
        assert life.topics.status.workers[ME].member_id == view.member_id
        assert view.member_id.startswith(f"{ME}-")
        await eventually(lambda: _group(life).assignment == {ME: frozenset({A0, A1})}, "its record says so")
        record = _group(life)
        assert (record.leader, record.members, record.epoch) == (ME, {ME: view.member_id}, view.epoch)
        assert converged(record, life.topics.status.workers)
        life.worker.leave("enough")
        assert (await life.outcome()).ending is Ending.LEFT
        assert life.phase is WorkerPhase.LEFT
        assert not life.channel.coordinator.groups["g"].members


async def test_what_it_says_of_itself_as_it_joins_is_not_another_thing_later() -> None:
    async with living_declared(returns_ms=5_000) as life:
        said = {
            body.client_assignors
            for body in life.channel.asked
            if isinstance(body, ConnectGroupHeartbeatRequest) and body.client_assignors
        }
        assert len(said) == 1, "another word makes another epoch"
        first = next(iter(said))[0]
        facts = decode_facts(first.metadata, first.version)
        assert (facts.returns_ms, facts.slots) == (5_000, 2)
        assert life.topics.status.workers[ME].returns_ms == 5_000


async def test_a_coordinator_that_is_away_for_less_than_a_session_is_not_noticed() -> None:
    async with living_declared() as life:
        epoch, grant = life.declarative.state.epoch, life.worker.lease.grant
        asked = len(life.channel.asked)
        life.channel.away = True
        await eventually(lambda: len(life.channel.asked) > asked + 3, "it asks")
        life.channel.away = False
        await eventually(lambda: life.declarative.state.attempts == 0, "it is answered")
        assert (life.declarative.state.epoch, life.worker.lease.grant) == (epoch, grant)
        assert life.runner.running == {A0, A1}


async def test_one_that_is_away_for_longer_finds_everything_stopped_and_has_it_started_again() -> None:
    async with living_declared(SHORT_SESSION_MS) as life:
        grant = life.worker.lease.grant
        life.channel.away = True
        await eventually(lambda: not life.runner.running, "the lease is nearly over")
        await eventually(lambda: not life.channel.coordinator.groups["g"].members, "its session is over")
        life.channel.away = False
        await life.runs(A0, A1)
        assert life.worker.lease.grant > grant
        assert life.declarative.state.phase is Phase.STABLE


async def test_a_task_that_fails_and_is_retried_unseen_by_the_coordinator_runs_again_where_it_is() -> None:
    """As while another one takes over: what is configured is then what it was."""
    async with living_declared() as life:
        life.channel.close()
        life.runner.fail(A0, retryable=False)
        await eventually(lambda: life.topics.status.tasks[A0].state is TaskState.FAILED, "it has failed")
        assert await life.topics.retry_failed(A0.job, by="me") == (A0,)
        await life.runs(A0, A1)
        assert life.declarative.view.owned == {A0, A1}


async def test_what_has_ended_is_not_taken_back() -> None:
    """The coordinator does not know it yet."""
    async with living_declared() as life:
        life.channel.close()
        life.runner.finish(A0)
        await eventually(lambda: life.declarative.view.owned == {A1}, "it has ended")
        answered = life.declarative.state.seq
        await eventually(lambda: life.declarative.state.seq > answered + 5, "it has been answered since")
        assert life.runner.running == {A1}


async def test_what_ends_while_the_topics_are_read_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of its end come behind what was there when that began."""
    unread, looks = {A0, A1}, [asyncio.Event(), asyncio.Event()]
    due: list[Tasks] = []
    began = 0

    async def catch_up() -> None:
        nonlocal began
        began += 1
        await looks[began - 1].wait()

    async with living_declared() as life:
        life.channel.close()
        monkeypatch.setattr(declarative_member, "needs_running", lambda task, _jobs, _statuses: task in unread)
        monkeypatch.setattr(life.topics, "catch_up", catch_up)
        feed = life.declarative.feed

        def watched(event: Event) -> None:
            if isinstance(event, TasksDue):
                due.append(event.tasks)
            feed(event)

        monkeypatch.setattr(life.declarative, "feed", watched)
        life.runner.finish(A0)
        await eventually(lambda: began == 1, "it reads the topics")
        life.runner.finish(A1)
        await eventually(lambda: not life.declarative.view.owned, "both have ended")
        unread.discard(A0)
        looks[0].set()
        await eventually(lambda: began == 2, "it reads them again")
    assert due == []


async def test_it_is_handed_over_and_goes_on_as_the_same_member() -> None:
    async with living_declared() as life:
        member_id = life.declarative.view.member_id
        life.runner.finish(A0)
        life.runner.finish(A1)
        await eventually(lambda: life.declarative.view.owned == NO_TASKS, "nothing is left")
        life.worker.hand_over()
        outcome = await life.outcome()
        assert outcome.ending is Ending.HANDED_OVER
        assert outcome.saved is not None
        life.begin(outcome.saved)
        await eventually(lambda: life.declarative.state.phase is Phase.STABLE and life.declarative.view.settled)
        assert life.declarative.view.member_id == member_id
        assert list(life.channel.coordinator.groups["g"].members) == [member_id]


async def test_taken_over_it_takes_the_place_of_the_one_before_which_is_fenced() -> None:
    async with living_declared(SHORT_SESSION_MS) as life:
        first = life.declarative
        saved = save(first.state, now_ms=now_ms(), wall_ms=wall_ms())
        makes = life.memberships()
        second = makes.make(IdleListener(), {"group_protocol": "connect", **makes.taken_over(saved)})
        second.begin(Predecessor.GONE)
        await eventually(lambda: first.state.phase is Phase.FENCED, "the first one hears of it")
        await eventually(lambda: second.state.running == {A0, A1}, "the second one has what it had")
        assert list(life.channel.coordinator.groups["g"].members) == [second.view.member_id]
        assert (await life.outcome()).ending is Ending.FENCED
        await second.aclose()


@pytest.mark.parametrize(
    ("phase", "gone", "waits"),
    [
        (WorkerPhase.STABLE, True, False),
        (WorkerPhase.STABLE, False, True),
        (WorkerPhase.DEFERRED, True, True),
    ],
)
async def test_who_knows_that_its_former_process_has_ended_does_not_wait_for_its_session(
    phase: WorkerPhase, gone: bool, waits: bool
) -> None:
    async with living_declared(3 * SHORT_SESSION_MS) as life:
        killed = life.others("w2").make(IdleListener(), None)
        killed.begin(Predecessor.GONE)
        await eventually(lambda: len(killed.state.running) == 1, "one task has moved")
        said = WorkerStatus(
            worker=WorkerId("w2"), state=phase, epoch=killed.view.epoch, slots=2, member_id=killed.view.member_id
        )
        await life.topics.publish_worker(said)
        await killed.aclose()
        back = life.others("w2", is_gone=lambda _said: gone).make(IdleListener(), None)
        back.begin(Predecessor.GONE)
        await eventually(lambda: back.state.phase is Phase.STABLE, "it has joined")
        assert (killed.view.member_id in life.channel.coordinator.groups["g"].current) is waits
        await eventually(lambda: back.state.running == killed.state.running, "it has what it had")
        await eventually(lambda: life.runner.running | back.state.running == {A0, A1}, "and the other one what it had")
        await back.aclose()


async def test_a_membership_of_the_classic_protocol_is_refused() -> None:
    async with living_declared() as life:
        with pytest.raises(ValueError, match="'classic', but its worker uses 'connect'"):
            life.memberships().make(IdleListener(), {"v": 1})


async def test_two_share_and_the_one_that_leaves_says_why() -> None:
    async with living_declared() as life:
        ended: list[Ended] = []
        other = Recorder(ended)
        second = await with_a_second(life, other)
        assert life.declarative.state.owned | second.state.owned == {A0, A1}
        assert other.epoch > 0
        said = WorkerStatus(
            worker=WorkerId("w2"),
            state=WorkerPhase.STOPPING,
            epoch=second.view.epoch,
            slots=2,
            member_id=second.view.member_id,
            left=LeaveReason.STOPPED,
        )
        await life.topics.publish_worker(said)
        second.leave("enough")
        second.tasks_stopped(second.state.owned)
        await eventually(lambda: ended, "it has left")
        assert ended == [Ended(how=HowEnded.LEFT)]
        goodbye = [body for body in life.channel.asked if getattr(body, "member_epoch", 0) == LEAVING][-1]
        assert isinstance(goodbye, ConnectGroupHeartbeatRequest)
        assert goodbye.client_assignors is not None
        facts = decode_facts(goodbye.client_assignors[0].metadata, goodbye.client_assignors[0].version)
        assert facts.leaving is LeaveReason.STOPPED
        await life.runs(A0, A1)
        await second.aclose()


async def test_the_tasks_of_one_that_is_lost_wait_for_it_and_then_go_to_others() -> None:
    """Its delay is over when the member that has computed says so."""
    async with living_declared(SHORT_SESSION_MS) as life:
        second = await with_a_second(life)
        await second.aclose()
        await eventually(lambda: len(life.channel.coordinator.groups["g"].members) == 1, "its session is over")
        await life.runs(A0, A1)
        assert life.declarative.state.delay_passed_ms > 0


async def test_nothing_waits_for_one_whose_record_says_that_it_leaves_when_it_has_been_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last heartbeat did not say it. Who computes reads the topics before it takes a worker for lost."""
    async with living_declared(SHORT_SESSION_MS) as life:
        second = await with_a_second(life)
        said = WorkerStatus(
            worker=WorkerId("w2"),
            state=WorkerPhase.LEFT,
            epoch=second.view.epoch,
            slots=0,
            member_id=second.view.member_id,
            left=LeaveReason.STOPPED,
        )

        async def read_it(*, timeout_s: float | None = None) -> None:
            await life.topics.publish_worker(said)

        await second.aclose()
        monkeypatch.setattr(life.topics, "catch_up", read_it)
        await eventually(lambda: len(life.channel.coordinator.groups["g"].members) == 1, "its session is over")
        await life.runs(A0, A1)
        assert life.declarative.state.delay_passed_ms == 0


async def test_a_fault_of_the_program_ends_it_without_leaving(caplog: pytest.LogCaptureFixture) -> None:
    async with living_declared() as life:
        life.declarative.fail(RuntimeError("boom"))
        assert "ms, initial -> joining: Started(" in caplog.text, "the log tells what happened before"
        outcome = await life.outcome()
        assert (outcome.ending, outcome.error) == (Ending.FAILED, "a fault of this program: RuntimeError: boom")
        assert life.channel.coordinator.groups["g"].members


async def test_an_assignor_that_fails_leaves_everybody_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    async with living_declared() as life:

        def fails(self: CooperativeAssignor, group: Group) -> Assignment:
            raise RuntimeError("boom")

        monkeypatch.setattr(CooperativeAssignor, "assign", fails)
        await life.plan(3)
        await eventually(lambda: life.channel.coordinator.groups["g"].target.error, "the error is installed")
        assert life.runner.running == {A0, A1}
