"""Sets the levels of the jobs' loggers in this process, as people ask for them while it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from airflow_provider.state.records import LogLevel
from airflow_provider.state.records.jobs_topic.log_levels import is_within

log: Final = logging.getLogger(__name__)


class _OpenHandler(logging.Filter):
    """Makes a handler write everything that some loggers let through. For other loggers nothing changes.

    This is needed because Airflow also gives the handler of a task's process a level.
    """

    def __init__(self, handler: logging.Handler, names: Iterable[str], least: int) -> None:
        super().__init__()
        self._handler = handler
        self._before = handler.level
        self._names = tuple(names)
        handler.setLevel(min(least, handler.level))
        handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._before or is_within(record.name, self._names)

    def close(self) -> None:
        self._handler.removeFilter(self)
        self._handler.setLevel(self._before)


class LogLevels:
    """Sets levels of loggers, and restores the previous ones.

    Only loggers of code that the worker may import as jobs are changed. The other loggers of this process do not belong
    to the group, and some write secrets at lower levels.

    :param allowed: import prefixes of the jobs' code
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(prefix for prefix in allowed if prefix)
        self._set: dict[str, LogLevel] = {}
        self._before: dict[str, int] = {}
        self._left_alone: set[str] = set()
        self._open: list[_OpenHandler] = []

    @property
    def has_some(self) -> bool:
        """Whether a level is set here, or was asked for."""
        return bool(self._set or self._left_alone)

    def follow(self, asked: Mapping[str, LogLevel]) -> None:
        """Set exactly these levels."""
        wanted = {name: level for name, level in asked.items() if self._is_job_code(name)}
        self._tell_of_others(asked.keys() - wanted.keys())
        if wanted == self._set:
            return
        for name in self._set.keys() - wanted.keys():
            logging.getLogger(name).setLevel(self._before.pop(name))
            log.info("logger %s has its previous level again", name)
        for name, level in wanted.items():
            if self._set.get(name) is not level:
                logger = logging.getLogger(name)
                self._before.setdefault(name, logger.level)
                logger.setLevel(level.value)
                log.info("logger %s has the level %s now", name, level.value)
        self._set = wanted
        self._open_handlers()

    def restore(self) -> None:
        """Restore all levels: the worker ends, but the process may continue with something else."""
        self.follow({})

    def _is_job_code(self, name: str) -> bool:
        return is_within(name, self.allowed)

    def _open_handlers(self) -> None:
        while self._open:
            self._open.pop().close()
        if self._set:
            least = min(int(logging.getLevelName(level.value)) for level in self._set.values())
            self._open = [_OpenHandler(handler, self._set, least) for handler in logging.getLogger().handlers]

    def _tell_of_others(self, names: Iterable[str]) -> None:
        for name in sorted(set(names) - self._left_alone):
            log.info("logger %s is not changed: its code is not among the jobs that this worker may import", name)
        self._left_alone = set(names)
