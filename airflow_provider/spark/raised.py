"""Gives a name to whatever a job's code raises where this package calls it.

That may be no ``Exception``: ``sys.exit()``, a ``CancelledError`` of the job's event loop, a panic of Rust.
It ends the job's code, and not who has called it. Nothing is awaited where a job's code is called, so a
``CancelledError`` that comes out of it is the job's own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

_OF_AIRFLOW: Final = "airflow."


class Naming:
    """A context in which a job's code is called. Its tracebacks have no frames of the standard library, which one would
    take for the job's.

    :param named: makes the error to raise instead, of what was raised: ``SystemExit: 0``
    :param passing: errors that have a name already
    """

    def __init__(self, named: Callable[[str], Exception], *passing: type[Exception]) -> None:
        self._named = named
        self._passing = passing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, self._passing) and is_of_job(error):
            raise self._named(f"{type(error).__name__}: {message_of(error)}") from error


def is_of_job(error: BaseException) -> bool:
    """Whether it is to end the job's code only. Ctrl-C ends the process, and Airflow's timeout of a task ends the task,
    whatever code is running then; neither is an ``Exception``.
    """
    if isinstance(error, Exception):
        return True
    return not isinstance(error, KeyboardInterrupt) and not type(error).__module__.startswith(_OF_AIRFLOW)


def message_of(
    error: BaseException, otherwise: str | None = None, *, read: Callable[[BaseException], object] = str
) -> str:
    """Its message, whatever class it is of; never raises, except for Ctrl-C.

    :param otherwise: what to take for it if it can't be shown; None: a text that says so
    :param read: reads it
    """
    try:
        return str(read(error))
    except BaseException as wrong:
        if not is_of_job(wrong):
            raise
        if otherwise is not None:
            return otherwise
        return f"its message can't be shown, because that failed with {type(wrong).__name__}"
