"""The declarative group's messages and records: bytes worked by hand from the schemas, round trips, hostile bytes."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import SCHEMAS, STRUCTS, records, replies, reply_to, requests

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire import MalformedMessageError, UnwritableMessageError
from airflow_provider.group.declarative.protocol.wire.encoding import types as t
from airflow_provider.group.declarative.protocol.wire.encoding.structs import PlainStruct, Struct
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    Reply,
    Request,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    request_of,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    HeartbeatAssignment,
    InstalledMember,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor, ConnectorsAndTasks
from airflow_provider.group.declarative.protocol.wire.record_values import (
    Configuration,
    ConnectWorkerGroupConfigurationKey,
    ConnectWorkerGroupConfigurationValue,
    ConnectWorkerGroupConnectorsTasksMetadataKey,
    ConnectWorkerGroupConnectorsTasksMetadataValue,
    ConnectWorkerGroupCurrentMemberAssignmentKey,
    ConnectWorkerGroupCurrentMemberAssignmentValue,
    ConnectWorkerGroupMemberMetadataKey,
    ConnectWorkerGroupMemberMetadataValue,
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupMetadataValue,
    ConnectWorkerGroupTargetAssignmentKey,
    ConnectWorkerGroupTargetAssignmentValue,
    TargetMember,
)
from airflow_provider.group.declarative.protocol.wire.records import Record, decode_record, encode_record
from airflow_provider.values.model import MemberId, TaskId

from_hex = bytes.fromhex
unhurried = settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])

M = MemberId("m")
SOME = (ConnectorsAndTasks(connectors=("a",), tasks=(TaskId("a", 0), TaskId("é", 3))),)
SOME_HEX = "02 02 02 61 03 02 61 00000000 00 03 c3a9 00000003 00 00"
"""An array of one: an array of one connector, an array of two tasks; a section of tagged fields after each struct."""
ASSIGNOR = Assignor(name="c", minimum_version=-1, maximum_version=2, reason=1, version=2, metadata=b"\1\2")
ASSIGNOR_HEX = "02 63 ffff 0002 01 0002 03 0102 00"
NAMED_HEX = f"00000000 02 69 01 01 01 01 02 {ASSIGNOR_HEX} 00"

RECORDS = [
    (
        Record(ConnectWorkerGroupMetadataKey("g"), ConnectWorkerGroupMetadataValue(epoch=GroupEpoch(5))),
        "0003 0001 67",
        "0000 00000005 00",
    ),
    (
        Record(
            ConnectWorkerGroupConnectorsTasksMetadataKey("g"),
            ConnectWorkerGroupConnectorsTasksMetadataValue(epoch=GroupEpoch(5), connectors_tasks=SOME),
        ),
        "0004 0001 67",
        f"0000 00000005 {SOME_HEX} 00",
    ),
    (
        Record(
            ConnectWorkerGroupMemberMetadataKey("g", M),
            ConnectWorkerGroupMemberMetadataValue(group_epoch=GroupEpoch(5), client_id="i", assignors=(ASSIGNOR,)),
        ),
        "0005 0001 67 0001 6d",
        f"0000 00000005 01 02 69 01 01 01 02 {ASSIGNOR_HEX} 00",
    ),
    (
        Record(
            ConnectWorkerGroupMemberMetadataKey("g", M),
            ConnectWorkerGroupMemberMetadataValue(
                group_epoch=GroupEpoch(5), rebalance_timeout_ms=60_000, server_assignor="u"
            ),
        ),
        "0005 0001 67 0001 6d",
        "0000 00000005 01 01 01 01 01 01 02 00 04 0000ea60 01 02 02 75",
    ),
    (
        Record(
            ConnectWorkerGroupTargetAssignmentKey("g"),
            ConnectWorkerGroupTargetAssignmentValue(
                assignment_epoch=AssignmentEpoch(4),
                members=(TargetMember(member_id=M, error=-1, connectors_tasks=SOME, version=2, metadata=b"\7"),),
            ),
        ),
        "0006 0001 67",
        f"0000 00000004 02 02 6d ff {SOME_HEX} 0002 02 07 00 00",
    ),
    (
        Record(
            ConnectWorkerGroupCurrentMemberAssignmentKey("g", M),
            ConnectWorkerGroupCurrentMemberAssignmentValue(
                member_epoch=MemberEpoch(3), connectors_tasks=SOME, version=2, metadata=b"\7"
            ),
        ),
        "0007 0001 67 0001 6d",
        f"0000 00000003 00 {SOME_HEX} 0002 02 07 00",
    ),
    (
        Record(
            ConnectWorkerGroupCurrentMemberAssignmentKey("g", M),
            ConnectWorkerGroupCurrentMemberAssignmentValue(
                member_epoch=MemberEpoch(3), state=1, connectors_tasks_pending_revocation=SOME
            ),
        ),
        "0007 0001 67 0001 6d",
        f"0000 00000003 00 01 0000 01 02 00 01 01 01 15 {SOME_HEX}",
    ),
    (
        Record(
            ConnectWorkerGroupCurrentMemberAssignmentKey("g", M),
            ConnectWorkerGroupCurrentMemberAssignmentValue(
                member_epoch=MemberEpoch(3),
                last_said=ConnectWorkerGroupMemberMetadataValue(
                    group_epoch=GroupEpoch(0), instance_id="i", assignors=(ASSIGNOR,)
                ),
            ),
        ),
        "0007 0001 67 0001 6d",
        f"0000 00000003 00 01 0000 01 01 03 {13 + len(bytes.fromhex(ASSIGNOR_HEX)):02x} 01 {NAMED_HEX}",
    ),
    (Record(ConnectWorkerGroupCurrentMemberAssignmentKey("g", M), None), "0007 0001 67 0001 6d", None),
    (
        Record(
            ConnectWorkerGroupConfigurationKey("g"),
            ConnectWorkerGroupConfigurationValue(configurations=(Configuration(name="n", value="v"),)),
        ),
        "0008 0001 67",
        "0000 02 02 6e 02 76 00 00",
    ),
]

JOIN = request_of(
    ConnectGroupHeartbeatRequest(
        group_id="g",
        member_id=M,
        member_epoch=MemberEpoch(0),
        instance_id="i",
        rebalance_timeout_ms=60_000,
        client_assignors=(ASSIGNOR,),
        connectors_and_tasks=(),
    ),
    correlation_id=7,
    reply_partition=2,
)
STILL_HERE = request_of(
    ConnectGroupHeartbeatRequest(group_id="g", member_id=M, member_epoch=MemberEpoch(5)),
    correlation_id=8,
    reply_partition=2,
)
INSTALL = request_of(
    ConnectGroupInstallAssignmentRequest(
        group_id="g",
        member_id=M,
        member_epoch=MemberEpoch(5),
        group_epoch=GroupEpoch(6),
        members=(InstalledMember(member_id=M, connectors_and_tasks=SOME, version=2, metadata=b"\7"),),
    ),
    correlation_id=9,
    reply_partition=2,
)
REQUESTS = [
    (
        JOIN,
        f"03e9 0000 00000007 00000002 0002 67 02 6d 00000000 02 69 0000ea60 00 02 {ASSIGNOR_HEX} 01 00",
    ),
    (STILL_HERE, "03e9 0000 00000008 00000002 00 02 67 02 6d 00000005 00 ffffffff 00 00 00 00"),
    (
        INSTALL,
        f"03eb 0000 00000009 00000002 00 02 67 02 6d 00000005 00000006 00 02 02 6d {SOME_HEX} 00000002 02 07 00 00",
    ),
]
REPLIES = [
    (
        reply_to(
            STILL_HERE,
            ConnectGroupHeartbeatResponse(
                member_epoch=MemberEpoch(5),
                heartbeat_interval_ms=3_000,
                assignment=HeartbeatAssignment(connectors_and_tasks=SOME, version=2, metadata=b"\7"),
            ),
        ),
        f"03e9 0000 00000008 00 00000000 0000 00 00000005 00000bb8 01 00 {SOME_HEX} 0002 02 07 00 00",
    ),
    (
        reply_to(STILL_HERE, ConnectGroupHeartbeatResponse(member_epoch=MemberEpoch(5), heartbeat_interval_ms=3_000)),
        "03e9 0000 00000008 00 00000000 0000 00 00000005 00000bb8 ff 00",
    ),
    (
        reply_to(INSTALL, ConnectGroupInstallAssignmentResponse(error_code=110, error_message="no")),
        "03eb 0000 00000009 00 00000000 006e 03 6e6f 00",
    ),
]


class TestBytes:
    """Against bytes written by hand from the schemas."""

    @pytest.mark.parametrize(("record", "key", "value"), RECORDS)
    def test_record(self, record: Record, key: str, value: str | None) -> None:
        data = from_hex(key), None if value is None else from_hex(value)
        assert encode_record(record) == data
        assert decode_record(*data) == record

    @pytest.mark.parametrize(("request_", "data"), REQUESTS)
    def test_request(self, request_: Request, data: str) -> None:
        assert encode_request(request_).hex() == from_hex(data).hex()
        assert decode_request(from_hex(data)) == request_

    @pytest.mark.parametrize(("reply", "data"), REPLIES)
    def test_reply(self, reply: Reply, data: str) -> None:
        assert encode_reply(reply).hex() == from_hex(data).hex()
        assert decode_reply(from_hex(data)) == reply


class TestRoundTrip:
    @unhurried
    @given(record=records())
    def test_record(self, record: Record) -> None:
        assert decode_record(*encode_record(record)) == record

    @unhurried
    @given(request_=requests())
    def test_request(self, request_: Request) -> None:
        assert decode_request(encode_request(request_)) == request_

    @pytest.mark.slow
    @unhurried
    @given(reply=replies())
    def test_reply(self, reply: Reply) -> None:
        assert decode_reply(encode_reply(reply)) == reply


def described(of: t.Type) -> dict[str, Any]:
    """A type in the words of Kafka's message definitions; what structs are called is left out."""
    if isinstance(of, t.CompactNullable | t.NullableStruct):
        return described(of.of) | {"nullable": True}
    if isinstance(of, t.CompactArrayOf):
        inner: dict[str, Any] = described(of.of)
        return inner | {"type": f"[]{inner['type']}"}
    if isinstance(of, Struct | PlainStruct):
        return {"type": "", "fields": [{"name": one.name, **described(one.type)} for one in of.fields], **tagged(of)}
    names = {t.INT8: "int8", t.INT16: "int16", t.INT32: "int32", t.COMPACT_BYTES: "bytes"}
    return {"type": names.get(of, "string")}


