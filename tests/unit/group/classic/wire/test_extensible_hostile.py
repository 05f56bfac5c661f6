"""Damaged bytes of version 3: one error, in time and memory that are a small multiple of their size."""

from __future__ import annotations

import struct
import time
import tracemalloc
from itertools import product

import pytest
from damaged_messages import (
    ASSIGNMENT,
    STATE,
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

from airflow_provider.group.classic.wire import v3
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.values.model import MalformedEmbeddedError, TaskId
from airflow_provider.values.packed_tasks import PackedTasks

pytestmark = pytest.mark.usefixtures("nothing_kept")
from_hex = bytes.fromhex


def read_state(data: bytes) -> object:
    return all_of_state(v3.decode_metadata(data))


def read_assignment(data: bytes) -> object:
    return all_of_assignment(v3.decode_assignment(data))


DECODERS: list[Decoder] = [read_state, read_assignment]
SAMPLES: list[tuple[Decoder, bytes]] = [
    (read_state, v3.encode_metadata(STATE)),
    (read_assignment, v3.encode_assignment(ASSIGNMENT)),
]
samples = pytest.mark.parametrize(("decode", "data"), SAMPLES, ids=["state", "assignment"])


@pytest.mark.parametrize("decode", DECODERS)
@unhurried
@given(data=st.binary(max_size=200))
@example(data=b"")
def test_random_bytes(decode: Decoder, data: bytes) -> None:
    decodes(decode, data)
    decodes(decode, b"\0\3" + data)


@samples
def test_every_bit_flipped(decode: Decoder, data: bytes) -> None:
    for flipped in with_a_bit_flipped(data):
        decodes(decode, flipped)


@pytest.mark.slow
@samples
def test_every_word_replaced(decode: Decoder, data: bytes) -> None:
    """By what an offset, a length or a place in a table may be at worst."""
    words = [0, 1, 2, 3, 4, 8, len(data) - 6, len(data) - 2, len(data), 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1]
    for at, word in product(range(2, len(data)), words):
        replaced = bytearray(data)
        for form in ("<I", "<H"):
            if word < 2 ** (8 * struct.calcsize(form)) and at + struct.calcsize(form) <= len(data):
                struct.pack_into(form, replaced, at, word)
                decodes(decode, bytes(replaced))


@samples
@unhurried
@given(random=st.data())
def test_pieces_moved(decode: Decoder, data: bytes, random: st.DataObject) -> None:
    """Offsets lead to what is another thing, or to themselves."""
    decodes(decode, with_pieces_moved(data, random))


@samples
def test_what_is_cut_off_is_missed(decode: Decoder, data: bytes) -> None:
    """Only the zeros that end the last text, and what fills it up, can be done without."""
    ends = [end for end in range(len(data)) if decodes(decode, data[:end])]
    assert all(end > len(data) - 8 for end in ends)


def table_of(fields: list[tuple[int, bytes]], more: bytes = b"") -> bytes:
    """A message whose root table has these fields, each with its slot, in this order; and what follows it."""
    places, inline = {}, b""
    for slot, value in fields:
        places[slot] = 4 + len(inline)
        inline += value
    slots = max(places, default=-1) + 1
    vtable = struct.pack(
        f"<{2 + slots}H", 4 + 2 * slots, 4 + len(inline), *(places.get(slot, 0) for slot in range(slots))
    )
    return b"\0\3" + struct.pack("<I", 4 + len(vtable)) + vtable + struct.pack("<i", len(vtable)) + inline + more


def word(value: int) -> bytes:
    return struct.pack("<I", value)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "version at byte 0: needs 2 bytes, 0 remain"),
        (b"\0\2", "version at byte 0: 2 is not of this format, which begins with 3"),
        (b"\0\3\0", "flatbuffer at byte 2: needs 4 bytes, 1 remain"),
        (from_hex("0003 ffffffff"), "table at byte 4294967297: lies outside of 6 bytes"),
        (from_hex("0003 04000000 04000000"), "table at byte 6: can't have 0 bytes"),
        (from_hex("0003 04000000 ffffff7f"), "vtable at byte -2147483641: lies outside of 10 bytes"),
        (from_hex("0003 08000000 03000400 04000000"), "vtable at byte 6: can't have 3 bytes"),
        (from_hex("0003 08000000 fe000400 04000000"), "vtable at byte 6: can't have 254 bytes"),
        (from_hex("0003 08000000 04000300 04000000"), "table at byte 10: can't have 3 bytes"),
        (from_hex("0003 08000000 0400ff00 04000000"), "table at byte 10: can't have 255 bytes"),
        (table_of([(0, word(99))]), "url at byte 115: lies outside of 20 bytes"),
        (table_of([(0, word(4))], word(5)), "url at byte 20: length 5 is too much for 0 bytes"),
        (table_of([(0, word(4))], word(2) + b"\xc3\x28"), "url at byte 20: is not UTF-8: invalid continuation byte"),
        (table_of([(0, word(4))], word(2**15) + bytes(2**15)), "url at byte 20: takes 32768 bytes"),
        (table_of([(2, word(4))], word(0)), "owned.vtable at byte 24: can't have 0 bytes"),
        (table_of([(4, word(4))], word(1) + bytes(8)), "progress at byte 28: has 1 entries for 0 tasks"),
        (table_of([(7, b"\xff\xff\xff\xff")]), "slots at byte 30: -1 is not a number from 0 on"),
        (table_of([(8, struct.pack("<d", float("nan")))]), "weight at byte 32: nan is not a number from 0 on"),
        (table_of([(9, struct.pack("<q", -1))]), "epoch at byte 34: -1 is not a number from 0 on"),
        (table_of([(9, b"\0")]), "epoch at byte 30: can't be 4 bytes into a table of 5"),
    ],
)
def test_each_complaint_names_the_field_and_the_byte(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedEmbeddedError) as caught:
        v3.decode_metadata(data)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [
        (PackedTasks(b"ab", b"\1\0", *[b"\1\0\0\0"] * 2), "sizes add up to 1 bytes, names have 2"),
        (PackedTasks(b"a", b"\1\0", b"", b"\1\0\0\0"), "counts has 0 entries for 1 jobs"),
        (PackedTasks(b"a", b"\1\0", b"\xff\xff\xff\xff", b""), "counts has -1"),
        (PackedTasks(b"a", b"\1\0", b"\2\0\0\0", b"\1\0\0\0"), "counts add up to 2 tasks, indexes has 1"),
        (PackedTasks(b"a", b"\1\0", b"\1\0\0\0", b"\xfe\xff\xff\xff"), "indexes has -2; the lowest is -1"),
        (PackedTasks(b"x" * 2**15, b"\0\x80", b"\0\0\0\0", b""), "sizes has 32768, a name has at most 32767 bytes"),
        # A text as a whole, but cut in the middle of a character.
        (
            PackedTasks("é".encode(), b"\1\0\1\0", bytes(8), b""),
            "names has one that is not UTF-8: unexpected end of data",
        ),
    ],
)
def test_vectors_that_do_not_fit_each_other(tasks: PackedTasks, complaint: str) -> None:
    data = v3.encode_assignment(ExtensibleAssignment(target=tasks))
    with pytest.raises(MalformedEmbeddedError) as caught:
        v3.decode_assignment(data)
    assert str(caught.value).startswith("target at byte ")
    assert str(caught.value).endswith(complaint)


