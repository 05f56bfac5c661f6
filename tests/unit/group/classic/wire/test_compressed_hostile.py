"""Damaged bytes of version 4: one error, and never much more than the limit in memory."""

from __future__ import annotations

import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace

import damaged_messages
import pytest
from damaged_messages import (
    Decoder,
    all_of_assignment,
    all_of_state,
    decodes,
    unhurried,
    with_a_bit_flipped,
    with_pieces_moved,
)
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider.group.classic.wire import columns, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.values.model import MalformedEmbeddedError
from airflow_provider.values.varints import varint

pytestmark = pytest.mark.usefixtures("nothing_kept")
from_hex = bytes.fromhex
MIB = 2**20

STATE = replace(damaged_messages.STATE, version=4)
ASSIGNMENT = replace(damaged_messages.ASSIGNMENT, version=4)


def read_state(data: bytes) -> object:
    return all_of_state(v4.decode_metadata(data))


def read_assignment(data: bytes) -> object:
    return all_of_assignment(v4.decode_assignment(data))


DECODERS: list[Decoder] = [read_state, read_assignment]
SAMPLES: list[tuple[Decoder, bytes]] = [
    (read_state, v4.encode_metadata(STATE)),
    (read_assignment, v4.encode_assignment(ASSIGNMENT)),
]
samples = pytest.mark.parametrize(("decode", "data"), SAMPLES, ids=["state", "assignment"])


@pytest.mark.parametrize("decode", DECODERS)
@unhurried
@given(data=st.binary(max_size=200))
@example(data=b"")
def test_random_bytes(decode: Decoder, data: bytes) -> None:
    decodes(decode, data)
    decodes(decode, b"\0\4" + data)


@unhurried
@given(data=st.binary(max_size=60))
def test_random_columns(data: bytes) -> None:
    head = v4.encode_metadata(ExtensibleState(version=4))[:-4]
    decodes(read_state, head + varint(len(data)) + data + bytes(3))


@unhurried
@given(text=st.binary(max_size=12), numbers=st.lists(st.binary(max_size=4), min_size=2, max_size=2))
def test_random_contents_of_columns(text: bytes, numbers: list[bytes]) -> None:
    decodes(read_state, message(text, *numbers))


@samples
def test_every_bit_flipped(decode: Decoder, data: bytes) -> None:
    for flipped in with_a_bit_flipped(data):
        decodes(decode, flipped)


@samples
@unhurried
@given(random=st.data())
def test_pieces_moved(decode: Decoder, data: bytes, random: st.DataObject) -> None:
    decodes(decode, with_pieces_moved(data, random))


@samples
def test_what_is_cut_off_is_missed(decode: Decoder, data: bytes) -> None:
    assert not any(decodes(decode, data[:end]) for end in range(len(data)))


def column(data: bytes) -> bytes:
    return varint(2 * len(data)) + data


def compressed(data: bytes) -> bytes:
    data = columns.deflated(data)
    return varint(2 * len(data) + 1) + data


def message(*contents: bytes, written: Callable[[bytes], bytes] = column) -> bytes:
    """A state that owns what is in these columns."""
    return owning(b"".join(map(written, contents)))


def owning(tasks: bytes) -> bytes:
    return v4.encode_metadata(ExtensibleState(version=4))[:-4] + varint(len(tasks)) + tasks + bytes(3)


