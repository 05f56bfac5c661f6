"""Who removed a job, and when.

This is in a last record of the job, in the field ``removed``, and a tombstone follows immediately: readers that are up
to date see both. After compaction has removed the first, readers see just a deletion, as do older releases, which
ignore the field. A header of the tombstone would last longer; but confluent-kafka crashes the process over a header
whose name is not UTF-8, and anybody with write access could send one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from airflow_provider.state.records.envelope import TEXT
from airflow_provider.state.records.plain import Plain
from airflow_provider.state.records.times import time_in_words

REMOVED: Final = "removed"
"""The name of that field in a job's record."""

_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, where Python's calendar ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal(Plain):
    """The removal of a job.

    :param by: ``dag_id.task_id``, or ``user@host``
    :param at_ms: wall clock, milliseconds since 1970
    :param run_key: of the job's run that it ended
    :param bounded: whether that run would have ended by itself
    """

    by: Annotated[str, TEXT]
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]
    run_key: Annotated[str, TEXT]
    bounded: bool

    def __str__(self) -> str:
        return f"was removed by {self.by or 'somebody'} at {time_in_words(self.at_ms)}"
