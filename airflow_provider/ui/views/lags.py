"""How far streams are behind, as the page shows it: as words that the browser changes when they get old."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.state.records import TaskStatus
from airflow_provider.state.records.status_topic.stream_lag import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLine:
    """The lag of a running stream. Times are wall clock, milliseconds since 1970.

    :param words: how much waits
    :param until_ms: up to when these words are true
    :param then: what is true afterwards
    :param asked_at_ms: when its sources were asked: when its last batch began
    """

    words: str
    until_ms: int
    then: str
    asked_at_ms: int | None

    @classmethod
    def of(cls, last: TaskStatus | None) -> LagLine | None:
        lag = None if last is None else last.lag
        if lag is None:
            return None
        then = lag.how_much(lag.once_old)
        return cls(
            words=lag.how_much(Known.EXACTLY) if lag.current_until_ms else then,
            until_ms=lag.current_until_ms,
            then=then,
            asked_at_ms=lag.asked_at_ms,
        )


def how_far_behind(last: TaskStatus | None) -> tuple[int, int, int]:
    """Orders tasks: those that are no running streams, then streams by what waits, in whatever unit. Bytes only count
    beside nothing else. Of streams with nothing to read, it is least certain of the one that asked longest ago.
    """
    lag = None if last is None else last.lag
    if lag is None:
        return -1, 0, 0
    units = lag.lag.units
    in_bytes = units.pop("bytes", 0)
    return max(units.values(), default=0), in_bytes, -(lag.asked_at_ms or 0)