def tagged(of: Struct | PlainStruct) -> dict[str, Any]:
    """The tagged fields of a struct, where it has any."""
    entries = of.tagged if isinstance(of, Struct) else ()
    shown = [{"tag": one.tag, "name": one.field.name, **described(one.field.type)} for one in entries]
    return {"tagged": shown} if shown else {}


def nameless(field: dict[str, Any]) -> dict[str, Any]:
    """A field of a schema, without the names of its structs."""
    if "fields" not in field:
        return field
    prefix = "[]" if field.get("type", "").startswith("[]") else ""
    inner: dict[str, Any] = {
        part: [nameless(one) for one in field[part]] for part in ("fields", "tagged") if part in field
    }
    return field | {"type": prefix, **inner}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_tables_are_the_proposals_schemas(name: str) -> None:
    schema, struct = SCHEMAS[name], STRUCTS[name]
    assert described(struct)["fields"] == [nameless(field) for field in schema["fields"]]
    assert isinstance(struct, Struct) == schema["flexible"]
    assert tagged(struct).get("tagged", []) == [nameless(field) for field in schema.get("tagged", [])]


Decoder = Callable[[bytes], object]


def read_key(data: bytes) -> object:
    return decode_record(data, None)


def reading_values(key: str) -> Decoder:
    return lambda data: decode_record(from_hex(key), data)


