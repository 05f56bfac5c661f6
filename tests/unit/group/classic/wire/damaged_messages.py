"""What tests of damaged bytes of versions 3 and 4 share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState, learning
from airflow_provider.values.model import ConfigOffset, Epoch, MalformedEmbeddedError, TaskId, planner_of
from airflow_provider.values.packed_tasks import PackedTasks

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SOME = PackedTasks.of({planner_of("a"), TaskId("a", 3), TaskId("é", 0)})
LEARNS, PROGRESS = learning({TaskId("b", 0): 0.5, TaskId("b", 1): 1.0})
STATE = ExtensibleState(
    url="u",
    config_offset=ConfigOffset(9),
    owned=SOME,
    learning=LEARNS,
    progress=PROGRESS,
    ready=PackedTasks.of({TaskId("b", 1)}),
    failed=PackedTasks.of({TaskId("b", 0)}),
    leaving="scaled down",
    slots=4,
    weight=1.5,
    epoch=Epoch(7),
)
ASSIGNMENT = ExtensibleAssignment(
    leader="w1",
    leader_url="u/1",
    config_offset=ConfigOffset(9),
    target=SOME,
    revoked=LEARNS,
    delay_ms=300_000,
    learning=LEARNS,
    learned=SOME,
    another_round=True,
    shutdown=True,
    epoch=Epoch(7),
)
Decoder = Callable[[bytes], object]


def all_of_state(state: ExtensibleState) -> object:
    """With an object for each task, too."""
    some = [state.owned, state.ready, state.failed]
    owned = state.owned.jobs(), state.owned.indexes()
    return state, [tasks.tasks() for tasks in some], state.how_far(), owned, repr(state)


def all_of_assignment(read: ExtensibleAssignment) -> object:
    """With an object for each task, too."""
    some = [read.revoked, read.learning, read.learned, *([] if read.target is None else [read.target])]
    return read, [tasks.tasks() for tasks in some], repr(read)


def decodes(decode: Decoder, data: bytes) -> bool:
    """Whether the bytes are accepted; anything but the one documented error fails the test."""
    try:
        decode(data)
    except MalformedEmbeddedError:
        return False
    return True


def with_a_bit_flipped(data: bytes) -> Iterator[bytes]:
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def with_pieces_moved(data: bytes, random: st.DataObject) -> bytes:
    """Behind the version."""
    moved = bytearray(data)
    for _ in range(random.draw(st.integers(1, 4))):
        size = random.draw(st.sampled_from([1, 2, 4, 8]))
        source, target = (random.draw(st.integers(2, len(data) - size)) for _ in range(2))
        moved[target : target + size] = moved[source : source + size]
    return bytes(moved)
