"""A round does not wait for members that are known to be gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from group_records import record_of
from stand_ins import IdleListener, LonelyCoordinator, MemoryTopics
from turned_clock import time_passes
from waiting import eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.kafka.group_requests.messages import JoinRequest, JoinResponse, NodeId
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, Epoch, MemberId, WorkerId
from airflow_provider.worker.process_identity import is_gone, this_process

pytestmark = pytest.mark.turned_clock

ME, OTHER = WorkerId("w1"), WorkerId("w2")
ENDED = "/".join((*this_process().split("/")[:-2], "999999999", "1"))
"""On this machine, and there is no such process."""


class Waiting(LonelyCoordinator):
    """Completes no round as long as the other member is in the group.

    :ivar silent: so many requests to remove it get no answer
    """

    def __init__(self) -> None:
        super().__init__()
        self.members = {OTHER: MemberId("m2")}
        self.asked: list[tuple[WorkerId, MemberId]] = []
        self.silent = 0
        self.alone = asyncio.Event()

    async def join(self, coordinator: NodeId, request: JoinRequest) -> JoinResponse:
        await self.alone.wait()
        return await super().join(coordinator, request)

    async def leave(
        self,
        coordinator: NodeId,
        group_id: str,
        member_id: MemberId,
        worker: WorkerId | None = None,
        *,
        reason: str = "",
    ) -> KafkaErrorCode:
        assert worker is not None
        self.asked.append((worker, member_id))
        if len(self.asked) <= self.silent:
            raise TimeoutError
        if self.members.get(worker) != member_id:
            return KafkaErrorCode.FENCED_INSTANCE_ID
        del self.members[worker]
        self.alone.set()
        return await super().leave(coordinator, group_id, member_id, worker, reason=reason)


async def said(process: str, *, state: WorkerPhase = WorkerPhase.STABLE, member_id: str = "m2") -> MemoryTopics:
    topics = MemoryTopics()
    await topics.publish_group(record_of({OTHER: NO_TASKS}))
    word = WorkerStatus(
        worker=OTHER, state=state, epoch=Epoch(9), slots=1, process=process, member_id=MemberId(member_id)
    )
    await topics.publish_worker(word)
    return topics


def joining(coordinator: Waiting, topics: MemoryTopics) -> GroupMember:
    state = MemberState(settings=MemberSettings(group_id="g", worker=ME))
    listener = IdleListener()
    transport: Any = coordinator
    member = GroupMember(state, transport, topics, listener, policy=Deferred(), is_gone=is_gone)
    member.begin(Predecessor.GONE)
    return member


@pytest.mark.parametrize(
    ("process", "state"),
    [(ENDED, WorkerPhase.STABLE), ("elsewhere/x/1/2", WorkerPhase.LEFT)],
    ids=["its process has ended on this machine", "it has said so"],
)
async def test_a_join_does_not_wait_for_a_member_that_is_known_to_be_gone(process: str, state: WorkerPhase) -> None:
    coordinator = Waiting()
    member = joining(coordinator, await said(process, state=state))
    await eventually(lambda: member.state.phase is Phase.STABLE, "it has joined")
    await member.aclose()


async def test_who_could_not_be_removed_is_tried_again() -> None:
    coordinator = Waiting()
    coordinator.silent = 2
    member = joining(coordinator, await said(ENDED))
    await eventually(lambda: member.state.phase is Phase.STABLE, "it has joined")
    assert coordinator.asked == [(OTHER, "m2")] * 3
    await member.aclose()


@pytest.mark.parametrize(
    ("process", "state"),
    [
        (this_process(), WorkerPhase.STABLE),
        ("elsewhere/x/1/2", WorkerPhase.STABLE),
        ("", WorkerPhase.DEFERRED),
        ("elsewhere/x/1/2", WorkerPhase.STOPPING),
    ],
    ids=["alive", "on another machine", "in a triggerer", "still stopping"],
)
async def test_whoever_may_be_alive_is_waited_for(process: str, state: WorkerPhase) -> None:
    coordinator = Waiting()
    member = joining(coordinator, await said(process, state=state))
    await time_passes(30)
    assert coordinator.asked == []
    await member.aclose()


async def test_who_has_come_back_under_its_name_stays() -> None:
    coordinator = Waiting()
    coordinator.members[OTHER] = MemberId("m3")
    member = joining(coordinator, await said(ENDED))
    await eventually(lambda: coordinator.asked, "it was asked")
    await time_passes(30)
    assert coordinator.asked == [(OTHER, "m2")], "once"
    assert OTHER in coordinator.members
    await member.aclose()
