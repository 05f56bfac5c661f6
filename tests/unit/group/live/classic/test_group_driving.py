"""Who drives a membership, and from when on nobody does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stand_ins import IdleListener, MemoryTopics, SlowCoordinator
from turned_clock import CLOCK, time_passes
from waiting import eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.events import Resumed
from airflow_provider.group.classic.member.lessons import Lessons
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.membership import Ended, HowEnded
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.topics.errors import ReaderFaultError, TopicError
from airflow_provider.state.records import Lesson, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, TaskId, WorkerId

pytestmark = pytest.mark.turned_clock

SETTINGS = MemberSettings(group_id="g", worker=WorkerId("w"))


class HearsItsEnd(IdleListener):
    def __init__(self) -> None:
        self.ends: list[Ended] = []

    def ended(self, ended: Ended) -> None:
        self.ends.append(ended)


@pytest.fixture
def listener() -> HearsItsEnd:
    return HearsItsEnd()


@pytest.fixture
async def member(coordinator: SlowCoordinator, topics: MemoryTopics, listener: HearsItsEnd) -> GroupMember:
    transport: Any = coordinator
    return GroupMember(MemberState(settings=SETTINGS), transport, topics, listener, policy=Deferred())


def begin(member: GroupMember) -> None:
    member.begin(Predecessor.GONE)


async def test_an_answer_that_comes_after_the_hand_over_sets_nothing_going_again(
    member: GroupMember, coordinator: SlowCoordinator, topics: MemoryTopics
) -> None:
    """Two would speak as one member. A leader that hands over waits for its record to be written, and answers come."""
    topics.takes_s = 0.3
    begin(member)
    await eventually(
        lambda: member.state.phase is Phase.STABLE and topics.status.group is None, "its record is on its way"
    )
    coordinator.hears.clear()
    sent = coordinator.heartbeats
    await eventually(lambda: coordinator.heartbeats > sent, "a heartbeat is on its way")
    handing_over = asyncio.ensure_future(member.hand_over())
    await asyncio.sleep(0)
    coordinator.heartbeats_say = KafkaErrorCode.REBALANCE_IN_PROGRESS
    coordinator.hears.set()
    saved = await handing_over
    assert topics.status.group is not None, "the one who goes on needs it"
    assert saved["generation"] == coordinator.generation == 1, "it joined nothing any more"
    assert member.state.phase is Phase.STABLE
    assert member.lease_until_ms is None, "whatever still runs in this process must not write"
    heartbeats = coordinator.heartbeats
    await time_passes(60)
    assert coordinator.heartbeats == heartbeats


async def test_a_leader_that_ends_before_its_record_is_written_names_the_epoch(
    member: GroupMember, topics: MemoryTopics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.takes_s = 3_600
    begin(member)
    await eventually(lambda: member.state.phase is Phase.STABLE, "its record is on its way")
    await member.aclose()
    assert topics.status.group is None
    assert "group g: the record of epoch 1 was not confirmed before its leader ended" in caplog.text


async def test_who_goes_on_with_what_others_are_ready_for_hears_of_it_after_its_own_beginning(
    coordinator: SlowCoordinator, topics: MemoryTopics
) -> None:
    task, other = TaskId("a", 0), WorkerId("other")
    lesson = Lesson(task, 1.0, ready=True)
    await topics.publish_worker(
        WorkerStatus(worker=other, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1, learning=(lesson,))
    )
    state = MemberState(settings=SETTINGS, owned=frozenset({task}), lessons=Lessons(learned=frozenset({task})))
    transport: Any = coordinator
    member = GroupMember(state, transport, topics, IdleListener(), policy=Deferred(), opening=Resumed)
    coordinator.answers.clear()  # a round would begin anew with what is learned
    begin(member)
    await eventually(lambda: member.state.lessons.known_ready == {task}, "it has heard of it")
    assert member.state.phase is not Phase.INITIAL
    await member.aclose()


@pytest.mark.parametrize("topic", ["jobs", "status"])
async def test_a_member_whose_topics_are_read_no_more_ends_rather_than_go_on_by_what_it_knew(
    member: GroupMember, topics: MemoryTopics, listener: HearsItsEnd, topic: str
) -> None:
    begin(member)
    await eventually(lambda: member.state.phase is Phase.STABLE, "it is in its group")
    getattr(topics._followed(), topic).fail(TopicError("not read just now; trying again"))
    await time_passes(60)
    assert member.lease_until_ms is not None, "that may be mended"
    getattr(topics._followed(), topic).fail(ReaderFaultError(f"g.{topic}", "RuntimeError()"))
    await eventually(lambda: listener.ends, "it ends")
    (ended,) = listener.ends
    assert ended.how is HowEnded.FAILED
    assert f"'g.{topic}' is no longer read" in str(ended.error)
    await member.aclose()


async def test_who_leaves_gives_up_a_join_that_was_not_answered(
    member: GroupMember, coordinator: SlowCoordinator
) -> None:
    """If it were sent after LeaveGroup, the group would have a member again, and wait a session for it."""
    coordinator.answers.clear()
    begin(member)
    await eventually(lambda: coordinator.joins == ["waits"], "it joins")
    member.leave("enough")
    await eventually(lambda: member.state.phase is Phase.LEFT, "it has left")
    assert coordinator.joins == ["given up"]
    assert coordinator.left == ["enough"]
    await member.aclose()


async def test_of_a_missing_right_is_said_who_has_to_get_it(
    member: GroupMember, coordinator: SlowCoordinator, listener: HearsItsEnd
) -> None:
    coordinator.joins_say = KafkaErrorCode.GROUP_AUTHORIZATION_FAILED
    begin(member)
    await eventually(lambda: listener.ends, "it ends")
    assert str(listener.ends[0].error).endswith("; grant it to User:etl")
    await member.aclose()


async def test_that_nobody_answers_is_said_once_and_that_it_is_back_too(
    member: GroupMember, coordinator: SlowCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    coordinator.away = TransportError("connection refused", fault=Fault.CONNECTION)
    begin(member)
    await eventually(lambda: member.state.attempts >= 2, "it tries again and again")
    coordinator.away = None
    await eventually(lambda: "back in the group after" in caplog.text)
    assert caplog.text.count("FindCoordinator was not answered (connection refused); trying again") == 1
    await member.aclose()


@pytest.mark.parametrize("slept_s", [1, 61], ids=["for a second", "for longer than its session"])
async def test_a_leader_that_sleeps_while_it_looks_for_what_is_of_nobody(
    member: GroupMember, topics: MemoryTopics, monkeypatch: pytest.MonkeyPatch, slept_s: int
) -> None:
    """Others may have gone on without it, with a job of the same name, and have said of its tasks what they did."""

    async def sleeps(*, timeout_s: float = 30.0) -> None:
        CLOCK.turn(slept_s)

    begin(member)
    await eventually(lambda: member.state.phase is Phase.STABLE, "it leads")
    left = TaskStatus(task=TaskId("a", 0), state=TaskState.FINISHED, epoch=Epoch(1), worker=SETTINGS.worker)
    await topics.publish_task(left)
    monkeypatch.setattr(topics, "catch_up", sleeps)
    await member._records._mend()
    assert (left.task in topics.status.tasks) == (slept_s > 60)
    await member.aclose()
