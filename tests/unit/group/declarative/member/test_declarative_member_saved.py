"""A membership in a declarative group goes on in another process."""

from __future__ import annotations

import json
from typing import Any

import pytest
from declarative_script import (
    ASSIGNORS,
    LEASE_MS,
    ME,
    SESSION_MS,
    SETTINGS,
    Script,
    only_heartbeat,
    others,
    said,
    tasks,
)

from airflow_provider.group.declarative.member.events import DelaySet, Resumed, TellDelayOver
from airflow_provider.group.declarative.member.saved import resume, save, taken_over
from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import LeaveRequested, StartTasks, TasksStopped
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, Epoch, LocalProtocolError, MemberId

WALL_MS = 1_700_000_000_000


def saved(script: Script) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(save(script.state, now_ms=script.now, wall_ms=WALL_MS)))
    return document


def elsewhere(document: dict[str, Any], *, after_ms: int = 0, now_ms: int = 50_000) -> Script:
    """In a process whose clock shows another time."""
    script = Script(resume(document, SETTINGS, now_ms=now_ms, wall_ms=WALL_MS + after_ms))
    return script.at(now_ms)


def go_on(script: Script, predecessor: Predecessor = Predecessor.GONE) -> list[Any]:
    return script.feed(Resumed, config_offset=ConfigOffset(0), predecessor=predecessor, assignors=ASSIGNORS)


def test_it_goes_on_as_the_same_member_with_its_lease_and_says_everything() -> None:
    before = Script().stable("a0 a1", epoch=5)
    after = elsewhere(saved(before), after_ms=400)
    commands = go_on(after)
    body = only_heartbeat(commands)
    assert (body.member_id, body.member_epoch, body.instance_id, said(body)) == (ME, 5, "w", tasks("a0 a1"))
    assert others(commands) == [StartTasks(tasks=tasks("a0 a1"), epoch=Epoch(5))]
    assert after.state.lease_until == 50_000 - 400 + LEASE_MS


def test_with_a_lease_that_is_over_it_starts_nothing_before_an_answer() -> None:
    after = elsewhere(saved(Script().stable("a0")), after_ms=SESSION_MS)
    assert others(go_on(after)) == []
    assert others(after.answered(5)) == [StartTasks(tasks=tasks("a0"), epoch=Epoch(5))]


def test_what_was_revoked_has_ended_with_the_process_and_what_the_lease_stopped_has_not() -> None:
    before = Script().stable("a0 a1 a2")
    before.answered(5, "a0 a1")
    body = only_heartbeat(go_on(elsewhere(saved(before))))
    assert said(body) == tasks("a0 a1")
    before = Script().stable("a0")
    before.failed()
    before.alarms(until=LEASE_MS)
    assert before.state.stopping == tasks("a0")
    assert said(only_heartbeat(go_on(elsewhere(saved(before))))) == tasks("a0")


@pytest.mark.parametrize("predecessor", list(Predecessor))
def test_who_was_not_in_the_group_joins(predecessor: Predecessor) -> None:
    before = Script()
    before.started()
    after = elsewhere(saved(before))
    body = only_heartbeat(go_on(after, predecessor))
    assert (body.member_id, body.member_epoch, said(body)) == (ME, 0, tasks(""))
    assert (after.state.phase, after.state.predecessor) == (Phase.JOINING, predecessor)


def test_who_was_expelled_joins_and_owns_nothing() -> None:
    before = Script().stable("a0")
    before.refused(KafkaErrorCode.UNKNOWN_MEMBER_ID)
    assert said(only_heartbeat(go_on(elsewhere(saved(before))))) == tasks("")


def test_what_a_predecessor_may_still_run_is_held_on() -> None:
    before = Script()
    before.started(Predecessor.UNKNOWN)
    before.answered(5, "a0 a1")
    before.answered(5, "a0")
    after = elsewhere(saved(before))
    assert said(only_heartbeat(go_on(after))) is None
    assert after.state.owned == tasks("a0 a1")
    for at in (53_000, 56_000, 59_000):
        after.answered(5)
        after.alarms(until=at)
    after.answered(5)
    over = [command for _, command in after.alarms(until=50_000 + SESSION_MS)]
    assert others(over) == [StartTasks(tasks=tasks("a0"), epoch=Epoch(5))]


def test_a_delay_goes_on() -> None:
    before = Script().stable("a0")
    before.feed(DelaySet, over_at_ms=5_000, over_ms=77)
    after = elsewhere(saved(before))
    go_on(after)
    after.answered(5)
    seen = after.alarms(until=55_000)
    assert [(at, one.over_ms) for at, one in seen if isinstance(one, TellDelayOver)] == [(55_000, 77)]
    assert elsewhere(saved(after)).state.delay_passed_ms == 77


def test_who_leaves_is_not_handed_over() -> None:
    script = Script().stable("a0")
    script.feed(LeaveRequested, reason="enough")
    with pytest.raises(LocalProtocolError, match="leaving cannot be handed over"):
        saved(script)
    script.feed(TasksStopped, tasks=tasks("a0"))
    script.answered(-1)
    with pytest.raises(LocalProtocolError, match="left cannot be handed over"):
        saved(script)


def test_taken_over_it_joins_as_another_member_under_its_name() -> None:
    document = taken_over(saved(Script().stable("")), MemberId("w-2"))
    after = elsewhere(document)
    body = only_heartbeat(go_on(after))
    assert (body.member_id, body.member_epoch, body.instance_id, said(body)) == ("w-2", 0, "w", tasks(""))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"v": 2}, "upgrade"), ({"v": None}, "Clear the task"), ({"epoch": "x"}, "Clear the task")],
)
def test_what_it_has_not_saved_it_refuses(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        elsewhere(saved(Script().stable("a0")) | changes)
