"""How often a query is rehearsed, and what of its checkpoint is copied for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from airflow_provider.spark.local.streaming import rehearsal
from airflow_provider.spark.local.streaming.checkpoint_copy import before
from airflow_provider.spark.local.streaming.rehearsal import FEWEST, MOST, is_settled, rehearse


@pytest.mark.parametrize(
    ("times", "settled"),
    [
        ([], False),
        ([9.0] * (FEWEST - 1), False),
        ([9.0] * FEWEST, True),
        ([9.0, 7.0, 5.0, 4.0, 3.0], False),
        ([9.0, 7.0, 5.0, 4.0, 3.0, 2.9], True),
        ([3.0, 2.0, 2.0, 2.0, 4.0], True),
        ([0.5**n for n in range(MOST - 1)], False),
        ([0.5**n for n in range(MOST)], True),
    ],
)
def test_a_query_is_rehearsed_until_it_starts_no_faster(times: list[float], settled: bool) -> None:
    assert is_settled(times) is settled
    assert not settled or FEWEST <= len(times) <= MOST


def test_a_copy_stands_before_the_last_batch() -> None:
    logs = [f"{folder}/{batch}" for folder in ("offsets", "commits") for batch in range(9, 13)] + ["offsets/13"]
    state = [f"state/0/1/{version}.delta" for version in range(9, 14)] + [
        f"state/0/1/{version}.snapshot" for version in (8, 10, 13)
    ]
    copied = before(12, [*logs, *state])
    assert copied == [
        "commits/11",
        "offsets/11",
        "offsets/12",
        "state/0/1/10.snapshot",
        "state/0/1/11.delta",
        "state/0/1/12.delta",
    ]


def test_the_first_batch_needs_no_state() -> None:
    paths = ["commits/0", "offsets/0", "offsets/1", "state/0/0/1.delta", "state/0/_metadata/schema", "metadata"]
    assert before(0, paths) == ["metadata", "offsets/0", "state/0/_metadata/schema"]


def test_a_copy_has_what_is_of_no_version_and_what_a_source_has_seen() -> None:
    rocks = ["state/0/0/7_a-b.zip", "state/0/0/8_a-c.changelog", "state/0/0/9_a-d.zip", "state/0/0/SSTs/000012-a.sst"]
    seen = ["sources/0/8", "sources/0/9.compact", "sources/0/10", "sources/0/11", "sources/1/0"]
    hidden = ["offsets/.8.crc", "state/0/0/.8.changelog.crc", "sources/0/.10.crc"]
    assert before(8, [*rocks, *seen, *hidden, "offsets/7", "offsets/8"]) == [
        "offsets/7",
        "offsets/8",
        "sources/0/10",
        "sources/0/11",
        "sources/0/9.compact",
        "sources/1/0",
        "state/0/0/7_a-b.zip",
        "state/0/0/8_a-c.changelog",
        "state/0/0/SSTs/000012-a.sst",
    ]


class Query:
    """One that has done so many batches when it is first looked at, and ends by itself if that is not enough."""

    id = "rehearsed"

    def __init__(self, batches: int, error: Exception | None = None) -> None:
        self.batches = batches
        self.error = error
        self.isActive = False
        self.stopped = False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


class Stream:
    """A writer of queries; those that it has started are remembered."""

    sink = "foreachBatch"
    sources: tuple[dict[str, str], ...] = ({"path": "in"},)

    def __init__(self, batches: int, error: Exception | None = None) -> None:
        self.started: list[tuple[str, Query]] = []
        self.location = "checkpoint"
        self._query = (batches, error)

    def option(self, name: str, value: str) -> Stream:
        self.location = value
        return self

    def start(self) -> Query:
        assert all(query.stopped for _, query in self.started)
        self.started.append((self.location, Query(*self._query)))
        return self.started[-1][1]


class Copy:
    has_batches = True
    said: ClassVar[list[str]] = []

    def __init__(self, spark: object, location: str) -> None:
        self.location = f"{location}.copy"

    def make(self, is_over: object) -> bool:
        return self.has_batches

    def rewind(self) -> None:
        self.said.append("rewind")

    def remove(self) -> None:
        self.said.append("remove")


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rehearsal, "CheckpointCopy", Copy)
    monkeypatch.setattr(rehearsal, "batches_done", lambda query: query.batches)
    monkeypatch.setattr(rehearsal, "sink_of", lambda stream: stream.sink)
    monkeypatch.setattr(rehearsal, "options_of_sources", lambda stream: stream.sources)
    yield
    Copy.said.clear()


def rehearsed(stream: Any, *, over: bool = False) -> list[float]:
    return list(rehearse(None, stream, "checkpoint", lambda _seconds: over))  # type: ignore[arg-type]


def test_each_start_is_from_the_copy_as_it_was_and_stopped() -> None:
    stream = Stream(batches=3)
    progress = rehearsed(stream)
    assert FEWEST <= len(progress) <= MOST
    assert progress == sorted(progress)
    assert [location for location, _ in stream.started] == ["checkpoint.copy"] * len(progress)
    assert all(query.stopped for _, query in stream.started)
    assert Copy.said == ["rewind"] * len(progress) + ["remove"]


def test_a_query_that_does_all_there_is_and_ends_is_rehearsed_too() -> None:
    assert len(rehearsed(Stream(batches=1))) >= FEWEST


@pytest.mark.parametrize(
    ("stream", "over"),
    [(Stream(0, OSError("no such file")), False), (Stream(0), False), (Stream(0), True)],
    ids=["it fails", "it has nothing to do", "nobody waits for it"],
)
def test_a_rehearsal_without_a_batch_ends_and_leaves_nothing(stream: Stream, over: bool) -> None:
    assert rehearsed(stream, over=over) == []
    assert [query.stopped for _, query in stream.started] == [True]
    assert Copy.said == ["remove"]


def test_what_fails_because_it_is_to_end_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    assert rehearsed(Stream(0, OSError("the job was cancelled")), over=True) == []
    assert caplog.text == ""
    assert rehearsed(Stream(0, OSError("no such file"))) == []
    assert "no such file" in caplog.text


def test_a_stream_without_a_batch_is_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copy, "has_batches", False)
    stream = Stream(batches=3)
    assert rehearsed(stream) == []
    assert stream.started == []


@pytest.mark.parametrize("stream", [Stream(3), Stream(0, OSError("no such file"))], ids=["well", "failed"])
def test_after_a_rehearsal_the_stream_has_the_checkpoint_of_its_task(stream: Stream) -> None:
    rehearsed(stream)
    assert stream.started
    assert stream.location == "checkpoint"


@pytest.mark.parametrize(
    ("sink", "source", "problem"),
    [
        ("parquet", {}, "the sink parquet of a rehearsal would keep what it is given"),
        ("kafka", {}, "the sink kafka of a rehearsal would keep what it is given"),
        ("foreachBatch", {"cleansource": "archive"}, "would remove files that the task has not read yet"),
        ("noop", {"cleansource": "DELETE"}, "would remove files that the task has not read yet"),
    ],
)
def test_what_would_leave_traces_is_not_rehearsed(
    caplog: pytest.LogCaptureFixture, sink: str, source: dict[str, str], problem: str
) -> None:
    stream = Stream(batches=3)
    stream.sink, stream.sources = sink, ({"path": "in"}, source)
    assert rehearsed(stream) == []
    assert stream.started == []
    assert problem in caplog.text


def test_a_source_that_is_not_to_be_cleaned_is_rehearsed() -> None:
    stream = Stream(batches=3)
    stream.sources = ({"cleansource": "OFF"},)
    assert rehearsed(stream)
