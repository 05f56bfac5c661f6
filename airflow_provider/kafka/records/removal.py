"""Who removed a job, and when.

It stands in a header of the record that deletes the job's key: so it lives as long as that (a topic's
``delete.retention.ms``), and readers that do not know it see a deletion like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.kafka.clock import time_in_words
from airflow_provider.kafka.records.envelope import decode, encode, want, want_number

REMOVAL_HEADER: Final = "removal"
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

    by: str
    at_ms: int
    run_key: str
    bounded: bool

    def __str__(self) -> str:
        return f"was removed by {self.by or 'somebody'} at {time_in_words(self.at_ms)}"

    def to_header(self) -> bytes:
        return encode({"by": self.by, "at_ms": self.at_ms, "run_key": self.run_key, "bounded": self.bounded})

    @classmethod
    def from_header(cls, value: bytes) -> Removal:
        """The inverse of :meth:`to_header`.

        :raises ValueError: for anything else
        """
        data: Mapping[str, Any] = decode(value)
        return cls(
            by=want(data, "by", str),
            at_ms=want_number(data, "at_ms", most=_LAST_MS),
            run_key=want(data, "run_key", str),
            bounded=want(data, "bounded", bool),
        )
