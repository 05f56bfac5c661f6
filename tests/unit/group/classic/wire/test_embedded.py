"""The embedded protocol: bytes written by hand from the format's definition, round trips, and hostile bytes."""

from __future__ import annotations

import struct
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from damaged_messages import Decoder, decodes, with_a_bit_flipped
from embedded_bytes import (
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_provider.group.classic.wire import CODECS, codec_of_bytes, fields, v0, v1
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.values.model import (
    Assignment,
    AssignmentError,
    ConfigOffset,
    LocalProtocolError,
    MalformedEmbeddedError,
    SubProtocol,
    TaskId,
    WorkerState,
    planner_of,
)

pytestmark = pytest.mark.usefixtures("nothing_kept")
from_hex = bytes.fromhex
NULL = "ffffffff"
EAGER_METADATA = from_hex("0000 0005 68747470 3a 000000000000002a")
"""v0, url "http:", config offset 42."""

COOPERATIVE_ASSIGNMENT = from_hex(
    "0001"  # version
    "0000"  # error
    "0002 7731"  # leader "w1"
    "0003 752f31"  # leader url "u/1"
    "0000000000000007"  # config offset
    "00000002"  # assigned: two jobs
    "0001 61 00000002 ffffffff 00000003"  # a: its planner, task 3
    "0002 c3a9 00000001 00000000"  # é: task 0
    "00000001"  # revoked: one job
    "0001 62 00000001 0000000a"  # b: task 10
    "000493e0"  # delay 300,000 ms
)
ASSIGNMENT = Assignment(
    version=1,
    leader="w1",
    leader_url="u/1",
    config_offset=ConfigOffset(7),
    assigned=frozenset({planner_of("a"), TaskId("a", 3), TaskId("é", 0)}),
    revoked=frozenset({TaskId("b", 10)}),
    delay_ms=300_000,
)
HEAD = "0001 0000 0000 0000 ffffffffffffffff"
"""An assignment of v1 up to its config offset: no error, empty leader and url, config offset -1."""


class TestBytes:
    """Against bytes written by hand."""

    def test_eager_metadata(self) -> None:
        state = WorkerState(version=0, url="http:", config_offset=ConfigOffset(42))
        assert encode_metadata(state) == EAGER_METADATA
        assert decode_metadata(EAGER_METADATA) == state

    def test_eager_assignment_is_the_whole_of_it(self) -> None:
        data = from_hex("0000 0001 0001 6c 0000 0000000000000001 00000001 0001 61 00000001 00000000")
        assignment = Assignment(
            version=0,
            error=AssignmentError.CONFIG_MISMATCH,
            leader="l",
            config_offset=ConfigOffset(1),
            assigned=frozenset({TaskId("a", 0)}),
        )
        assert encode_assignment(assignment) == data
        assert decode_assignment(data) == assignment

    @pytest.mark.parametrize("version", [1, 2])
    def test_cooperative_assignment(self, version: int) -> None:
        data = struct.pack(">h", version) + COOPERATIVE_ASSIGNMENT[2:]
        assert encode_assignment(replace(ASSIGNMENT, version=version)) == data
        assert decode_assignment(data) == replace(ASSIGNMENT, version=version)

    @pytest.mark.parametrize("version", [1, 2])
    def test_cooperative_metadata_carries_what_the_member_owns(self, version: int) -> None:
        nested = struct.pack(">h", version) + COOPERATIVE_ASSIGNMENT[2:]
        data = struct.pack(">hH1sqi", version, 1, b"u", 9, len(nested)) + nested
        state = WorkerState(
            version=version, url="u", config_offset=ConfigOffset(9), assignment=replace(ASSIGNMENT, version=version)
        )
        assert encode_metadata(state) == data
        assert decode_metadata(data) == state

    @pytest.mark.parametrize("own", [None, Assignment(version=2)])
    def test_an_own_assignment_that_says_nothing_is_sent_as_null(self, own: Assignment | None) -> None:
        data = from_hex(f"0002 0001 75 0000000000000009 {NULL}")
        assert encode_metadata(WorkerState(version=2, url="u", config_offset=ConfigOffset(9), assignment=own)) == data
        assert decode_metadata(data).assignment is None

    def test_an_own_assignment_without_tasks_but_with_a_leader_is_sent(self) -> None:
        own = Assignment(version=2, leader="w1", config_offset=ConfigOffset(9))
        state = WorkerState(version=2, url="u", config_offset=ConfigOffset(9), assignment=own)
        assert decode_metadata(encode_metadata(state)).assignment == own

    def test_tasks_are_written_in_order_so_that_equal_states_have_equal_bytes(self) -> None:
        forth = frozenset(TaskId(f"job-{i}", j) for i in range(40) for j in range(-1, 4))
        back = frozenset(sorted(forth, reverse=True))
        assert encode_assignment(Assignment(version=1, assigned=forth)) == encode_assignment(
            Assignment(version=1, assigned=back)
        )


class TestLeniency:
    """What a peer of another version may send."""

    def test_fields_missing_at_the_end_take_their_defaults(self) -> None:
        head = from_hex(HEAD)
        assigned = from_hex("00000001 0001 61 00000001 00000002")
        expected = Assignment(version=1, assigned=frozenset({TaskId("a", 2)}))
        assert decode_assignment(head) == Assignment(version=1)
        assert decode_assignment(head + assigned) == expected
        assert decode_assignment(head + assigned + from_hex(NULL)) == expected

    def test_metadata_without_an_allocation(self) -> None:
        data = struct.pack(">h", 1) + EAGER_METADATA[2:]
        assert decode_metadata(data) == WorkerState(version=1, url="http:", config_offset=ConfigOffset(42))

    def test_null_arrays_are_empty(self) -> None:
        assert decode_assignment(from_hex(f"{HEAD} {NULL} {NULL} 00000000")) == Assignment(version=1)

    def test_a_later_version_is_read_like_the_last_one_known(self) -> None:
        data = struct.pack(">h", 9) + COOPERATIVE_ASSIGNMENT[2:]
        assert decode_assignment(data + b"fields to come") == replace(ASSIGNMENT, version=9)

    def test_what_follows_the_last_field_is_ignored(self) -> None:
        assert decode_metadata(EAGER_METADATA + b"\x00\x00\x00\x01") == decode_metadata(EAGER_METADATA)
        assert decode_assignment(COOPERATIVE_ASSIGNMENT + b"\x7f\xff\xff\xff") == ASSIGNMENT

    def test_an_allocation_is_read_within_its_own_length(self) -> None:
        head = from_hex(HEAD)
        data = from_hex("0001 0000 0000000000000000") + struct.pack(">i", len(head)) + head + b"more to come"
        assert decode_metadata(data).assignment == Assignment(version=1)

    def test_an_allocation_keeps_its_own_version(self) -> None:
        own = Assignment(version=1, leader="w1")
        state = WorkerState(version=2, url="", config_offset=ConfigOffset(0), assignment=own)
        assert decode_metadata(encode_metadata(state)).assignment == own

    def test_a_job_named_twice_is_merged(self) -> None:
        jobs = "00000002 0001 61 00000001 00000000 0001 61 00000002 00000000 00000001"
        assert decode_assignment(from_hex(f"{HEAD} {jobs}")).assigned == {TaskId("a", 0), TaskId("a", 1)}


class TestMalformed:
    """Each complaint names the field and the byte at which it starts."""

    @pytest.mark.parametrize(
        ("data", "complaint"),
        [
            ("", "version at byte 0: needs 2 bytes, 0 remain"),
            ("ffff 0000 0000000000000000", "version at byte 0: -1 is negative"),
            ("0001 ffff 0000000000000000", "url at byte 2: length -1 is negative"),
            ("0001 7fff 0000000000000000", "url at byte 2: length 32767 is too much for 8 bytes"),
            ("0001 0002 c328 0000000000000000", "url at byte 2: is not UTF-8: invalid continuation byte"),
            ("0001 0000 000000", "config_offset at byte 4: needs 8 bytes, 3 remain"),
            ("0001 0000 0000000000000000 00", "allocation at byte 12: needs 4 bytes, 1 remain"),
            ("0001 0000 0000000000000000 fffffffe", "allocation at byte 12: length -2 is negative"),
            ("0001 0000 0000000000000000 00000003 0001", "allocation at byte 12: length 3 is too much for 2 bytes"),
            ("0001 0000 0000000000000000 00000000", "allocation.version at byte 16: needs 2 bytes, 0 remain"),
            ("0001 0000 0000000000000000 00000002 8000", "allocation.version at byte 16: -32768 is negative"),
            (
                "0001 0000 0000000000000000 00000006 0001 0000 0005 6162636465",
                "allocation.leader at byte 20: length 5 is too much for 0 bytes",
            ),
        ],
    )
    def test_metadata(self, data: str, complaint: str) -> None:
        with pytest.raises(MalformedEmbeddedError) as caught:
            decode_metadata(from_hex(data))
        assert str(caught.value) == complaint

    @pytest.mark.parametrize(
        ("data", "complaint"),
        [
            (f"{HEAD} fffffffe", "assigned at byte 16: length -2 is negative"),
            (f"{HEAD} 7fffffff 00", "assigned at byte 16: length 2147483647 is too much for 1 bytes"),
            (f"{HEAD} 00000001", "assigned at byte 16: length 1 is too much for 0 bytes"),
            (f"{HEAD} 00000001 ffff 00000000", "assigned.connector at byte 20: length -1 is negative"),
            (f"{HEAD} 00000001 0000 {NULL}", "assigned.tasks at byte 22: length -1 is negative"),
            (f"{HEAD} 00000001 0000 00000002 00000000", "assigned.tasks at byte 22: length 2 is too much for 4 bytes"),
            (f"{HEAD} 00000001 0000 00000001 fffffffe", "assigned.tasks at byte 22: has task -2; the lowest is -1"),
            (f"{HEAD} {NULL} 00000002 0000 00000000", "revoked at byte 20: length 2 is too much for 6 bytes"),
            (f"{HEAD} {NULL} {NULL} 0000", "delay at byte 24: needs 4 bytes, 2 remain"),
            ("0000 0000 0000 0000 0000000000000000", "assigned at byte 16: needs 4 bytes, 0 remain"),
            (f"0000 0000 0000 0000 0000000000000000 {NULL}", "assigned at byte 16: length -1 is negative"),
        ],
    )
    def test_assignment(self, data: str, complaint: str) -> None:
        with pytest.raises(MalformedEmbeddedError) as caught:
            decode_assignment(from_hex(data))
        assert str(caught.value) == complaint


class TestUnencodable:
    """A value that the format can't carry is our own caller's mistake, said before a byte is sent."""

    STATE = WorkerState(version=1, url="", config_offset=ConfigOffset(0))

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"version": -1}, "version -1"),
            ({"version": 2**15}, "version 32768"),
            ({"url": "é" * 2**14}, "url takes 32768 bytes"),
            ({"url": "\ud800"}, "url"),
            ({"config_offset": 2**63}, "config_offset 9223372036854775808"),
            ({"version": 0, "assignment": Assignment(version=0)}, "v0 can't carry"),
        ],
    )
    def test_metadata(self, change: dict[str, Any], complaint: str) -> None:
        with pytest.raises(LocalProtocolError, match=complaint):
            encode_metadata(replace(self.STATE, **change))

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"error": 2**15}, "error 32768"),
            ({"leader": "x" * 2**15}, "leader takes"),
            ({"leader_url": "\udfff"}, "leader_url"),
            ({"delay_ms": 2**31}, "delay 2147483648"),
            ({"assigned": frozenset({TaskId("a", -2)})}, "assigned has task -2 of 'a'"),
            ({"revoked": frozenset({TaskId("a", 2**31)})}, "revoked has task 2147483648 of 'a'"),
            ({"assigned": frozenset({TaskId("a" * 2**15, 0)})}, "assigned: job takes 32768 bytes"),
            ({"version": 0, "delay_ms": 1}, "v0 is complete"),
            ({"version": 0, "revoked": frozenset({TaskId("a", 0)})}, "v0 is complete"),
        ],
    )
    def test_assignment(self, change: dict[str, Any], complaint: str) -> None:
        with pytest.raises(LocalProtocolError, match=complaint):
            encode_assignment(replace(Assignment(version=1), **change))

    def test_the_longest_string_fits(self) -> None:
        state = replace(self.STATE, url="x" * (2**15 - 1))
        assert decode_metadata(encode_metadata(state)) == state