SAMPLES: list[tuple[Decoder, bytes]] = [
    *((read_key, from_hex(key)) for _, key, _ in RECORDS),
    *((reading_values(key), from_hex(value)) for _, key, value in RECORDS if value is not None),
    *((decode_request, from_hex(data)) for _, data in REQUESTS),
    *((decode_reply, from_hex(data)) for _, data in REPLIES),
]


def decodes(decode: Decoder, data: bytes) -> bool:
    """Whether the bytes are accepted; anything but the one documented error fails the test."""
    try:
        decode(data)
    except MalformedMessageError as wrong:
        if not (0 <= wrong.at <= len(data) and wrong.place):
            raise AssertionError(f"it has no place in the bytes: {wrong}") from None
        return False
    return True


class TestHostile:
    @pytest.mark.parametrize(("decode", "data"), SAMPLES)
    def test_bits_flipped_ends_cut_and_bytes_added(self, decode: Decoder, data: bytes) -> None:
        for bit in range(len(data) * 8):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            decodes(decode, bytes(flipped))
        assert not any(decodes(decode, data[:end]) for end in range(len(data)))
        assert not decodes(decode, data + b"\0")

    @pytest.mark.slow
    @pytest.mark.parametrize(("decode", "data"), SAMPLES)
    @unhurried
    @given(rest=st.binary(max_size=100), random=st.data())
    def test_random_ends(self, decode: Decoder, data: bytes, rest: bytes, random: st.DataObject) -> None:
        decodes(decode, data[: random.draw(st.integers(0, len(data)))] + rest)

    @pytest.mark.parametrize("length", ["ffffffff07", "ffffffff0f", "8080808008", "ffffffffff01", "8094ebdc03"])
    def test_a_length_that_lies_costs_nothing(self, length: str) -> None:
        target = reading_values("0006 0001 67")
        tracemalloc.start()
        try:
            assert not decodes(target, from_hex("0000 00000004" + length) + bytes(1_000))
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("key", "before", "entry", "after"),
        [
            ("0005 0001 67 0001 6d", "0000 00000003 01 01 01", "01", "01 01 00"),
            ("0006 0001 67", "0000 00000003", "01 00 01 0000 01 00", "00"),
            ("0004 0001 67", "0000 00000003", "01 01 00", "00"),
        ],
        ids=["strings", "members", "arrays"],
    )
    def test_many_small_entries_cost_a_small_multiple_of_their_bytes(
        self, key: str, before: str, entry: str, after: str
    ) -> None:
        many = "91 4e"  # an array of 10,000
        data = from_hex(before + many) + from_hex(entry) * 10_000 + from_hex(after)
        tracemalloc.start()
        started = time.process_time()
        try:
            assert decodes(reading_values(key), data)
            assert tracemalloc.get_traced_memory()[1] < 60 * len(data)
        finally:
            tracemalloc.stop()
        assert time.process_time() - started < 5  # measured 0.3 s


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("0009 0001 67", None, "key.version at byte 0: expected 3 or 4 or 5 or 6 or 7 or 8, found 9"),
        ("0003 ffff", None, "key.GroupId at byte 2: expected a string, found a length of -1"),
        ("0003 0001 ff", None, "key.GroupId at byte 4: expected UTF-8, found 0xff: invalid start byte"),
        ("0003 0001 67", "0001", "value.version at byte 0: expected 0, found 1"),
        ("0003 0001 67", "0000 00000005 00 00", "value at byte 7: expected the end, a byte remains"),
        (
            "0003 0001 67",
            "0000 00000005 02 05 00 05 00",
            "value.(tagged fields) at byte 9: expected a tag above 5, found 5",
        ),
        (
            "0006 0001 67",
            "0000 00000004 02 00",
            "value.Members at byte 6: expected an array that fits into 1 bytes, found one of 1 entries",
        ),
        (
            "0006 0001 67",
            f"0000 00000004 03 02 6d ff {SOME_HEX} 0002 02 07 00 00 ff 01 0000 00 00 00",
            "value.Members[1].MemberId at byte 36: expected a string, found null",
        ),
    ],
)
def test_the_place_and_what_was_expected(key: str, value: str | None, wrong: str) -> None:
    with pytest.raises(MalformedMessageError) as caught:
        decode_record(from_hex(key), None if value is None else from_hex(value))
    assert str(caught.value) == wrong


