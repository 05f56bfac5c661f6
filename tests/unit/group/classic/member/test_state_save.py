"""A membership as JSON: what another process needs, on another clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from member_script import ME, SETTINGS, Script, tasks

from airflow_provider.group.classic.member.events import CoordinatorFound, Left, Resumed, SendHeartbeat, SendJoin
from airflow_provider.group.classic.member.saved import resume, save
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.machine.events import LeaveRequested, StartTasks, StopTasks, TasksStopped
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import UNKNOWN_MEMBER_ID, ConfigOffset, LocalProtocolError, SubProtocol

WALL = 1_700_000_000_000
ABSENT_BEFORE = ("former_id", "learning", "learned", "leaving_soon")
"""What older releases had not."""


def saved(script: Script) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(save(script.state, now_ms=script.now, wall_ms=WALL)))
    return document


def resumed(document: dict[str, Any], *, now_ms: int, later_ms: int) -> Script:
    state = resume(document, SETTINGS, now_ms=now_ms, wall_ms=WALL + later_ms)
    return Script(state=state).at(now_ms)


def test_it_is_plain_json_without_anything_that_another_process_reads_for_itself() -> None:
    document = saved(Script().stable("a0 a1"))
    assert document["v"] == 1
    assert document["owned"] == [["a", 0], ["a", 1]]
    assert "record" not in document
    assert "settings" not in document


def test_times_are_carried_over_to_the_other_clock() -> None:
    script = Script().stable("a0")
    lease_left = (script.state.lease_until or 0) - script.now
    after = resumed(saved(script), now_ms=77_000_000, later_ms=1_200)
    assert after.state.lease_until == 77_000_000 - 1_200 + lease_left
    assert after.state.heard_at == 77_000_000 - 1_200 + script.state.heard_at - script.now


def test_a_wall_clock_that_was_set_back_makes_no_lease_longer() -> None:
    script = Script().stable("a0")
    lease_left = (script.state.lease_until or 0) - script.now
    after = resumed(saved(script), now_ms=1_000, later_ms=-60_000)
    assert after.state.lease_until == 1_000 + lease_left


def test_with_a_valid_lease_the_tasks_go_on_at_once() -> None:
    before = Script().stable("a0")
    before.heartbeat()
    after = resumed(saved(before), now_ms=500, later_ms=2_000)
    commands = after.feed(Resumed, config_offset=ConfigOffset(0))
    assert StartTasks(tasks=tasks("a0"), epoch=after.state.epoch) in commands
    (heartbeat,) = after.feed(CoordinatorFound, node=3)
    assert isinstance(heartbeat, SendHeartbeat)
    assert (heartbeat.member_id, heartbeat.generation) == (ME, 2)


def test_with_a_lease_that_is_over_they_wait_for_the_coordinator() -> None:
    after = resumed(saved(Script().stable("a0")), now_ms=500, later_ms=SETTINGS.session_timeout_ms)
    commands = after.feed(Resumed, config_offset=ConfigOffset(0))
    assert not [command for command in commands if isinstance(command, StartTasks)]
    after.feed(CoordinatorFound, node=3)
    assert [command for _, command in after.alarms(until=600) if isinstance(command, StopTasks)] == []
    assert after.heartbeat() == [StartTasks(tasks=tasks("a0"), epoch=after.state.epoch)]


def test_a_rebalance_that_is_heard_of_first_stops_nothing() -> None:
    """The deadline of that rebalance is counted on the new process's clock."""
    after = resumed(saved(Script().stable("a0")), now_ms=77_000_000, later_ms=2_000)
    after.feed(Resumed, config_offset=ConfigOffset(0))
    after.feed(CoordinatorFound, node=3)
    (join,) = after.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, SendJoin)
    assert [command for _, command in after.alarms(until=77_001_000) if isinstance(command, StopTasks)] == []


def test_an_older_release_continues_a_membership_of_a_group_that_compresses() -> None:
    """It has no name for that; and the group will speak what it knows when it has joined again."""
    script = Script().stable("a0")
    script.state = script.state.changed({"protocol": SubProtocol.COMPRESSED})
    assert saved(script)["protocol"] == "extensible"


def test_before_an_eager_rebalance_nothing_is_started_any_more() -> None:
    """Others are given it in that rebalance; in the process before it was not started."""
    script = Script().stable("a0", protocol=SubProtocol.DEFAULT)
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.feed(TasksStopped, tasks=tasks("a0"))
    script.joined(3, protocol=SubProtocol.DEFAULT)
    script.synced("a0 a1", config_offset=5, protocol=SubProtocol.DEFAULT)
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    after = resumed(saved(script), now_ms=1_000, later_ms=10)
    commands = after.feed(Resumed, config_offset=ConfigOffset(5))
    assert not any(isinstance(command, StartTasks) for command in commands)
    assert not after.state.owned


def test_between_join_and_assignment_it_joins_again_as_the_same_member() -> None:
    script = Script().stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    after = resumed(saved(script), now_ms=0, later_ms=100)
    after.feed(Resumed, config_offset=ConfigOffset(0))
    assert after.state.phase is Phase.UNJOINED
    (join,) = after.feed(CoordinatorFound, node=3)
    assert isinstance(join, SendJoin)
    assert join.member_id == ME


@pytest.mark.parametrize("leave", ["leaving", "left"])
def test_a_membership_that_is_ending_is_not_handed_over(leave: str) -> None:
    script = Script().stable("")
    script.feed(LeaveRequested, reason="drained")
    if leave == "left":
        script.feed(Left)
    with pytest.raises(LocalProtocolError, match=leave):
        saved(script)


@pytest.mark.parametrize("version", [None, 2, "1"])
def test_another_version_is_refused_by_name(version: object) -> None:
    document = saved(Script().stable("a0")) | {"v": version}
    with pytest.raises(ValueError, match=repr(version)):
        resume(document, SETTINGS, now_ms=0, wall_ms=WALL)


def test_what_an_older_release_has_saved_is_taken_on() -> None:
    older = saved(Script().stable("a0"))
    for key in ABSENT_BEFORE:
        del older[key]
    assert resume(older, SETTINGS, now_ms=0, wall_ms=WALL).former_id == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("key", sorted(set(saved(Script().stable("a0"))) - {"v", "stable", *ABSENT_BEFORE}))
def test_a_document_with_a_gap_or_nonsense_is_refused(key: str) -> None:
    whole = saved(Script().stable("a0"))
    gap = {name: value for name, value in whole.items() if name != key}
    with pytest.raises(ValueError, match="saved membership"):
        resume(gap, SETTINGS, now_ms=0, wall_ms=WALL)


def test_nonsense_is_refused() -> None:
    whole = saved(Script().stable("a0"))
    for wrong in (
        {"owned": [["a"]]},
        {"protocol": "x"},
        {"generation": None},
        {"predecessor": 5},
        {"lease_ms": "a"},
    ):
        with pytest.raises(ValueError, match=r".+"):
            resume(whole | wrong, SETTINGS, now_ms=0, wall_ms=WALL)


def test_a_member_that_was_never_started_can_be_carried_over_too() -> None:
    document = saved(Script(state=MemberState(settings=SETTINGS)))
    after = resumed(document, now_ms=0, later_ms=0)
    after.feed(Resumed, config_offset=ConfigOffset(0))
    assert after.state.phase is Phase.UNJOINED
