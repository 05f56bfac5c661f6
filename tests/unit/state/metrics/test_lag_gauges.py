"""How far a job's streams are behind, as gauges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_values import job, jobs_snapshot, status_snapshot

from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.gauges import gauges
from airflow_provider.state.records import StreamProgress, TaskKind, TaskState
from airflow_provider.values.lag import Lag
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced

NOW_MS = 10_000_000
AGES = (declared.LAG_UNKNOWN, declared.LAST_BATCH_AGE_S)
JOBS = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=2)


def batch(age_s: float, **lag: Any) -> StreamProgress:
    """Of a batch that began so long ago."""
    asked_at_ms = NOW_MS - round(age_s * 1000)
    return StreamProgress(
        batch=1,
        rows_per_second=10.0,
        rows_per_second_in=4.0,
        at_ms=asked_at_ms,
        asked_at_ms=asked_at_ms,
        lag=Lag(**lag),
    )


def told(*last: StreamProgress | None, **changes: Any) -> dict[Any, float]:
    """The gauges about a job's streams; of ``behind`` by unit.

    :param last: the last batches of its tasks
    """
    status = status_snapshot(JOBS, "job", *(TaskState.RUNNING for _ in last))
    tasks = {
        task: replaced(
            status.tasks[task], kind=TaskKind.STREAMING, progress=progress, started_at_ms=NOW_MS - 5_000, **changes
        )
        for task, progress in zip((TaskId("job", 0), TaskId("job", 1)), last, strict=False)
    }
    samples = gauges("g", JOBS, replace(status, tasks=tasks), now_ms=NOW_MS, unconverged_since_ms=None)
    about = {declared.BEHIND, declared.ROWS_PER_S, declared.ROWS_PER_S_IN, *AGES}
    return {
        sample.tags[-1] if sample.metric is declared.BEHIND else sample.metric: sample.value
        for sample in samples
        if sample.metric in about
    }


def test_what_all_streams_have_to_read_is_added_up_in_each_unit() -> None:
    assert told(batch(5, offsets=50), batch(8, offsets=7, files=3)) == {
        "offsets": 57,
        "files": 3,
        declared.LAG_UNKNOWN: 0,
        declared.LAST_BATCH_AGE_S: 8,
        declared.ROWS_PER_S: 20,
        declared.ROWS_PER_S_IN: 8,
    }


def test_what_is_not_known_is_counted_and_is_no_zero() -> None:
    """A long batch runs in both: what waited before waits, and where nothing did, anything may."""
    old = told(batch(900, offsets=0), batch(901, offsets=0))
    assert "offsets" not in old
    assert [old[metric] for metric in AGES] == [2, 901]
    behind = told(batch(900, offsets=0), batch(600, offsets=7))
    assert (behind["offsets"], behind[declared.LAG_UNKNOWN]) == (7, 1)
    caught_up = told(batch(5, offsets=0), batch(5, silent=1))
    assert (caught_up["offsets"], caught_up[declared.LAG_UNKNOWN]) == (0, 1)


def test_a_stream_that_has_ended_no_batch_yet_is_as_old_as_its_attempt() -> None:
    first = told(None, batch(2, offsets=0))
    assert [first[metric] for metric in AGES] == [1, 5]


def test_a_stalled_stream_reads_nothing() -> None:
    stalled = told(batch(5, offsets=7), stalled_since_ms=NOW_MS - 1)
    assert (stalled["offsets"], stalled[declared.ROWS_PER_S], stalled[declared.ROWS_PER_S_IN]) == (7, 0, 0)


def test_without_a_running_stream_nothing_is_behind() -> None:
    assert told() == dict.fromkeys((*AGES, declared.ROWS_PER_S, declared.ROWS_PER_S_IN), 0)
    bounded = jobs_snapshot(job(), tasks=1)
    status = status_snapshot(bounded, "job", TaskState.RUNNING)
    samples = gauges("g", bounded, status, now_ms=NOW_MS, unconverged_since_ms=None)
    assert declared.LAG_UNKNOWN not in {sample.metric for sample in samples}
