"""What a member of a classic group does where there were, or are, declarative workers."""

from __future__ import annotations

import pytest
from member_script import (
    NODE,
    SESSION_MS,
    SETTINGS,
    Script,
    only_join,
    tasks,
    told,
)

from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    SendJoin,
    Started,
    UrlChanged,
)
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import (
    StartTasks,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, Epoch


@pytest.fixture
def script() -> Script:
    return Script()


def test_epochs_go_on_from_where_anybody_has_spoken_in_a_group_that_was_declarative(script: Script) -> None:
    script.feed(Started, config_offset=ConfigOffset(0), predecessor=Predecessor.GONE, spoken_epoch=Epoch(41))
    script.feed(CoordinatorFound, node=NODE)
    script.joined(1)
    script.synced()
    script.alarms(until=SESSION_MS // 2)
    script.joined(2)
    (start, _published) = script.synced("a0")
    assert start == StartTasks(tasks=tasks("a0"), epoch=Epoch(42))
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced()
    assert script.state.epoch == 43


def test_who_has_another_url_joins_again_with_it(script: Script) -> None:
    script.stable("a0")
    join = only_join(script.feed(UrlChanged, url="elsewhere"))
    assert {metadata.url for metadata in told(join)} == {"elsewhere"}
    assert script.feed(UrlChanged, url="elsewhere") == []
    assert script.feed(UrlChanged, url="at home") == []
    script.joined(3)
    (join,) = (command for command in script.synced() if isinstance(command, SendJoin))
    assert {metadata.url for metadata in told(join)} == {"at home"}


def test_who_begins_for_others_that_run_something_says_so_when_it_joins() -> None:
    script = Script(state=MemberState(settings=SETTINGS, owned=tasks("a0 a1")))
    script.started()
    join = only_join(script.feed(CoordinatorFound, node=NODE))
    offered = [metadata.assignment for metadata in told(join) if metadata.assignment is not None]
    assert [assignment.assigned for assignment in offered] == [tasks("a0 a1")] * 2
