"""Our bytes read by Java Connect's own classes, and Java's bytes read by us."""

from __future__ import annotations

from typing import Any

import pytest
from embedded_bytes import (
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from referee import Referee, RefusedByJavaError

from airflow_provider.group.classic.wire.hex_lines import assignment_to_json, metadata_to_json
from airflow_provider.values.model import (
    Assignment,
    ConfigOffset,
    ConnectProtocol,
    MalformedEmbeddedError,
    TaskId,
    Tasks,
    WorkerState,
)

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

many = settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))

texts = st.text(st.characters(codec="utf-8"), max_size=12)
indexes = st.integers(-1, 3) | st.integers(-1, 2**31 - 1)
tasks = st.frozensets(st.builds(TaskId, texts, indexes), max_size=10)
tasks_of_one_job = st.builds(
    lambda job, chosen: frozenset(TaskId(job, index) for index in chosen), texts, st.frozensets(indexes, max_size=10)
)
config_offsets = st.integers(-(2**63), 2**63 - 1).map(ConfigOffset)
written_by_java = st.integers(1, 2)
readable = written_by_java | st.integers(1, 2**15 - 1)


def incremental(versions: st.SearchStrategy[int], of: st.SearchStrategy[Tasks]) -> st.SearchStrategy[Assignment]:
    return st.builds(
        Assignment,
        version=versions,
        error=st.integers(0, 1) | st.integers(-(2**15), 2**15 - 1),
        leader=texts,
        leader_url=texts,
        config_offset=config_offsets,
        assigned=of,
        revoked=of,
        delay_ms=st.integers(-(2**31), 2**31 - 1),
    )


def eager(of: st.SearchStrategy[Tasks]) -> st.SearchStrategy[Assignment]:
    return st.builds(
        Assignment,
        version=st.just(0),
        error=st.integers(0, 1),
        leader=texts,
        leader_url=texts,
        config_offset=config_offsets,
        assigned=of,
    )


def assignments(
    versions: st.SearchStrategy[int], of: st.SearchStrategy[Tasks] = tasks
) -> st.SearchStrategy[Assignment]:
    return eager(of) | incremental(versions, of)


def says_something(own: Assignment) -> bool:
    return own != Assignment(version=own.version)


def states(versions: st.SearchStrategy[int], of: st.SearchStrategy[Tasks] = tasks) -> st.SearchStrategy[WorkerState]:
    stopped = st.builds(WorkerState, version=st.just(0), url=texts, config_offset=config_offsets)
    return stopped | versions.flatmap(
        lambda version: st.builds(
            WorkerState,
            version=st.just(version),
            url=texts,
            config_offset=config_offsets,
            assignment=st.none() | incremental(st.just(version), of).filter(says_something),
        )
    )


def comparable(value: dict[str, Any]) -> dict[str, Any]:
    """The same value without the order of its tasks; duplicates are kept."""
    sides = {side: sorted(value[side]) for side in ("assigned", "revoked") if side in value}
    nested = {"assignment": comparable(value["assignment"])} if value.get("assignment") else {}
    return value | sides | nested


class TestJavaReadsOurs:
    @many
    @given(state=states(readable))
    def test_metadata(self, referee: Referee, state: WorkerState) -> None:
        assert comparable(referee.decode("metadata", encode_metadata(state))) == comparable(metadata_to_json(state))

    @many
    @given(assignment=assignments(readable))
    def test_assignment(self, referee: Referee, assignment: Assignment) -> None:
        read = referee.decode("assignment", encode_assignment(assignment))
        assert comparable(read) == comparable(assignment_to_json(assignment))


class TestWeReadJavas:
    @many
    @given(state=states(written_by_java))
    def test_metadata(self, referee: Referee, state: WorkerState) -> None:
        written = referee.encode("metadata", metadata_to_json(state))
        assert decode_metadata(written) == state
        assert len(written) == len(encode_metadata(state))

    @many
    @given(assignment=assignments(written_by_java))
    def test_assignment(self, referee: Referee, assignment: Assignment) -> None:
        written = referee.encode("assignment", assignment_to_json(assignment))
        assert decode_assignment(written) == assignment
        assert len(written) == len(encode_assignment(assignment))


