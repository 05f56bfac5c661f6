"""The bytes of every request and response version, checked against kio's independent reading of Kafka's schemas."""

from __future__ import annotations

import io
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from airflow_provider.kafka.group_requests import inspection, messages, offsets, requests, rounds
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, WorkerId

NO_THROTTLE = i32Timedelta.parse(timedelta())
# A string that takes two bytes of length in the compact encoding, and characters that take more than one byte each.
LONG = "wörker-" * 40

JOIN = messages.JoinRequest(
    group_id="flights",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    member_id=MemberId("m-1"),
    group_instance_id=WorkerId(LONG),
    protocols=(("sessioned", b"\x00\x02" * 200), ("compatible", b"")),
    reason="a worker joins",
)
SYNC = messages.SyncRequest(
    group_id="flights",
    generation=GenerationId(7),
    member_id=MemberId("m-1"),
    group_instance_id=WorkerId("worker-1"),
    protocol="sessioned",
    assignments={MemberId("m-1"): b"\x00" * 300, MemberId("m-2"): b""},
)
HEARTBEAT = requests.Heartbeat("flights", GenerationId(7), MemberId("m-1"), WorkerId("worker-1"))
LEAVE = requests.LeaveGroup("flights", MemberId(""), WorkerId("worker-1"), "done for the day")


def kio_type(api: str, version: int, kind: str, name: str) -> Any:
    return getattr(import_module(f"kio.schema.{api}.v{version}.{kind}"), name)


def read_by_kio(entity: Any, data: bytes) -> Any:
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data), "kio did not need all the bytes"
    return value


