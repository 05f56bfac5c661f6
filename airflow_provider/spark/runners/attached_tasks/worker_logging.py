"""Keeps what a worker's process logs from being silenced by the code of a task.

Logging belongs to the process. ``dictConfig`` disables the loggers that exist, and replaces the handlers; then the
worker, and all other tasks, would log nothing more. And what a task's handler or filter raises comes out wherever
anything is logged.

A logger that is disabled when it is first seen stays so. PySpark's Spark Connect client has one: otherwise each call
that a lost server does not answer would be logged as an error, with a traceback.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

log = logging.getLogger(__name__)

_OURS: Final = __name__.partition(".")[0]


@dataclass(slots=True)
class WorkerLogging:
    """How a process logs before tasks run in it.

    :param handlers: of the root logger, with their levels
    :param level: of the root logger
    :param least: the level up to which nothing is logged, by ``logging.disable``
    :param enabled: the loggers that were seen enabled, so far
    """

    handlers: Mapping[logging.Handler, int]
    level: int
    least: int
    enabled: set[str]

    @classmethod
    def as_it_is(cls) -> WorkerLogging:
        root = logging.getLogger()
        enabled = {each.name for each in _loggers() if not each.disabled}
        return cls({each: each.level for each in root.handlers}, root.level, root.manager.disable, enabled)

    def put_back(self) -> None:
        """Undo what makes the process log less. What makes it log more stays."""
        root = logging.getLogger()
        missing = [handler for handler in self.handlers if handler not in root.handlers]
        deaf = [handler for handler, level in self.handlers.items() if handler.level > level]
        silenced = [each for each in _loggers() if each.disabled and self._was_enabled(each.name)]
        self.enabled |= {each.name for each in _loggers() if not each.disabled}
        if not (missing or deaf or silenced or root.level > self.level or root.manager.disable > self.least):
            return
        for handler in missing:
            root.addHandler(handler)
        for handler in deaf:
            handler.setLevel(self.handlers[handler])
        for each in silenced:
            each.disabled = False
        root.setLevel(min(root.level, self.level))
        logging.disable(min(root.manager.disable, self.least))
        log.warning("The code of a task had changed the logging of this process; it logs as before again")

    def _was_enabled(self, name: str) -> bool:
        return name in self.enabled or name.startswith(_OURS)


def outlive_handlers() -> Callable[[], None]:
    """From now on, no logger raises what a handler or a filter raises: that is told on standard error, as most handlers
    do it themselves.

    :returns: undoes this
    """
    handle = logging.Logger.handle
    if handle.__module__ == __name__:
        return lambda: None
    telling = logging.Handler()

    def handle_or_tell(self: logging.Logger, record: logging.LogRecord) -> None:
        try:
            handle(self, record)
        except Exception:  # noqa: BLE001 - it is told
            with contextlib.suppress(Exception):  # there may be no standard error
                telling.handleError(record)

    def undo() -> None:
        if logging.Logger.handle is handle_or_tell:
            logging.Logger.handle = handle  # type: ignore[method-assign]  # of all loggers

    logging.Logger.handle = handle_or_tell  # type: ignore[method-assign]
    return undo


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    return [root, *(each for each in list(root.manager.loggerDict.values()) if isinstance(each, logging.Logger))]
