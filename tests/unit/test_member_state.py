"""A member's state is one value: changing it makes another."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from airflow_provider.membership.model import ConfigOffset, MemberId, TaskId, WorkerId
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.membership.state import MemberState, Phase

STATE = MemberState(
    settings=MemberSettings(group_id="g", worker=WorkerId("w")),
    phase=Phase.STABLE,
    member_id=MemberId("m"),
    config_offset=ConfigOffset(7),
)


def test_a_change_is_what_replace_makes_of_it() -> None:
    changes = {"owned": frozenset({TaskId("a", 0)}), "heartbeat_at": 5, "phase": Phase.UNJOINED}
    assert STATE.changed(changes) == replace(STATE, **changes)  # type: ignore[arg-type]
    assert STATE.changed({}) == STATE


def test_the_state_before_stays_as_it_was() -> None:
    before = {field.name: getattr(STATE, field.name) for field in fields(STATE)}
    STATE.changed({"seq": 3, "coordinator": 1})
    assert {field.name: getattr(STATE, field.name) for field in fields(STATE)} == before


def test_there_is_no_field_of_another_name() -> None:
    with pytest.raises(KeyError, match="sequence"):
        STATE.changed({"sequence": 3})