def written_by_kio(value: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


def sent(request: Any, version: int) -> Any:
    """The request as a broker would get it that knows no newer version than this one."""
    struct = request.prepare({request.API_KEY: (0, version)})
    assert isinstance(struct, type(request)._CLASSES)
    assert version == struct.API_VERSION
    assert struct.FLEXIBLE_VERSION
    return struct


def answered(request: Any, version: int, value: Any) -> Any:
    """What we read from a broker's answer in that version."""
    response_type = sent(request, version).RESPONSE_TYPE
    data = io.BytesIO(written_by_kio(value))
    response = response_type.decode(data)
    assert not data.read(), "we did not need all the bytes"
    return request.read(response)


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


@pytest.mark.parametrize("version", [6, 7, 8, 9])
def test_join_group_request(version: int) -> None:
    entity = kio_type("join_group", version, "request", "JoinGroupRequest")
    read = read_by_kio(entity, sent(rounds.JoinGroup(JOIN), version).encode())
    assert read.group_id == "flights"
    assert milliseconds(read.session_timeout) == 10_000
    assert milliseconds(read.rebalance_timeout) == 60_000
    assert (read.member_id, read.group_instance_id, read.protocol_type) == ("m-1", LONG, "connect")
    assert tuple((each.name, each.metadata) for each in read.protocols) == JOIN.protocols
    assert getattr(read, "reason", "not there") == ("a worker joins" if version >= 8 else "not there")


def test_join_group_request_of_a_dynamic_member_has_null_where_there_is_nothing() -> None:
    message = messages.JoinRequest(group_id="g", session_timeout_ms=1, rebalance_timeout_ms=1, protocols=())
    entity = kio_type("join_group", 9, "request", "JoinGroupRequest")
    read = read_by_kio(entity, sent(rounds.JoinGroup(message), 9).encode())
    assert (read.member_id, read.group_instance_id, read.reason, read.protocols) == ("", None, None, ())


@pytest.mark.parametrize("version", [6, 7, 8, 9])
def test_join_group_response(version: int) -> None:
    entity = kio_type("join_group", version, "response", "JoinGroupResponse")
    member = kio_type("join_group", version, "response", "JoinGroupResponseMember")
    value = entity(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=7,
        protocol_name="sessioned",
        leader="m-1",
        member_id="m-1",
        members=(
            member(member_id="m-1", group_instance_id=LONG, metadata=b"\x01" * 200),
            member(member_id="m-2", group_instance_id=None, metadata=b""),
        ),
        **({"protocol_type": "connect"} if version >= 7 else {}),
        **({"skip_assignment": True} if version >= 9 else {}),
    )
    read = answered(rounds.JoinGroup(JOIN), version, value)
    assert read == messages.JoinResponse(
        error=KafkaErrorCode.NONE,
        generation=GenerationId(7),
        protocol="sessioned",
        leader=MemberId("m-1"),
        member_id=MemberId("m-1"),
        skip_assignment=version >= 9,
        members=(
            messages.JoinMember(member_id=MemberId("m-1"), group_instance_id=WorkerId(LONG), metadata=b"\x01" * 200),
            messages.JoinMember(member_id=MemberId("m-2"), group_instance_id=None, metadata=b""),
        ),
    )


def test_join_group_response_with_an_error_has_null_for_the_protocol() -> None:
    entity = kio_type("join_group", 9, "response", "JoinGroupResponse")
    value = entity(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.member_id_required,
        protocol_name=None,
        leader="",
        member_id="given",
        members=(),
    )
    read = answered(rounds.JoinGroup(JOIN), 9, value)
    assert read == messages.JoinResponse(error=KafkaErrorCode.MEMBER_ID_REQUIRED, member_id=MemberId("given"))


@pytest.mark.parametrize("version", [4, 5])
def test_sync_group_request(version: int) -> None:
    entity = kio_type("sync_group", version, "request", "SyncGroupRequest")
    read = read_by_kio(entity, sent(rounds.SyncGroup(SYNC), version).encode())
    assert (read.group_id, read.generation_id) == ("flights", 7)
    assert (read.member_id, read.group_instance_id) == ("m-1", "worker-1")
    assert {each.member_id: each.assignment for each in read.assignments} == SYNC.assignments
    if version >= 5:
        assert (read.protocol_type, read.protocol_name) == ("connect", "sessioned")


@pytest.mark.parametrize("version", [4, 5])
def test_sync_group_response(version: int) -> None:
    entity = kio_type("sync_group", version, "response", "SyncGroupResponse")
    value = entity(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, assignment=b"\x07" * 500)
    read = answered(rounds.SyncGroup(SYNC), version, value)
    assert read == messages.SyncResponse(error=KafkaErrorCode.NONE, assignment=b"\x07" * 500)


def test_heartbeat() -> None:
    read = read_by_kio(kio_type("heartbeat", 4, "request", "HeartbeatRequest"), sent(HEARTBEAT, 4).encode())
    assert (read.group_id, read.generation_id) == ("flights", 7)
    assert (read.member_id, read.group_instance_id) == ("m-1", "worker-1")
    entity = kio_type("heartbeat", 4, "response", "HeartbeatResponse")
    value = entity(throttle_time=NO_THROTTLE, error_code=ErrorCode.rebalance_in_progress)
    assert answered(HEARTBEAT, 4, value) is KafkaErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", [4, 5])
def test_leave_group(version: int) -> None:
    entity = kio_type("leave_group", version, "request", "LeaveGroupRequest")
    read = read_by_kio(entity, sent(LEAVE, version).encode())
    (member,) = read.members
    assert (read.group_id, member.member_id, member.group_instance_id) == ("flights", "", "worker-1")
    assert getattr(member, "reason", "not there") == ("done for the day" if version >= 5 else "not there")


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("of_group", "of_member", "expected"),
    [
        (ErrorCode.none, ErrorCode.none, KafkaErrorCode.NONE),
        (ErrorCode.none, ErrorCode.unknown_member_id, KafkaErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.not_coordinator, ErrorCode.none, KafkaErrorCode.NOT_COORDINATOR),
    ],
)
def test_leave_group_response_names_the_error_of_the_group_or_else_of_the_member(
    version: int, of_group: ErrorCode, of_member: ErrorCode, expected: KafkaErrorCode
) -> None:
    entity = kio_type("leave_group", version, "response", "LeaveGroupResponse")
    member = kio_type("leave_group", version, "response", "MemberResponse")
    value = entity(
        throttle_time=NO_THROTTLE,
        error_code=of_group,
        members=(member(member_id="", group_instance_id="worker-1", error_code=of_member),),
    )
    assert answered(LEAVE, version, value) is expected


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_find_coordinator(version: int) -> None:
    request = requests.FindCoordinator("flights")
    entity = kio_type("find_coordinator", version, "request", "FindCoordinatorRequest")
    read = read_by_kio(entity, sent(request, version).encode())
    assert read.key_type == 0
    assert (read.key if version == 3 else read.coordinator_keys) == ("flights" if version == 3 else ("flights",))

    found = {
        "node_id": 3,
        "host": "broker-3",
        "port": 9092,
        "error_code": ErrorCode.none,
        "error_message": None,
    }
    response = kio_type("find_coordinator", version, "response", "FindCoordinatorResponse")
    if version == 3:
        value = response(throttle_time=NO_THROTTLE, **found)
    else:
        coordinator = kio_type("find_coordinator", version, "response", "Coordinator")
        value = response(throttle_time=NO_THROTTLE, coordinators=(coordinator(key="flights", **found),))
    assert answered(request, version, value) == messages.FindCoordinatorResponse(
        error=KafkaErrorCode.NONE, node=messages.NodeId(3), host="broker-3", port=9092
    )


