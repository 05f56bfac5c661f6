"""A round that somebody asks for: when there is one, what it changes, and where there is none."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record
from member_script import tasks
from stand_ins import MemoryTopics
from test_leader import NOW, call, member, record_of, sent, two_workers
from test_leading import W1, joined

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.declarative.assignors.client_assignor import Assignment, Group, GroupMember, Reason
from airflow_provider.group.declarative.member.recording import record_of as declarative_record_of
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberTarget
from airflow_provider.group.live.classic.leading import gather_call, rebalance_asked_for
from airflow_provider.state.operations.operations import OperationError, Rebalance
from airflow_provider.state.records import ActionEvent
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Wanted
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import ConfigOffset, MemberId

M1 = MemberId("w1-x")


def topics_of(record: Any) -> MemoryTopics:
    topics = MemoryTopics()
    asyncio.run(topics.publish_group(record))
    return topics


def declarative() -> DeclarativeRecord:
    """One worker, which has nothing."""
    members = {M1: GroupMember(instance_id=W1, reason=Reason.NONE, target=MemberTarget())}
    group = Group(computing=M1, members=members, departed={}, configured=frozenset(), now_ms=0)
    made = Assignment(members={M1: MemberTarget()}, delayed={})
    return declarative_record_of(group, made, epoch=GroupEpoch(7), config_offset=ConfigOffset(0), asks_at_ms=0)


def waiting() -> ClassicRecord:
    """w2 is lost, and what it had waits for it."""
    return record_of(lead(call(member("w1", "a0 a1 a2"), generation=5, last=two_workers(4))))


def test_it_is_written_with_who_asks_and_the_next_round_is_the_one() -> None:
    topics = topics_of(group_record(5, config_offset=ConfigOffset(0)))
    asyncio.run(topics.carry_out(Rebalance(), by="anna"))
    ((event),) = (event for event in topics.events if isinstance(event, ActionEvent))
    assert (event.action, event.by) == ("rebalance", "anna")
    assert rebalance_asked_for(topics.jobs, topics.status.group) == "anna asked for it"
    after = group_record(5, config_offset=topics.jobs.offset)
    assert rebalance_asked_for(topics.jobs, after) is None
    asyncio.run(topics.carry_out(Rebalance(), by="bert"))
    assert rebalance_asked_for(topics.jobs, after) == "bert asked for it", "once more"


def test_lost_tasks_wait_for_their_worker_no_longer() -> None:
    last = waiting()
    assert last.deadline_ms > NOW
    soon = NOW + 1_000
    again = call(member("w1", "a0 a1 a2"), generation=6, last=last, now_ms=soon, reason="anna asked for it")
    assert sent(lead(again))["w1-1"].delay_ms > 0, "any other round goes on waiting"
    answer = lead(replace(again, asked_for=True))
    assert sent(answer)["w1-1"].assigned == tasks("b0 b1 b2")
    assert sent(answer)["w1-1"].delay_ms == 0
    assert record_of(answer).because.startswith("anna asked for it")


def test_a_leader_knows_that_it_was_asked_for() -> None:
    last = replace(waiting(), config_offset=ConfigOffset(7))
    status = StatusSnapshot(group=last)
    for offset, asked in ((6, False), (7, True)):
        jobs = JobsSnapshot(offset=ConfigOffset(9), rebalance=Wanted("anna", offset))
        round_ = gather_call(joined(W1, last=last), jobs, status, policy=Deferred(), at_ms=NOW)
        assert round_.asked_for is asked


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (group_record(5, members={}), "the group has no workers"),
        (declarative(), "this is a declarative group"),
    ],
)
def test_where_there_is_no_round_to_ask_for(record: Any, why: str) -> None:
    topics = topics_of(record)
    with pytest.raises(OperationError, match=why):
        asyncio.run(topics.carry_out(Rebalance(), by="anna"))
    assert topics.jobs.rebalance is None