texts = st.text(st.characters(codec="utf-8"), max_size=20)
tasks = st.frozensets(st.builds(TaskId, texts, st.integers(-1, 2**31 - 1)), max_size=8)
config_offsets = st.integers(-(2**63), 2**63 - 1).map(ConfigOffset)
incremental_assignments = st.builds(
    Assignment,
    version=st.integers(1, 2**15 - 1),
    error=st.integers(-(2**15), 2**15 - 1),
    leader=texts,
    leader_url=texts,
    config_offset=config_offsets,
    assigned=tasks,
    revoked=tasks,
    delay_ms=st.integers(-(2**31), 2**31 - 1),
)
eager_assignments = incremental_assignments.map(
    lambda incremental: replace(incremental, version=0, revoked=frozenset(), delay_ms=0)
)
eager_states = st.builds(WorkerState, version=st.just(0), url=texts, config_offset=config_offsets)
incremental_states = st.builds(
    WorkerState,
    version=st.integers(1, 2**15 - 1),
    url=texts,
    config_offset=config_offsets,
    assignment=st.none() | incremental_assignments.filter(lambda own: own != Assignment(version=own.version)),
)


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For a busy machine: how fast the codec is has a test of its own."""


class TestRoundTrips:
    @unhurried
    @given(eager_states | incremental_states)
    def test_metadata(self, state: WorkerState) -> None:
        assert decode_metadata(encode_metadata(state)) == state

    @unhurried
    @given(eager_assignments | incremental_assignments)
    def test_assignment(self, assignment: Assignment) -> None:
        assert decode_assignment(encode_assignment(assignment)) == assignment


DECODERS: list[Decoder] = [decode for codec in (v0, v1) for decode in (codec.decode_metadata, codec.decode_assignment)]
OWNING = encode_metadata(WorkerState(version=2, url="u", config_offset=ConfigOffset(9), assignment=ASSIGNMENT))
SAMPLES: list[tuple[Decoder, bytes]] = [
    (decode_metadata, EAGER_METADATA),
    (decode_metadata, OWNING),
    (decode_assignment, COOPERATIVE_ASSIGNMENT),
    (decode_assignment, encode_assignment(replace(ASSIGNMENT, version=0, revoked=frozenset(), delay_ms=0))),
]


def _odd(_data: bytes, _at: int, _end: int, _count: int) -> None:
    raise fields._MalformedJobsError


def _read(data: bytes) -> object:
    try:
        return v1.decode_assignment(data)
    except MalformedEmbeddedError as refused:
        return str(refused)


def test_each_sub_protocol_has_a_codec_that_writes_its_number() -> None:
    assert CODECS.keys() == set(SubProtocol)
    for protocol, codec in CODECS.items():
        state: WorkerState | ExtensibleState
        if protocol.learns:
            state = ExtensibleState(version=protocol.version, url="u", config_offset=ConfigOffset(9))
        else:
            state = WorkerState(version=protocol.version, url="u", config_offset=ConfigOffset(9))
        assert codec.decode_metadata(codec.encode_metadata(state)) == state
        assert codec_of_bytes(codec.encode_metadata(state)) is codec


class TestNamesOfJobs:
    """They are kept from one round to the next."""

    def test_no_more_than_so_many(self) -> None:
        for name in range(fields._MOST_NAMES + 10):
            v1.decode_assignment(
                v1.encode_assignment(Assignment(version=1, assigned=frozenset({TaskId(f"n{name}", 0)})))
            )
        assert len(fields._encoded) <= fields._MOST_NAMES
        assert len(fields._decoded) <= fields._MOST_NAMES

    def test_only_short_ones(self) -> None:
        long = Assignment(version=1, assigned=frozenset({TaskId("x" * 1_000, 0)}))
        assert v1.decode_assignment(v1.encode_assignment(long)) == long
        assert "x" * 1_000 not in fields._encoded
        assert b"x" * 1_000 not in fields._decoded


class TestHostileBytes:
    @unhurried
    @given(whole=incremental_assignments, at=st.integers(0, 2**16), byte=st.integers(0, 255))
    def test_reading_with_care_reads_the_same(self, whole: Assignment, at: int, byte: int) -> None:
        data = bytearray(encode_assignment(whole))
        data[at % len(data)] = byte
        quick = _read(bytes(data))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fields, "_jobs", _odd)
            assert _read(bytes(data)) == quick

    @pytest.mark.parametrize("decode", DECODERS)
    @unhurried
    @given(data=st.binary(max_size=200))
    @example(data=b"")
    def test_random_bytes(self, decode: Decoder, data: bytes) -> None:
        decodes(decode, data)

    @pytest.mark.parametrize(
        ("decode", "data"), SAMPLES, ids=["eager state", "state", "assignment", "eager assignment"]
    )
    def test_every_bit_flipped(self, decode: Decoder, data: bytes) -> None:
        for flipped in with_a_bit_flipped(data):
            decodes(decode, flipped)

    def test_only_an_end_between_optional_fields_is_accepted(self) -> None:
        ends = [
            end
            for end in range(len(COOPERATIVE_ASSIGNMENT))
            if decodes(decode_assignment, COOPERATIVE_ASSIGNMENT[:end])
        ]
        head = 2 + 2 + 4 + 5 + 8
        assigned = 4 + (3 + 4 + 8) + (4 + 4 + 4)
        revoked = 4 + (3 + 4 + 4)
        assert ends == [head, head + assigned, head + assigned + revoked]

    def test_metadata_cut_anywhere_but_before_its_allocation(self) -> None:
        ends = [end for end in range(len(OWNING)) if decodes(decode_metadata, OWNING[:end])]
        assert ends == [2 + 3 + 8]

    @pytest.mark.parametrize(
        "data",
        [
            from_hex(f"{HEAD} 7fffffff") + bytes(1_000),
            from_hex(f"{HEAD} 00000001 0000 7fffffff") + bytes(1_000),
            from_hex(f"{HEAD} {NULL} 7fffffff") + bytes(1_000),
            from_hex(f"{HEAD} 0002aaaa") + bytes(1_000_000),
            from_hex(f"{HEAD} 00000001 0000 0000c350") + struct.pack(">50000i", *range(50_000)),
        ],
        ids=["jobs", "tasks", "revoked", "as many jobs as fit in a megabyte", "50,000 tasks"],
    )
    def test_a_giant_count_costs_no_more_than_the_input(self, data: bytes) -> None:
        tracemalloc.start()
        try:
            started = time.process_time()
            decodes(decode_assignment, data)
            took = time.process_time() - started
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert took < 60  # seconds of a core, with every allocation traced: 1 s if it is linear, hours if not
        assert peak < 60 * len(data) + 100_000

    def test_a_thousand_tasks_take_milliseconds(self) -> None:
        many = frozenset(TaskId(f"job-{index % 50}", index // 50 - 1) for index in range(1_000))
        own = Assignment(version=2, leader="w1", assigned=many)
        data = encode_metadata(WorkerState(version=2, url="u", config_offset=ConfigOffset(9), assignment=own))

        def once() -> float:
            started = time.process_time()
            assert decode_metadata(data).owned == many
            return time.process_time() - started

        assert min(once() for _ in range(5)) < 0.005
