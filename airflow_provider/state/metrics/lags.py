"""How far a job's running streams are behind, and how fast they read. Pure.

What is not known is not sent, as no number says that: a stream of which nothing is known is counted by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.records import TaskStatus
from airflow_provider.state.records.status_topic.stream_lag import Known
from airflow_provider.values.lag import UNITS


def lags(group: str, job: str, words: Iterable[TaskStatus], now_ms: int) -> Iterator[Sample]:
    """The gauges of a job that has streams.

    :param words: the records of its tasks
    :param now_ms: wall clock, milliseconds since 1970
    """
    behind: Counter[str] = Counter()
    unknown, asked_ms, rate, rate_in = 0, now_ms, 0.0, 0.0
    for last in words:
        if (lag := last.lag) is None:
            continue
        behind.update(lag.units(now_ms))
        unknown += lag.known(now_ms) is Known.UNKNOWN
        asked_ms = min(asked_ms, lag.asked_at_ms or last.started_at_ms or now_ms)
        if last.progress is not None and not lag.stalled:
            rate += last.progress.rows_per_second
            rate_in += last.progress.rows_per_second_in or 0.0
    for unit, amount in behind.items():
        yield Sample(metric=declared.BEHIND, value=amount, tags=(group, job, unit))
    for metric, value in (
        (declared.LAG_UNKNOWN, unknown),
        (declared.LAST_BATCH_AGE_S, (now_ms - asked_ms) / 1000),
        (declared.ROWS_PER_S, rate),
        (declared.ROWS_PER_S_IN, rate_in),
    ):
        yield Sample(metric=metric, value=value, tags=(group, job))


def lags_of_removed(group: str, job: str) -> Iterator[Sample]:
    """Zeros."""
    for unit in UNITS:
        yield Sample(metric=declared.BEHIND, value=0, tags=(group, job, unit))
    for metric in (declared.LAG_UNKNOWN, declared.LAST_BATCH_AGE_S, declared.ROWS_PER_S, declared.ROWS_PER_S_IN):
        yield Sample(metric=metric, value=0, tags=(group, job))
