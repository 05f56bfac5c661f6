"""How far a stream is behind now: not what it was when its last batch began."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.state.records import StreamProgress, TaskKind, TaskState, TaskStatus, decode
from airflow_provider.state.records.status_topic.stream_lag import CURRENT_MS, Known, StreamLag
from airflow_provider.values.lag import NOTHING_SAID, Lag
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

ASKED_MS = 1_767_261_600_000
SOON_MS, LATE_MS = ASKED_MS + 5_000, ASKED_MS + 271_000
CAUGHT_UP, BEHIND = (StreamLag(lag=Lag(offsets=offsets), asked_at_ms=ASKED_MS) for offsets in (0, 3_338))
RUNS = TaskStatus(
    task=TaskId("a", 0),
    state=TaskState.RUNNING,
    epoch=Epoch(1),
    worker=WorkerId("w1"),
    progress=StreamProgress(
        batch=7, rows_per_second=1.0, at_ms=ASKED_MS, asked_at_ms=ASKED_MS, lag=Lag(offsets=0), behind=0
    ),
)


def test_that_nothing_waited_says_nothing_of_now_once_it_is_old() -> None:
    """A long batch runs, or the stream stands still, and 3,338 rows may have come."""
    assert CAUGHT_UP.in_words(SOON_MS) == "not behind 5.0 s ago"
    assert CAUGHT_UP.units(SOON_MS) == {"offsets": 0}
    assert CAUGHT_UP.known(ASKED_MS + CURRENT_MS) is Known.EXACTLY
    assert CAUGHT_UP.known(ASKED_MS + CURRENT_MS + 1) is Known.UNKNOWN
    assert CAUGHT_UP.in_words(LATE_MS) == "lag unknown, not behind 4 min ago"
    assert CAUGHT_UP.units(LATE_MS) == {}


def test_what_waited_waits_until_the_next_batch_has_ended() -> None:
    assert BEHIND.in_words(SOON_MS) == "3,338 offsets behind 5.0 s ago"
    assert BEHIND.in_words(LATE_MS) == "at least 3,338 offsets behind 4 min ago"
    assert BEHIND.units(LATE_MS) == {"offsets": 3_338}


def test_of_a_stream_that_stalls_nothing_is_exactly_known() -> None:
    assert replace(CAUGHT_UP, stalled=True).known(SOON_MS) is Known.UNKNOWN
    assert replace(BEHIND, stalled=True).known(SOON_MS) is Known.AT_LEAST


def test_of_sources_that_say_nothing_nothing_is_known() -> None:
    silent = replace(CAUGHT_UP, lag=Lag(silent=1))
    assert silent.in_words(SOON_MS) == "lag unknown"
    assert (silent.units(SOON_MS), silent.known(SOON_MS)) == ({}, Known.UNKNOWN)
    assert replace(BEHIND, lag=Lag(offsets=5, silent=1)).in_words(SOON_MS) == "at least 5 offsets behind 5.0 s ago"
    assert replace(CAUGHT_UP, lag=Lag(offsets=0, silent=1)).known(SOON_MS) is Known.UNKNOWN


def test_what_is_known_is_known_in_its_unit() -> None:
    two = replace(CAUGHT_UP, lag=Lag(offsets=0, files=12))
    assert two.to_json(SOON_MS) == {"known": "exactly", "offsets": 0, "files": 12}
    assert two.to_json(LATE_MS) == {"known": "at least", "files": 12}
    assert CAUGHT_UP.to_json(LATE_MS) == {"known": "unknown"}


def test_a_clock_that_is_behind_makes_nothing_old() -> None:
    assert CAUGHT_UP.in_words(ASKED_MS - 60_000) == "not behind 0.0 s ago"


# ---- of a task


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "batch 7, 1 rows/s, lag unknown, not behind 4 min ago"),
        (
            {"stalled_since_ms": ASKED_MS},
            "no batch has ended for 4 min, batch 7, 1 rows/s, lag unknown, not behind 4 min ago",
        ),
        ({"progress": None, "kind": TaskKind.STREAMING}, "lag unknown"),
        ({"progress": None}, ""),
        ({"state": TaskState.STOPPED}, "batch 7, 1 rows/s"),
        ({"progress": None, "kind": TaskKind.STREAMING, "task": planner_of("a")}, ""),
    ],
    ids=["runs", "stalled", "in its first batch", "bounded", "stopped", "planner"],
)
def test_running_streams_have_a_lag(changes: dict[str, Any], words: str) -> None:
    assert replaced(RUNS, **changes).how_far(LATE_MS) == words


def test_it_is_written_and_read() -> None:
    lag = Lag(offsets=57, files=0, silent=1)
    assert RUNS.progress is not None
    told = replaced(RUNS, progress=replace(RUNS.progress, lag=lag))
    written = decode(told.encoded())
    assert written["progress"]["lag"] == {"offsets": 57, "files": 0, "silent": 1}
    assert TaskStatus.from_json(written) == told
    written["progress"]["lag"]["offsets"] = -1
    with pytest.raises(ValueError, match="offsets"):
        TaskStatus.from_json(written)


def test_a_record_of_an_earlier_release_has_its_slowest_partition_at_least() -> None:
    written = decode(RUNS.encoded())
    del written["progress"]["lag"]
    old = TaskStatus.from_json({**written, "progress": {**written["progress"], "behind": 42}})
    assert old.progress is not None
    assert old.progress.lag == NOTHING_SAID
    assert old.how_far(SOON_MS) == "batch 7, 1 rows/s, at least 42 offsets behind 5.0 s ago"
    assert "lag" not in decode(old.encoded())["progress"]
    undated = TaskStatus.from_json(
        {**written, "progress": {"batch": 7, "rows_per_second": 1.0, "at_ms": 1, "behind": 0}}
    )
    assert undated.how_far(2) == "batch 7, 1 rows/s, lag unknown, not behind when its last batch began"


def test_in_a_log_it_is_said_with_its_time() -> None:
    assert RUNS.progress is not None
    assert RUNS.progress.in_words() == "batch 7, 1 rows/s, not behind at 2026-01-01 10:00:00 UTC"
    assert replace(RUNS.progress, lag=Lag(silent=1)).in_words() == "batch 7, 1 rows/s"
