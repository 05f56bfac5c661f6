"""Which group protocol a worker joins by is chosen in one place, and goes with its membership."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live.classic.classic_membership import ClassicProtocol
from airflow_provider.group.live.declarative.declarative_membership import DeclarativeProtocol, leaves_it_to_others
from airflow_provider.integration.memberships.group_protocols import (
    Coordinators,
    GroupProtocolName,
    check_goes_together,
)
from airflow_provider.integration.memberships.worker_values import WorkerSpec
from airflow_provider.values.model import ConnectProtocol, WorkerId
from airflow_provider.worker.settings import Until

CLASSIC = WorkerSpec(
    member=MemberSettings(group_id="g", worker=WorkerId("w"), url="u", session_timeout_ms=20_000),
    slots=3,
    until=Until.DRAINED,
    policy=Deferred(max_delay_ms=7),
)
CONNECT = replace(CLASSIC, group_protocol=GroupProtocolName.CONNECT)


def test_each_name_has_its_protocol_with_what_the_worker_has_chosen() -> None:
    classic, connect = CLASSIC.protocol(), CONNECT.protocol()
    assert isinstance(classic, ClassicProtocol)
    assert classic.member.slots == 3
    assert isinstance(connect, DeclarativeProtocol)
    assert (connect.member.group_id, connect.member.worker, connect.member.url) == ("g", "w", "u")
    assert (connect.member.session_timeout_ms, connect.slots) == (20_000, 3)
    assert [one.name for one in connect.assignors] == ["cooperative", "eager"]


def test_only_dedicated_coordinators_leave_this_process_out() -> None:
    protocol = replace(CONNECT, coordinators=Coordinators.DEDICATED).protocol()
    assert isinstance(protocol, DeclarativeProtocol)
    assert protocol.coordinating is leaves_it_to_others
    candidate = CONNECT.protocol()
    assert isinstance(candidate, DeclarativeProtocol)
    assert candidate.coordinating is not leaves_it_to_others


def test_it_goes_with_the_plan_and_plans_that_do_not_name_it_are_classic() -> None:
    assert WorkerSpec.from_json(CONNECT.to_json()) == CONNECT
    dedicated = replace(CONNECT, coordinators=Coordinators.DEDICATED)
    assert WorkerSpec.from_json(dedicated.to_json()) == dedicated
    later = {"group_protocol", "coordinators"}
    without = {name: value for name, value in CLASSIC.to_json().items() if name not in later}
    assert WorkerSpec.from_json(without) == CLASSIC


@pytest.mark.parametrize("protocol", list(ConnectProtocol))
def test_what_a_protocol_does_not_have_is_refused(protocol: ConnectProtocol) -> None:
    member = replace(CLASSIC.member, protocol=protocol)
    check_goes_together(GroupProtocolName.CLASSIC, member)
    if protocol is not ConnectProtocol.EXTENSIBLE:
        check_goes_together(GroupProtocolName.CONNECT, member)
        return
    with pytest.raises(ValueError, match="learns no tasks"):
        check_goes_together(GroupProtocolName.CONNECT, member)