def all_in_one(count: int) -> bytes:
    """All vectors of tasks are one, and all tables of tasks, too: of as many jobs with one task each as fit."""
    ones = word(count) + word(1) * count  # read in two bytes each, half of them are 1, the others 0
    names = word(count // 2) + b"n" * (count // 2)
    inner = struct.pack("<6Hi4I", 12, 20, 4, 8, 12, 16, 12, 16 + len(ones), 12, 8, 4)
    fields = [(2, word(12)), (3, word(8)), (5, word(4))]
    return table_of([(slot, word(int.from_bytes(at, "little") + 12)) for slot, at in fields], inner + ones + names)


def test_tables_and_vectors_may_be_shared() -> None:
    """The format allows it: that is what the next test is about."""
    state = v3.decode_metadata(all_in_one(4))
    assert state.owned == state.learning == state.ready
    assert list(state.owned.in_order()) == [TaskId("n", 1), TaskId("", 1), TaskId("n", 1), TaskId("", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        all_in_one(50_000),
        table_of([(2, word(4)), (3, word(4))], from_hex("ffffffff") + bytes(1_000)),
        table_of([(0, word(4))], word(2**31 - 1) + bytes(1_000)),
        table_of([(4, word(4))], word(125_000) + bytes(1_000_000)),
        v3.encode_metadata(ExtensibleState(owned=PackedTasks.of(TaskId("a", index) for index in range(50_000)))),
    ],
    ids=["all in one", "tables", "a text", "as many learners as fit in a megabyte", "50,000 tasks"],
)
def test_a_giant_count_costs_no_more_than_the_input(data: bytes) -> None:
    tracemalloc.start()
    try:
        started = time.process_time()
        decodes(read_state, data)
        took = time.process_time() - started
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < 60  # seconds of a core, with every allocation traced: 1 s if it is linear, hours if not
    assert peak < 60 * len(data) + 100_000
