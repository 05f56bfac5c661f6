"""Keeps what a worker's process logs from being silenced by the code of a task.

Logging belongs to the process. ``dictConfig`` disables the loggers that exist, and replaces the handlers; then the
worker, and all other tasks, would log nothing more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerLogging:
    """How a process logs before tasks run in it.

    :param handlers: of the root logger
    :param level: of the root logger
    :param least: the level up to which nothing is logged, by ``logging.disable``
    :param disabled: the loggers that are disabled
    """

    handlers: tuple[logging.Handler, ...]
    level: int
    least: int
    disabled: frozenset[str]

    @classmethod
    def as_it_is(cls) -> WorkerLogging:
        root = logging.getLogger()
        disabled = frozenset(each.name for each in _loggers() if each.disabled)
        return cls(tuple(root.handlers), root.level, root.manager.disable, disabled)

    def put_back(self) -> None:
        """Undo what makes the process log less. What makes it log more stays."""
        root = logging.getLogger()
        missing = [handler for handler in self.handlers if handler not in root.handlers]
        silenced = [each for each in _loggers() if each.disabled and each.name not in self.disabled]
        if not (missing or silenced or root.level > self.level or root.manager.disable > self.least):
            return
        for handler in missing:
            root.addHandler(handler)
        for each in silenced:
            each.disabled = False
        root.setLevel(min(root.level, self.level))
        logging.disable(min(root.manager.disable, self.least))
        log.warning("The code of a task had changed the logging of this process; it logs as before again")


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    return [root, *(each for each in list(root.manager.loggerDict.values()) if isinstance(each, logging.Logger))]
