"""The limits of a process, which any of its tasks may reach: memory, threads, open files. No task is to blame then."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

from airflow_provider.spark.local.errors import SparkStartError

_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class UsedUpError(SparkStartError):
    """This process has used up what each task needs of it: memory, threads, open files."""


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
