"""What has failed for good stays with the worker that reports it, and counts in nobody's share."""

from __future__ import annotations

from typing import Any

import pytest
from embedded_bytes import decode_assignment
from member_script import tasks
from test_leader import W1, W2, call, member

from airflow_provider.assignment.model import Memory
from airflow_provider.group.classic.leader.kept_failures import kept_of
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import NO_TASKS, SubProtocol, WorkerId

FAILED = tasks("a0 a1")
CONFIGURED = tasks("a2 b0 b1 b2")


def _ended() -> dict[str, Any]:
    return {"configured": CONFIGURED, "failed": FAILED, "ended": FAILED}


def test_a_round_leaves_it_where_it_is_and_shares_out_the_rest_without_it() -> None:
    answer = lead(call(member("w1", "a0 a1 a2 b0 b1 b2"), member("w2", ""), **_ended()))
    assert answer.record is not None
    revoked = decode_assignment(answer.assignments[answer.record.members[W1]]).revoked
    assert revoked <= CONFIGURED
    assert len(revoked) == 2, "of four that count"
    assert answer.record.owned_by(W1) == FAILED | CONFIGURED - revoked
    assert answer.record.memory.assignment == answer.record.assignment, "it is written once"


def test_nobody_is_given_what_nobody_reports() -> None:
    answer = lead(call(member("w1", "a2"), member("w2", "b0"), **_ended()))
    assert answer.record is not None
    assert not FAILED & NO_TASKS.union(*answer.record.assignment.values())


def test_what_two_report_both_let_go_of() -> None:
    """Both would try it again."""
    answer = lead(call(member("w1", "a0 a2 b0"), member("w2", "a0 b1 b2"), **_ended()))
    assert answer.record is not None
    assert answer.record.revoked == {W1: tasks("a0"), W2: tasks("a0")}
    assert not FAILED & NO_TASKS.union(*answer.record.assignment.values())


def test_in_an_eager_round_nobody_has_it() -> None:
    eager: dict[str, Any] = {"protocol": SubProtocol.DEFAULT, **_ended()}
    answer = lead(call(member("w1", None, version=0), member("w2", None, version=0), **eager))
    assert answer.record is not None
    assert NO_TASKS.union(*answer.record.assignment.values()) == CONFIGURED


@pytest.mark.parametrize(("other", "kept"), [(WorkerId("w3"), "a1"), (BRIDGE, "")])
def test_a_bridge_keeps_nothing(other: WorkerId, kept: str) -> None:
    """What has ended it lets go of by itself, a while later."""
    shares = kept_of({W1: tasks("a0 b0"), other: tasks("a1")}, FAILED).shares
    assert shares.get(other, NO_TASKS) == tasks(kept)
    assert shares[W1] == tasks("a0")


def test_the_memory_of_a_lost_worker_has_what_it_kept() -> None:
    """If it is tried again then, it waits for that worker as all that is lost does."""
    first = lead(call(member("w1", "a0 a2 b0"), member("w2", "b1 b2"), **_ended())).record
    assert first is not None
    assert isinstance(first.memory, Memory)
    again: dict[str, Any] = {"configured": CONFIGURED | tasks("a0"), "failed": NO_TASKS, "ended": NO_TASKS}
    second = lead(call(member("w2", "b1 b2"), generation=2, last=first, **again)).record
    assert second is not None
    assert second.waiting == tasks("a0 a2 b0")
