"""The levels of the jobs' loggers in this process, as people set them while it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from airflow_provider.records import LogLevel

log: Final = logging.getLogger(__name__)


class LogLevels:
    """Sets them, and puts back what was there.

    Only of job code, which is what the worker may import: other loggers of this process are not the group's, and some
    write secrets at lower levels.

    :param allowed: import prefixes of the jobs' code
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = tuple(prefix for prefix in allowed if prefix)
        self._set: dict[str, LogLevel] = {}
        self._before: dict[str, int] = {}
        self._left_alone: set[str] = set()

    @property
    def has_some(self) -> bool:
        """Whether any is set here, or was asked for."""
        return bool(self._set or self._left_alone)

    def follow(self, asked: Mapping[str, LogLevel]) -> None:
        """Have exactly these levels set."""
        wanted = {name: level for name, level in asked.items() if self._is_job_code(name)}
        self._tell_of_others(asked.keys() - wanted.keys())
        if wanted == self._set:
            return
        for name in self._set.keys() - wanted.keys():
            logging.getLogger(name).setLevel(self._before.pop(name))
            log.info("logger %s has the level again that it had before", name)
        for name, level in wanted.items():
            if self._set.get(name) is not level:
                logger = logging.getLogger(name)
                self._before.setdefault(name, logger.level)
                logger.setLevel(level.value)
                log.info("logger %s writes from %s on", name, level.value)
        self._set = wanted

    def restore(self) -> None:
        """The worker ends in this process, which may go on with something else."""
        self.follow({})

    def _is_job_code(self, name: str) -> bool:
        return any(name == prefix or name.startswith(f"{prefix}.") for prefix in self._allowed)

    def _tell_of_others(self, names: Iterable[str]) -> None:
        for name in sorted(set(names) - self._left_alone):
            log.info("logger %s is left alone: it is none of the code that this worker may import as jobs", name)
        self._left_alone = set(names)