class TestSameBytes:
    """With one job, Java's hash sets have only one possible order."""

    @many
    @given(state=states(written_by_java, of=tasks_of_one_job))
    def test_metadata(self, referee: Referee, state: WorkerState) -> None:
        assert encode_metadata(state) == referee.encode("metadata", metadata_to_json(state))

    @many
    @given(assignment=assignments(written_by_java, of=tasks_of_one_job))
    def test_assignment(self, referee: Referee, assignment: Assignment) -> None:
        assert encode_assignment(assignment) == referee.encode("assignment", assignment_to_json(assignment))

    @pytest.mark.parametrize("protocol", [each for each in ConnectProtocol if each is not ConnectProtocol.EXTENSIBLE])
    def test_a_newcomers_offer(self, referee: Referee, protocol: ConnectProtocol) -> None:
        ours = [
            (
                offered.value,
                encode_metadata(WorkerState(version=offered.version, url="http://w1/", config_offset=ConfigOffset(-1))),
            )
            for offered in protocol.offered
        ]
        state = {"url": "http://w1/", "config_offset": -1, "assignment": None}
        assert referee.offer(protocol.value, state) == ours


STRICTER = (
    "is negative",  # a length below -1 is null in Java
    "is not UTF-8",  # Java puts replacement characters
    "the lowest is -1",  # Java knows tasks of any number
)


@st.composite
def damaged(draw: st.DrawFn, intact: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a few bits flipped, a likely number written over some, an end cut off, or something appended."""
    data = bytearray(draw(intact))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data) - 1))
        data[at] ^= 1 << draw(st.integers(0, 7))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        likely = draw(st.sampled_from(["ffffffff", "fffffffe", "00000000", "00000001", "7fffffff", "80000000", "ffff"]))
        data[at : at + len(likely) // 2] = bytes.fromhex(likely)
    cut = draw(st.integers(0, len(data)))
    return bytes(data[:cut] if draw(st.booleans()) else data) + draw(st.just(b"") | st.binary(max_size=6))


class TestDamagedBytes:
    """Java accepts and reads the same way what we accept; what only we refuse is refused for a named reason."""

    @settings(many, max_examples=examples(200))
    @given(data=damaged(states(readable).map(encode_metadata)))
    def test_metadata(self, referee: Referee, data: bytes) -> None:
        try:
            ours = metadata_to_json(decode_metadata(data))
        except MalformedEmbeddedError as refused:
            assert_refused(referee, "metadata", data, why=str(refused))
        else:
            assert comparable(ours) == comparable(without_duplicates(referee.decode("metadata", data)))

    @settings(many, max_examples=examples(200))
    @given(data=damaged(assignments(readable).map(encode_assignment)))
    def test_assignment(self, referee: Referee, data: bytes) -> None:
        try:
            ours = assignment_to_json(decode_assignment(data))
        except MalformedEmbeddedError as refused:
            assert_refused(referee, "assignment", data, why=str(refused))
        else:
            assert comparable(ours) == comparable(without_duplicates(referee.decode("assignment", data)))


def assert_refused(referee: Referee, kind: str, data: bytes, *, why: str) -> None:
    if not any(reason in why for reason in STRICTER):
        with pytest.raises(RefusedByJavaError):
            referee.decode(kind, data)


def without_duplicates(value: dict[str, Any]) -> dict[str, Any]:
    """Damaged bytes can have a task twice: Java keeps lists, we keep sets."""
    sides = {side: [*map(list, {*map(tuple, value[side])})] for side in ("assigned", "revoked") if side in value}
    nested = {"assignment": without_duplicates(value["assignment"])} if value.get("assignment") else {}
    return value | sides | nested
