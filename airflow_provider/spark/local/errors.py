"""The errors of tasks that have no Spark, in any runner."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class SparkStartError(Exception):
    """Spark could not be started or reached; the message says what is missing."""


class SparkAwayError(SparkStartError):
    """Nothing answers where Spark is to be. To try again costs nothing."""


class UsedUpError(SparkStartError):
    """This process has used up what each task needs of it: memory, threads, open files."""


class SparkFullError(Exception):
    """The Spark of this worker is there, and has no capacity left for a task.

    :param began: whether the task's code was called; if so, its own work may be what is too much
    """

    def __init__(self, message: str, *, began: bool) -> None:
        super().__init__(message)
        self.began = began


class SparkGoneError(Exception):
    """The Spark that tasks of this worker ran on has ended under them.

    :param spark: its number: tasks with the same number have lost the same Spark
    """

    def __init__(self, message: str, *, spark: int) -> None:
        super().__init__(message)
        self.spark = spark


@contextlib.contextmanager
def within_limits(what: str) -> Iterator[None]:
    """Does something that any task needs of this process, before any code of the task is called.

    :param what: what is done
    :raises UsedUpError: if a limit of this process keeps it from that
    """
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if _is_limit(error):
            raise UsedUpError(f"this process can't {what}: a limit of it is reached") from error
        raise


def _is_limit(error: MemoryError | OSError | RuntimeError) -> bool:
    if isinstance(error, OSError):
        return error.errno in _LIMITS
    return isinstance(error, MemoryError) or "new thread" in str(error)