HEAD = v4.encode_metadata(ExtensibleState(version=4))[:-4]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "version at byte 0: needs 2 bytes, 0 remain"),
        (b"\0\3", "version at byte 0: 3 is not of this format, which begins with 4"),
        (from_hex("0004"), "head at byte 2: has no length"),
        (from_hex("0004 ffffffffff01"), "head at byte 2: has no length"),
        (from_hex("0004 05 0000"), "head at byte 2: length 5 is too much for 2 bytes"),
        (from_hex("0004 01 07"), "head at byte 2: can't be decompressed: Error -3"),
        (from_hex("0004 00"), "head at byte 2: ends in the middle of what is compressed"),
        (from_hex("0004 03 030000"), "head at byte 2: has bytes behind its end"),
        (from_hex("0004 02 0300 00000000"), "flatbuffer at byte 0: needs 4 bytes, 0 remain"),
        (HEAD, f"owned at byte {len(HEAD)}: has no length"),
        (HEAD + bytes(3), f"failed at byte {len(HEAD) + 3}: has no length"),
        (HEAD + b"\0\0\1\2\0", f"ready at byte {len(HEAD) + 2}: names: length 1 is too much for 0 bytes"),
    ],
)
def test_each_complaint_names_the_field_and_the_byte(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedEmbeddedError) as caught:
        v4.decode_metadata(data)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [
        (from_hex("80"), "names: has no length"),
        (from_hex("04 00"), "names: length 2 is too much for 1 bytes"),
        (from_hex("00"), "names does not begin with a number of shared bytes"),
        (from_hex("02 61"), "names does not begin with a number of shared bytes"),
        (from_hex("08 0061 0262"), "names has one that shares more with the one before than that has"),
        (from_hex("08 0062 0061"), "names are not sorted"),
        (from_hex("08 0061 0061"), "names are not sorted"),
        (from_hex("04 001f"), "names has an escape of nothing"),
        (from_hex("06 001f40"), "names has an escape of nothing"),
        (column(b"\0" + b"x" * 2**15), "names has one of 32768 bytes, a name has at most 32767"),
        (from_hex("04 00c3 0200 040180"), "names has one that is not UTF-8: unexpected end of data"),
        (from_hex("03 07"), "names can't be decompressed: Error -3"),
        (from_hex("04 0061"), "counts is missing"),
        (from_hex("04 0061 00"), "counts is empty"),
        (from_hex("04 0061 02 21"), "counts can't have numbers of 33 bits"),
        (from_hex("04 0061 02 01"), "counts has 0 bytes, 1 numbers of 1 bits take 1"),
        (from_hex("04 0061 02 00"), "indexes is missing"),
        (from_hex("04 0061 02 00 06 018000"), "indexes has 2 bytes, 1 numbers of 1 bits take 1"),
        (from_hex("04 0061 02 00 0a 20 80000001"), "indexes has 2147483648, more than four bytes hold"),
        (from_hex("04 0061 02 00 04 0180 00"), "has bytes behind its end"),
    ],
)
def test_columns_that_make_no_sense(tasks: bytes, complaint: str) -> None:
    with pytest.raises(MalformedEmbeddedError) as caught:
        v4.decode_metadata(owning(tasks))
    assert str(caught.value).startswith(f"owned at byte {len(HEAD)}: {complaint}")


BOMBS = {
    "a head": b"\0\4" + (lambda bomb: varint(len(bomb)) + bomb)(columns.deflated(bytes(300 * MIB))),
    "a name": message(b"\0" + b"x" * 300 * MIB, b"\0", b"\0", written=compressed),
    "names": message(b"\0" + b"x" * 30 + b"\x1ey" * 8 * MIB, b"\0", b"\0", written=compressed),
    "empty names": message(bytes(15 * MIB), b"\0", b"\0", written=compressed),
    "one job of very many tasks": message(b"\0a", from_hex("20 fffffffe"), b"\0"),
    "one job of a million tasks in a row": message(b"\0a", from_hex("20 000fffff"), b"\0"),
    "many jobs of many tasks": message(b"\0a\0b\0c", from_hex("18" + "3fffff" * 3), b"\0"),
    "indexes": message(b"\0a", from_hex("20 00fffffe"), b"\1" + bytes(200 * MIB), written=compressed),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=list(BOMBS))
def test_few_bytes_do_not_become_gigabytes(bomb: bytes) -> None:
    assert len(bomb) < MIB
    tracemalloc.start()
    try:
        started = time.process_time()
        with pytest.raises(MalformedEmbeddedError, match=r"takes more than \d+ bytes when it is unpacked"):
            v4.decode_metadata(bomb)
        took = time.process_time() - started
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < 60  # seconds of a core, with every allocation traced
    assert peak < 200 * MIB


def test_the_sets_of_a_message_share_the_limit() -> None:
    half = column(b"\0a") + column(b"\x18" + (600_000).to_bytes(3, "big")) + column(b"\0")
    sized = varint(len(half)) + half
    assert v4.decode_metadata(HEAD + sized + bytes(3)).owned
    with pytest.raises(MalformedEmbeddedError, match=r"learning at byte \d+: takes more than"):
        v4.decode_metadata(HEAD + sized + sized + bytes(2))


def test_any_level_of_compression_is_read() -> None:
    """Another implementation of zlib makes other bytes of the same."""
    text = b"\0a" + b"".join(b"\1%d" % digit for digit in range(10))
    for level in range(10):
        writer = zlib.compressobj(level, wbits=-9)
        data = writer.compress(text) + writer.flush()
        tasks = varint(2 * len(data) + 1) + data + column(b"\0") + column(b"\0")
        assert len(v4.decode_metadata(owning(tasks)).owned) == 11
