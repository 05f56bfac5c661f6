"""A leader records since when a bridge has been in the group without a break."""

from __future__ import annotations

import json
from dataclasses import replace

from test_leader import call, member, record_of

from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import GenerationId

WORKER, THE_BRIDGE = member("w1", ""), member(BRIDGE, "")


def a_round(last: ClassicRecord | None, *, bridged: bool, generation: int | None = None) -> ClassicRecord:
    following = 1 if last is None else last.generation + 1
    members = (WORKER, THE_BRIDGE) if bridged else (WORKER,)
    record = record_of(lead(call(*members, generation=generation or following, last=last)))
    return ClassicRecord.from_json(json.loads(json.dumps(record.to_json())))


def test_a_bridge_that_comes_again_is_in_the_group_since_that_round() -> None:
    first = a_round(None, bridged=False)
    assert first.bridged_since is None
    second = a_round(first, bridged=True)
    third = a_round(second, bridged=True)
    assert second.bridged_since == third.bridged_since == 2
    assert a_round(a_round(third, bridged=False), bridged=True).bridged_since == 5


def test_rounds_that_failed_are_no_break() -> None:
    """This leader has completed no other one since."""
    assert a_round(a_round(None, bridged=True), bridged=True, generation=4).bridged_since == 1


def test_rounds_of_which_no_record_is_known_may_have_been_without_it() -> None:
    first = a_round(None, bridged=True)
    later = call(WORKER, THE_BRIDGE, generation=4, last=first, last_completed=GenerationId(2))
    assert record_of(lead(later)).bridged_since == 4


def test_what_an_older_release_has_not_recorded_stays_unknown() -> None:
    silent = replace(a_round(None, bridged=True), bridged_since=None)
    assert a_round(silent, bridged=True).bridged_since is None
