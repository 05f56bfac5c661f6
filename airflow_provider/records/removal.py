"""Who removed a job, and when.

It stands in a last record of the job, as the field ``removed``, and a tombstone follows immediately: who reads on has
seen both. Who reads after compaction has taken the first sees a deletion like any other, as older releases do, to
which the field says nothing. A header of the tombstone would live longer; but confluent-kafka crashes the process over
a header whose name is no UTF-8, and anybody who may write could send one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.records.envelope import TEXT, convert
from airflow_provider.records.times import time_in_words

REMOVED: Final = "removed"
"""The field of a job's record."""

_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999: no calendar here goes on after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The removal of a job.

    :param by: ``dag_id.task_id``, or ``user@host``
    :param at_ms: wall clock, milliseconds since 1970
    :param run_key: of the job's run that it ended
    :param bounded: whether that run would have come to an end by itself
    """

    by: Annotated[str, TEXT]
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]
    run_key: Annotated[str, TEXT]
    bounded: bool

    def __str__(self) -> str:
        return f"was removed by {self.by or 'somebody'} at {time_in_words(self.at_ms)}"

    def to_json(self) -> dict[str, Any]:
        return {"by": self.by, "at_ms": self.at_ms, "run_key": self.run_key, "bounded": self.bounded}

    @classmethod
    def from_json(cls, data: object) -> Removal:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        return convert(data, cls)
