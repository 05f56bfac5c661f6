"""The record of the jobs topic with the log levels of jobs' code, while workers run it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final

from airflow_provider.state.records.envelope import COUNT, TEXT, convert

ALL_WORKERS: Final = "*"
"""Stands for all workers; no worker can have this name."""
MOST_LOGGERS: Final = 100
_LOGGER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}")


class LogLevel(str, Enum):
    """Python's log levels, by their names."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


def is_logger(name: object) -> bool:
    """Whether a logger of a job's code can have this name; the root logger is not only the job's."""
    return isinstance(name, str) and _LOGGER.fullmatch(name) is not None and name != "root"


def is_within(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a logger belongs to code with one of these import prefixes."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsRecord:
    """The levels of loggers. They apply while the record is there, also to processes that start later.

    :param worker: a name, or :data:`ALL_WORKERS`
    :param levels: by logger
    :param by: who asked for the last change, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    worker: Annotated[str, TEXT]
    levels: Mapping[str, LogLevel]
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]

    def to_json(self) -> dict[str, Any]:
        levels = {logger: level.value for logger, level in self.levels.items()}
        return {"worker": self.worker, "levels": levels, "by": self.by, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LevelsRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        record = convert(data, cls)
        if len(record.levels) > MOST_LOGGERS or not all(map(is_logger, record.levels)):
            raise ValueError(f"'levels' must have at most {MOST_LOGGERS} names of loggers")
        return record
