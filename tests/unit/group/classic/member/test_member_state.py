"""A member's state is one value: changing it makes another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import asdict

from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase, StateChanges
from airflow_provider.group.machine.state import CommonState
from airflow_provider.values.model import ConfigOffset, GenerationId, LocalProtocolError, MemberId, TaskId, WorkerId

STATE = MemberState(
    settings=MemberSettings(group_id="g", worker=WorkerId("w")),
    phase=Phase.STABLE,
    member_id=MemberId("m"),
    config_offset=ConfigOffset(7),
)


def test_a_change_is_another_state_with_these_fields() -> None:
    changes: StateChanges = {"owned": frozenset({TaskId("a", 0)}), "heartbeat_at": 5, "phase": Phase.UNJOINED}
    assert STATE.changed(changes) == MemberState(**{**asdict(STATE), **changes})
    assert STATE.changed({}) == STATE


def test_the_state_before_stays_as_it_was() -> None:
    before = asdict(STATE)
    STATE.changed({"seq": 3, "coordinator": 1})
    assert asdict(STATE) == before
    with pytest.raises(AttributeError):
        STATE.seq = 3  # type: ignore[misc]


def test_mypy_knows_each_field_that_may_change() -> None:
    fields = {**CommonState.__annotations__, **MemberState.__annotations__}
    known = {name: kind for name, kind in fields.items() if name != "settings"}
    assert {name: kind.__forward_arg__ for name, kind in StateChanges.__annotations__.items()} == known


# ---- what must hold

SOUND = STATE.changed({"generation": GenerationId(1), "heartbeat_at": 5})
TASK = frozenset({TaskId("a", 0)})


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"held": TASK}, "held tasks are owned"),
        ({"stopping": TASK}, "stopping tasks are owned"),
        ({"member_id": MemberId("")}, "a stable member has a member id"),
        ({"heartbeat_at": None}, "a stable member heartbeats"),
        ({"phase": Phase.FAILED}, "an ended member wants no timer"),
        ({"phase": Phase.COMPLETING_REBALANCE}, "a rebalance is waited for by one request"),
        ({"phase": Phase.UNJOINED}, "who wants in or out waits for an answer, a time, or tasks that stop"),
        ({"phase": Phase.LEAVING}, "who wants in or out waits for an answer, a time, or tasks that stop"),
    ],
)
def test_a_state_in_which_something_cannot_be_is_refused_by_the_rules_name(changes: dict[str, Any], rule: str) -> None:
    SOUND.validate()
    with pytest.raises(LocalProtocolError, match=rule):
        SOUND.changed(changes).validate()


@pytest.mark.parametrize("waits", [{"awaiting": 3}, {"retry_at": 3}, {"owned": TASK, "stopping": TASK}])
def test_out_of_the_group_each_of_these_is_something_to_wait_for(waits: dict[str, Any]) -> None:
    SOUND.changed({"phase": Phase.UNJOINED, **waits}).validate()


# ---- settings


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"worker": WorkerId("")}, "worker is empty"),
        ({"fast_heartbeat_ms": 0}, "fast_heartbeat_ms=0"),
        ({"session_timeout_ms": 5_000}, "session_timeout_ms=5000"),
        ({"rebalance_timeout_ms": 9_999}, "rebalance_timeout_ms=9999 must be at least session_timeout_ms=10000"),
    ],
)
def test_settings_with_which_no_member_can_keep_its_promises_are_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    settings = STATE.settings
    replace(settings, rebalance_timeout_ms=settings.session_timeout_ms)
    with pytest.raises(ValueError, match=complaint):
        replace(settings, **changes)