def test_an_offset_is_committed_by_who_is_no_member() -> None:
    request = offsets.OffsetCommit("flights.watcher.w", "flights.events", 2**40)
    read = read_by_kio(kio_type("offset_commit", 8, "request", "OffsetCommitRequest"), sent(request, 8).encode())
    assert (read.group_id, read.generation_id_or_member_epoch, read.member_id) == ("flights.watcher.w", -1, "")
    assert read.group_instance_id is None
    (topic,) = read.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.committed_offset) == ("flights.events", 0, 2**40)
    assert partition.committed_leader_epoch == -1

    response = kio_type("offset_commit", 8, "response", "OffsetCommitResponse")
    answered_topic = kio_type("offset_commit", 8, "response", "OffsetCommitResponseTopic")
    answered_partition = kio_type("offset_commit", 8, "response", "OffsetCommitResponsePartition")
    refused = answered_partition(partition_index=0, error_code=ErrorCode.not_coordinator)
    value = response(throttle_time=NO_THROTTLE, topics=(answered_topic(name="flights.events", partitions=(refused,)),))
    assert answered(request, 8, value).error is KafkaErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("of_group", "of_partition", "offset", "expected"),
    [
        (ErrorCode.none, ErrorCode.none, 2**40, messages.CommittedOffset(error=KafkaErrorCode.NONE, offset=2**40)),
        (ErrorCode.none, ErrorCode.none, -1, messages.CommittedOffset(error=KafkaErrorCode.NONE)),
        (
            ErrorCode.none,
            ErrorCode.topic_authorization_failed,
            -1,
            messages.CommittedOffset(error=KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ),
        (ErrorCode.not_coordinator, None, -1, messages.CommittedOffset(error=KafkaErrorCode.NOT_COORDINATOR)),
    ],
)
def test_a_committed_offset_is_asked_for(
    of_group: ErrorCode, of_partition: ErrorCode | None, offset: int, expected: messages.CommittedOffset
) -> None:
    request = offsets.OffsetFetch("flights.watcher.w", "flights.events")
    read = read_by_kio(kio_type("offset_fetch", 6, "request", "OffsetFetchRequest"), sent(request, 6).encode())
    assert read.group_id == "flights.watcher.w"
    assert [(topic.name, topic.partition_indexes) for topic in read.topics] == [("flights.events", (0,))]

    response = kio_type("offset_fetch", 6, "response", "OffsetFetchResponse")
    topic = kio_type("offset_fetch", 6, "response", "OffsetFetchResponseTopic")
    partition = kio_type("offset_fetch", 6, "response", "OffsetFetchResponsePartition")
    partitions = (
        ()
        if of_partition is None
        else (
            partition(
                partition_index=0,
                committed_offset=offset,
                committed_leader_epoch=-1,
                metadata="",
                error_code=of_partition,
            ),
        )
    )
    topics = (topic(name="flights.events", partitions=partitions),) if partitions else ()
    value = response(throttle_time=NO_THROTTLE, topics=topics, error_code=of_group)
    assert answered(request, 6, value) == expected


