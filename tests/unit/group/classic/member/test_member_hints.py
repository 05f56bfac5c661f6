"""A hint at a rebalance brings the next heartbeat forward, and does nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from airflow_values import group_record
from member_script import NODE, SETTINGS, Script, tasks

from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    FindCoordinator,
    RebalanceHinted,
    Request,
    RequestFailed,
    SendHeartbeat,
    SendJoin,
)
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, WorkerId

FLOOD_MS = 3
"""The time between two hints of a flood."""


def quiet(script: Script) -> Script:
    """A member whose heartbeats have grown to the interval, and who has just sent one, which was answered."""
    script.stable("a0")
    while script.state.heartbeat_step < SETTINGS.heartbeat_interval_ms:
        next_heartbeat(script)
        script.heartbeat()
    next_heartbeat(script)
    script.heartbeat()
    return script


def next_heartbeat(script: Script) -> None:
    assert script.alarm is not None
    (beat,) = script.alarms(until=script.alarm)
    assert isinstance(beat[1], SendHeartbeat)


def flood(script: Script, *, ms: int, answered: bool) -> list[int]:
    """When it heartbeats while it reads hints all the time."""
    sent: list[int] = []
    until = script.now + ms
    while script.now < until:
        beats = script.alarms(until=script.now + FLOOD_MS) + [(script.now, one) for one in script.feed(RebalanceHinted)]
        assert all(isinstance(beat, SendHeartbeat) for _, beat in beats)
        sent += [at for at, _ in beats]
        if beats and answered:
            script.heartbeat()
    return sent


@pytest.fixture
def script() -> Script:
    return quiet(Script())


def test_who_reads_a_hint_sends_its_heartbeat_at_once(script: Script) -> None:
    script.at(script.now + 1_000)
    (beat,) = script.feed(RebalanceHinted)
    assert isinstance(beat, SendHeartbeat)


def test_the_next_ones_follow_soon_as_the_hint_may_come_before_the_rebalance(script: Script) -> None:
    hinted_at = script.now + 1_000
    script.at(hinted_at).feed(RebalanceHinted)
    script.heartbeat()
    after = [at - hinted_at for at, _ in script.alarms(until=hinted_at + 600)]
    assert after == [100, 251, 478]


def test_a_flood_of_hints_brings_a_heartbeat_forward_every_100_ms_at_most(script: Script) -> None:
    began = script.now
    sent = [began, *flood(script, ms=2_000, answered=True)]
    assert min(after - before for before, after in pairwise(sent)) >= 100
    assert len(sent) > 15


def test_a_coordinator_that_does_not_answer_is_asked_no_more_often_for_hints(script: Script) -> None:
    script.at(script.now + 1_000).feed(RebalanceHinted)
    undisturbed = Script(state=script.state).at(script.now)
    undisturbed.alarm = script.alarm
    without = [at for at, _ in undisturbed.alarms(until=script.now + 2_000)]
    assert flood(script, ms=2_000, answered=False) == without


def test_a_hint_during_an_unanswered_heartbeat_is_heeded_after_the_answer(script: Script) -> None:
    """The coordinator may have answered before it knew of the rebalance."""
    next_heartbeat(script)
    sent_at = script.now
    assert script.at(sent_at + 2).feed(RebalanceHinted) == []
    assert script.at(sent_at + 4).heartbeat(sent_at_ms=sent_at) == []
    assert [at - sent_at for at, _ in script.alarms(until=sent_at + 120)] == [100]


def test_while_the_coordinator_is_looked_for_a_hint_is_ignored(script: Script) -> None:
    next_heartbeat(script)
    script.feed(RequestFailed, seq=script.state.seq, request=Request.HEARTBEAT, cause="connection reset")
    before = script.state
    assert script.feed(RebalanceHinted) == []
    assert script.state == before
    assert [type(command) for _, command in script.alarms(until=script.now + 200)] == [FindCoordinator]
    before = script.state
    assert script.feed(RebalanceHinted) == []
    assert script.state == before
    (beat,) = script.feed(CoordinatorFound, node=NODE)
    assert isinstance(beat, SendHeartbeat)


def test_it_does_not_change_what_a_member_does_when_it_hears_of_a_rebalance(script: Script) -> None:
    plain = Script(state=script.state).at(script.now + 500)
    hinted = Script(state=script.state).at(script.now + 500)
    hinted.feed(RebalanceHinted)
    joins = [each.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS) for each in (plain, hinted)]
    (one,), (other,) = joins
    assert isinstance(one, SendJoin)
    assert isinstance(other, SendJoin)
    assert one.protocols == other.protocols
    assert plain.state.lease_until == hinted.state.lease_until


def test_it_does_not_touch_the_lease(script: Script) -> None:
    until, running = script.state.lease_until, script.state.running
    flood(script, ms=1_000, answered=False)
    assert (script.state.lease_until, script.state.running) == (until, running)


def test_who_joins_again_when_its_tasks_have_stopped_heeds_no_hint(script: Script) -> None:
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a0")
    assert script.state.stopping == tasks("a0")
    assert script.at(script.now + 40).feed(RebalanceHinted) == []


@pytest.mark.parametrize("phase", [Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE, Phase.FENCED])
def test_who_takes_part_in_a_rebalance_or_has_ended_heeds_no_hint(script: Script, phase: Phase) -> None:
    if phase is Phase.FENCED:
        script.heartbeat(KafkaErrorCode.FENCED_INSTANCE_ID)
    else:
        script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    if phase is Phase.COMPLETING_REBALANCE:
        script.joined(3)
    before = script.state
    assert before.phase is phase
    assert script.feed(RebalanceHinted) == []
    assert script.state == before


def test_the_members_of_a_large_group_spread_what_a_hint_brings_forward() -> None:
    names = [WorkerId(f"w{number}") for number in range(100)]
    record = group_record(2, members={name: MemberId(name) for name in names})
    due: list[int] = []
    for name in names:
        script = quiet(Script(replace(SETTINGS, worker=name)))
        script.state = script.state.changed({"record": record})
        hinted_at = script.now + 600
        script.at(hinted_at).feed(RebalanceHinted)
        assert script.state.heartbeat_at is not None
        at_once = script.state.heartbeat_sent_at == hinted_at
        due.append(0 if at_once else script.state.heartbeat_at - hinted_at)
    assert max(due) <= 400, "soon, all the same"
    assert max(sum(at <= each < at + 100 for each in due) for at in range(0, 400, 10)) < 50
