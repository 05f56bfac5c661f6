"""What a coordinator refuses whatever the group is like, in the order of the proposal."""

from __future__ import annotations

from typing import Any

import pytest
from coordinated import COOPERATIVE, GROUP, W1, W2, Shard, heartbeat, tasks, whole

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.messages.apis import RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor, ConnectorsAndTasks
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode as Code
from airflow_provider.values.model import MemberId, TaskId


def an_assignor(**wrong: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": "cooperative", "minimum_version": 1, "maximum_version": 2, "version": 1}
    return {"client_assignors": (Assignor(**(fields | wrong)),)}


IN_ORDER: list[tuple[dict[str, Any], str]] = [
    ({"group_id": ""}, "GroupId is empty"),
    ({"member_id": ""}, "MemberId is empty"),
    ({"member_epoch": MemberEpoch(-3)}, "MemberEpoch is -3"),
    ({"instance_id": ""}, "InstanceId is empty"),
    ({"rebalance_timeout_ms": 0}, "RebalanceTimeoutMs is 0"),
    ({"server_assignor": "uniform"}, "ServerAssignor and ClientAssignors are both given, but coordinators here have"),
    (an_assignor(name=""), "the Name of ClientAssignors[0] is empty"),
    (an_assignor(minimum_version=-2), "the MinimumVersion of the assignor cooperative is -2"),
    (an_assignor(minimum_version=-1, maximum_version=-1, version=-1), "the MaximumVersion of the assignor cooperative"),
    (an_assignor(maximum_version=0), "the MaximumVersion of the assignor cooperative is 0"),
    (an_assignor(version=0), "the Version of the assignor cooperative is 0"),
    (an_assignor(version=3), "the Version of the assignor cooperative is 3"),
    ({"connectors_and_tasks": (ConnectorsAndTasks(tasks=(TaskId("A", -1),)),)}, "a TaskId of A is -1"),
]


class TestHeartbeat:
    @pytest.mark.parametrize(("wrong", "message"), IN_ORDER)
    def test_an_invariant(self, wrong: dict[str, Any], message: str) -> None:
        shard = Shard()
        reply = shard.answer(heartbeat(W1, 0, (), **(whole() | wrong)))
        assert (reply.error_code, str(reply.error_message)[: len(message)]) == (Code.INVALID_REQUEST, message)
        assert not shard.log
        assert not shard.coordinator.groups

    @pytest.mark.parametrize("first", range(len(IN_ORDER) - 1))
    def test_the_first_one_that_does_not_hold_is_named(self, first: int) -> None:
        (wrong, message), (other, _) = IN_ORDER[first], IN_ORDER[first + 1]
        both = whole() | (other if wrong.keys() & other.keys() else other | wrong)
        if "client_assignors" in wrong.keys() & other.keys():
            both["client_assignors"] = wrong["client_assignors"] + other["client_assignors"]
        reply = Shard().answer(heartbeat(W1, 0, (), **both))
        assert str(reply.error_message).startswith(message)

    @pytest.mark.parametrize("timeout", [0, -1, -5])
    def test_the_first_one_says_how_long_a_revocation_may_take(self, timeout: int) -> None:
        assert Shard().heartbeat(W1, 0, (), **whole(rebalance_timeout_ms=timeout)).error_code == Code.INVALID_REQUEST

    def test_a_later_one_need_not(self) -> None:
        shard = Shard()
        shard.join(W1)
        assert shard.heartbeat(W1, 0, rebalance_timeout_ms=0).error_code == Code.INVALID_REQUEST
        shard.held(W1, 0, ())
        assert Shard().heartbeat(W1, 0).error_code == Code.UNKNOWN_MEMBER_ID

    def test_one_that_says_nothing_of_its_member_is_none(self) -> None:
        """But a later one, still at epoch 0, of a member that is not known any more: it has to begin anew."""
        assert Shard().heartbeat(W1, 0, ()).error_code == Code.UNKNOWN_MEMBER_ID
        assert Shard().heartbeat(W1, 0, tasks("AC0")).error_code == Code.UNKNOWN_MEMBER_ID

    def test_only_a_static_member_leaves_for_a_while(self) -> None:
        assert Shard().heartbeat(W1, -2).error_code == Code.INVALID_REQUEST
        assert Shard().heartbeat(W1, -2, instance_id="w").error_code == Code.UNKNOWN_MEMBER_ID

    def test_a_server_assignor_that_is_not_here(self) -> None:
        reply = Shard().heartbeat(W1, 0, (), **whole(client_assignors=None, server_assignor="uniform"))
        assert reply.error_code == Code.UNSUPPORTED_ASSIGNOR
        assert reply.error_message == (
            "ServerAssignor is 'uniform', but coordinators here have no assignors: send ClientAssignors"
        )

    def test_no_assignor_at_all(self) -> None:
        reply = Shard().heartbeat(W1, 0, (), **whole(client_assignors=()))
        assert reply.error_code == Code.UNSUPPORTED_ASSIGNOR

    @pytest.mark.parametrize("range_", [(3, 4), (5, 9)])
    def test_version_ranges_that_do_not_overlap(self, range_: tuple[int, int]) -> None:
        shard = Shard()
        shard.join(W1)
        before = len(shard.log)
        least, most = range_
        reply = shard.join(W2, **an_assignor(minimum_version=least, maximum_version=most, version=least))
        assert reply.error_code == Code.UNSUPPORTED_ASSIGNOR
        assert list(shard.group.members) == [W1]
        assert len(shard.log) == before

    def test_an_update_that_does_not_overlap_changes_nothing(self) -> None:
        shard = Shard()
        shard.join(W1)
        shard.join(W2)
        before = shard.group.epoch
        reply = shard.heartbeat(W2, 0, **an_assignor(minimum_version=7, maximum_version=8, version=7))
        assert reply.error_code == Code.UNSUPPORTED_ASSIGNOR
        assert shard.group.epoch == before
        assert shard.group.members[W2].client_assignors[0].minimum_version == COOPERATIVE.minimum_version


def prepare(group: str = GROUP, member: str = W1, epoch: int = 0) -> RequestBody:
    return ConnectGroupPrepareAssignmentRequest(
        group_id=group, member_id=MemberId(member), member_epoch=MemberEpoch(epoch)
    )  # fmt: skip


def install(group: str = GROUP, member: str = W1, epoch: int = 0) -> RequestBody:
    return ConnectGroupInstallAssignmentRequest(
        group_id=group, member_id=MemberId(member), member_epoch=MemberEpoch(epoch), group_epoch=GroupEpoch(1)
    )


@pytest.mark.parametrize("request_", [prepare, install])
class TestPrepareAndInstall:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"group": "", "member": "", "epoch": -1}, "GroupId is empty"),
            ({"member": "", "epoch": -1}, "MemberId is empty"),
            ({"epoch": -1}, "MemberEpoch is -1: the least is 0"),
        ],
    )
    def test_an_invariant(self, request_: Any, wrong: dict[str, Any], message: str) -> None:
        reply = Shard().answer(request_(**wrong))
        assert reply.error_code == Code.INVALID_REQUEST
        assert str(reply.error_message).startswith(message)


@pytest.mark.parametrize("body", [heartbeat(W1, 0, (), **whole()), prepare(), install(), heartbeat(W1, -1)])
def test_switched_off(body: RequestBody) -> None:
    """As a broker answers that has the consumer protocol of KIP-848 switched off."""
    shard = Shard(CoordinatorSettings(enabled=False))
    assert shard.answer(body).error_code == Code.UNSUPPORTED_VERSION
    assert not shard.log