@pytest.mark.parametrize("version", [5, 6])
def test_describe_groups(version: int) -> None:
    request = inspection.DescribeGroups(("flights", "planes"))
    entity = kio_type("describe_groups", version, "request", "DescribeGroupsRequest")
    read = read_by_kio(entity, sent(request, version).encode())
    assert (read.groups, read.include_authorized_operations) == (("flights", "planes"), False)

    response = kio_type("describe_groups", version, "response", "DescribeGroupsResponse")
    group = kio_type("describe_groups", version, "response", "DescribedGroup")
    member = kio_type("describe_groups", version, "response", "DescribedGroupMember")
    value = response(
        throttle_time=NO_THROTTLE,
        groups=(
            group(
                error_code=ErrorCode.none,
                group_id="flights",
                group_state="Stable",
                protocol_type="connect",
                protocol_data="sessioned",
                members=(
                    member(
                        member_id="m-1",
                        group_instance_id="worker-1",
                        client_id="us",
                        client_host="/127.0.0.1",
                        member_metadata=b"\x01",
                        member_assignment=b"\x02",
                    ),
                ),
            ),
            group(
                error_code=ErrorCode.group_id_not_found,
                group_id="planes",
                group_state="Dead",
                protocol_type="",
                protocol_data="",
                members=(),
                **({"error_message": "no such group"} if version >= 6 else {}),
            ),
        ),
    )
    assert answered(request, version, value) == (
        messages.GroupDescription(
            error=KafkaErrorCode.NONE,
            group_id="flights",
            state="Stable",
            protocol_type="connect",
            protocol="sessioned",
            members=(
                messages.DescribedMember(
                    member_id=MemberId("m-1"),
                    group_instance_id=WorkerId("worker-1"),
                    client_id="us",
                    client_host="/127.0.0.1",
                    metadata=b"\x01",
                    assignment=b"\x02",
                ),
            ),
        ),
        messages.GroupDescription(error=KafkaErrorCode.GROUP_ID_NOT_FOUND, group_id="planes"),
    )


@pytest.mark.parametrize("version", [3, 4, 5])
def test_list_groups(version: int) -> None:
    request = inspection.ListGroups()
    read = read_by_kio(
        kio_type("list_groups", version, "request", "ListGroupsRequest"), sent(request, version).encode()
    )
    assert getattr(read, "states_filter", ()) == ()
    assert getattr(read, "types_filter", ()) == ()

    group = kio_type("list_groups", version, "response", "ListedGroup")
    value = kio_type("list_groups", version, "response", "ListGroupsResponse")(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        groups=(
            group(
                group_id="flights",
                protocol_type="connect",
                **({"group_state": "Stable"} if version >= 4 else {}),
                **({"group_type": "classic"} if version >= 5 else {}),
            ),
        ),
    )
    assert answered(request, version, value) == messages.ListGroupsResponse(
        error=KafkaErrorCode.NONE,
        groups=(
            messages.ListedGroup(group_id="flights", protocol_type="connect", state="Stable" if version >= 4 else ""),
        ),
    )


def test_a_newer_broker_gets_the_newest_version_that_we_know() -> None:
    assert rounds.JoinGroup(JOIN).prepare({11: (2, 40)}).API_VERSION == 9


def test_an_error_code_that_is_not_listed_is_kept() -> None:
    code = KafkaErrorCode(999)
    assert (code, code.name) == (999, "CODE_999")
    with pytest.raises(ValueError, match="not a code"):
        KafkaErrorCode("not a code")  # type: ignore[arg-type]  # what a broker might say