def test_what_a_nullable_struct_begins_with() -> None:
    head = "03e9 0000 00000008 00 00000000 0000 00 00000005 00000bb8"
    with pytest.raises(MalformedMessageError, match=r"^body\.Assignment at byte 24: expected -1 \(null\) or 1 before"):
        decode_reply(from_hex(f"{head} 00 00"))


def test_a_value_that_cannot_be_written_is_named() -> None:
    def target(member: TargetMember) -> Record:
        value = ConnectWorkerGroupTargetAssignmentValue(assignment_epoch=AssignmentEpoch(1), members=(member,))
        return Record(ConnectWorkerGroupTargetAssignmentKey("g"), value)

    with pytest.raises(UnwritableMessageError, match=r"^value\.Members\[0\]\.MemberId: expected a string of at most"):
        encode_record(target(TargetMember(member_id=MemberId("m" * 2**15))))
    with pytest.raises(UnwritableMessageError, match=r"^value\.Members\[0\]\.Error: expected an integer of 1 bytes"):
        encode_record(target(TargetMember(member_id=M, error=128)))
    with pytest.raises(UnwritableMessageError, match=r"^value: expected a ConnectWorkerGroupMetadataValue, found"):
        encode_record(Record(ConnectWorkerGroupMetadataKey("g"), target(TargetMember(member_id=M)).value))
