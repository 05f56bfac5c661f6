"""What the benchmark with a hundred topics reads from checkpoints, and how it says what it has found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks import hundred_topics
from benchmarks.topics import parts
from benchmarks.topics.arrived import Arrived, Batch, lag, pauses, rows_at, until_rows
from benchmarks.topics.figures import Figures, Kill, Lags, table

BATCHES = [Batch(10.0, 5), Batch(20.0, 5), Batch(40.0, 9)]


def batch(checkpoint: Path, number: int, at: float, partitions: dict[str, int], *, ended: bool = True) -> None:
    """Write what Spark writes of a batch of the topic ``orders``."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    offsets = (json.dumps({"batchWatermarkMs": 0}), json.dumps({"orders": partitions}))
    (checkpoint / "offsets" / str(number)).write_text("\n".join(("v1", *offsets)))
    if ended:
        commit = checkpoint / "commits" / str(number)
        commit.write_text("v1\n{}")
        (checkpoint / "commits" / f".{number}.crc").touch()
        os.utime(commit, (at, at))


def test_rows_are_in_their_table_when_their_batch_has_ended(tmp_path: Path) -> None:
    checkpoint, arrived = tmp_path / "group" / "job" / "key=orders", Arrived(tmp_path)
    arrived.look()
    assert arrived.counts == {}
    batch(checkpoint, 0, 10.0, {"0": 3, "1": 2})
    arrived.look()
    batch(checkpoint, 1, 20.0, {"0": 4, "1": 2})
    batch(checkpoint, 2, 30.0, {"0": 9, "1": 9}, ended=False)
    arrived.look()
    arrived.look()
    assert arrived.batches == {"orders": [Batch(10.0, 5), Batch(20.0, 6)]}
    assert lag({"orders": 9, "new": 2}, arrived.counts) == {"orders": 3, "new": 2}


def test_batches_say_how_many_rows_there_were_when_and_how_long_none_came() -> None:
    assert [rows_at(BATCHES, at) for at in (9.9, 10.0, 39.0, 50.0)] == [0, 5, 5, 9]
    assert [until_rows(BATCHES, rows) for rows in (5, 6, 10)] == [10.0, 40.0, None]
    assert pauses({"orders": BATCHES}, 15.0, 43.0) == {"orders": 20.0}
    assert pauses({"orders": BATCHES}, 41.0, 80.0) == {"orders": 39.0}


def test_the_largest_lags_of_a_phase_are_kept() -> None:
    lags = Lags().with_({"a": 3, "b": 4}, {}).with_({"a": 5, "b": 0}, {"copy:0": 7}).with_({"a": 0, "b": 0}, {})
    assert lags == Lags(one=5, all=7, told=7)


def test_each_side_has_a_column_and_says_nothing_of_kills_that_it_had_not() -> None:
    kill = Kill.of("worker", 40.0, {"a": 10.0, "b": 30.0, "c": 12.0}, Lags(one=60, all=90, told=50))
    lines = table([Figures(side="attached", topics=3, kills=[kill]), Figures(side="plain", topics=3)]).splitlines()
    said = {line[:44].strip(): line[44:].split("  ") for line in lines}
    words = {name: [word.strip() for word in each if word.strip()] for name, each in said.items()}
    assert words["worker killed: time without a batch"] == ["30 s (median 12 s)", "-"]
    assert words["worker killed: largest lag of one topic"] == ["60 rows (status: 50)", "-"]


def test_without_its_parts_it_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PYSPARK", parts.ROOT / ".cache" / "lake" / "nothing")
    with pytest.raises(SystemExit, match="Run `make lake`"):
        hundred_topics.run(tmp_path)
