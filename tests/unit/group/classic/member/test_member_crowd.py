"""A member of a very large group takes care not to overrun its coordinator together with all the others."""

from __future__ import annotations

from itertools import pairwise

import pytest
from airflow_values import group_record
from member_script import SETTINGS, Script

from airflow_provider.group.classic.member.events import SendHeartbeat
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import MemberId, WorkerId


def steps_after_a_round(record: ClassicRecord | None) -> list[int]:
    """The times between heartbeats, from a round on that found this as the last record."""
    script = Script()
    script.stable("a0")
    script.state = script.state.changed({"record": record})
    times = [script.now]
    while script.now < times[0] + 30_000:
        times += [at for at, command in script.alarms(until=script.now + 10) if isinstance(command, SendHeartbeat)]
        script.heartbeat()
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize(
    ("members", "least"), [(3, 50), (50, 250), (500, 2_500), (10_000, SETTINGS.heartbeat_interval_ms)]
)
def test_all_together_send_two_hundred_fast_heartbeats_a_second_at_most(members: int, least: int) -> None:
    names = [f"w{number}" for number in range(members)]
    record = group_record(2, members={WorkerId(name): MemberId(name) for name in names})
    steps = steps_after_a_round(record)
    # The first was set before the size was known.
    assert steps[0] == SETTINGS.fast_heartbeat_ms
    assert min(steps[2:]) >= least
    assert steps == sorted(steps)
    assert steps[-1] == SETTINGS.heartbeat_interval_ms
