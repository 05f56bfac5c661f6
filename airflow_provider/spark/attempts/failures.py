"""Describes exceptions for records: short, without secrets, and with what one needs to find the fault.

Only the host of a worker knows what is secret: it provides a mask. Texts are masked before they are cut, because the
mask would not recognize a part of a secret.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from airflow_provider.spark.attempts.spark_errors import (
    cause_in,
    has_python,
    names_its_type,
    without_java_frames,
    without_traces,
)
from airflow_provider.spark.job.allowed_applications import ApplicationNotAllowedError
from airflow_provider.spark.job.loading import EntryPointError
from airflow_provider.spark.job.planning import PlanError
from airflow_provider.spark.job.session_conf import SessionConfError
from airflow_provider.spark.raised import message_of

Mask: TypeAlias = Callable[[str], str]
"""Removes the secrets from a text. Called from any thread."""

MAX_ERROR_CHARS: Final = 2_000
MAX_TRACEBACK_CHARS: Final = 8_000

_OWN: Final = ("job", "attempts", "runners", "connect", "warm_up.py", "raised.py")
_HERE: Final = tuple(str(Path(__file__).parents[1] / part) for part in _OWN)
_NOT_RETRYABLE: Final = (EntryPointError, PlanError, SessionConfError, ApplicationNotAllowedError)


def nothing_secret(text: str) -> str:
    """The mask of a host that knows no secrets."""
    return text


@dataclass(frozen=True, slots=True)
class Printed:
    """An error as Python prints it, without secrets. The text is made when somebody wants it."""

    error: BaseException
    mask: Mask

    def __str__(self) -> str:
        return self.mask("".join(traceback.format_exception(self.error)))


class ResultError(Exception):
    """A status record can't have this result: a fault of the job's code."""


class UnboundedError(Exception):
    """A task that has to end by itself has started a query that does not: a fault of the job, or of its submission."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f'{what}, in a job of kind "batch": submit the job with kind="streaming" and return the query,'
            " or have it end with trigger(availableNow=True)"
        )


class ForgottenQueryError(Exception):
    """A task of a streaming job has not returned its query. Once stopped, it would count as finished."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}, and has returned no query: let run() return the query that it starts")


class ForeignQueryError(Exception):
    """A task has returned a query of a session that its worker does not know: nobody could find it there."""

    def __init__(self) -> None:
        super().__init__(
            "run() has returned a query of another session, where its worker can neither watch nor end it, so it was"
            " told to stop: let run() start the query in the session that it is given"
        )


_OURS: Final = (*_NOT_RETRYABLE, ResultError, UnboundedError, ForgottenQueryError, ForeignQueryError)


def is_retryable(error: BaseException) -> bool:
    """Whether another try might help. Faults of code and configuration would occur again."""
    return not isinstance(error, (*_OURS, NotImplementedError))


def describe(error: BaseException, mask: Mask = nothing_secret) -> str:
    """The error and the chain of its causes, in one or a few lines each. What is not text in a path is escaped."""
    return _begin_of(mask("\ncaused by ".join(_headline(link) for link in chain_of(error))))


def why_no_spark(error: BaseException, mask: Mask = nothing_secret) -> str:
    """Why Spark did not start, in one line, as a worker's condition has it."""
    first, *causes = chain_of(error)
    text = "; caused by ".join((message_of(first), *map(_headline, causes)))
    return _begin_of(" ".join(mask(text).split()))


def describe_query(message: str, mask: Mask = nothing_secret) -> str:
    """The same for a query that has failed on its server, which sends only this text."""
    return _begin_of(mask(_cause_first(without_traces(message), message)))


def traceback_of_query(message: str, mask: Mask = nothing_secret) -> str:
    """The traceback of Python on the server or on an executor; empty if Python was not involved."""
    return _end_of(mask(without_java_frames(message))) if has_python(message) else ""


def traceback_tail(error: BaseException, mask: Mask = nothing_secret) -> str:
    """The end of the traceback, from the job's own code on, with causes first as Python prints them. Empty for an error
    of this package in which no code of the job was involved: its message says enough.
    """
    shown = [link for link in chain_of(error) if not isinstance(error, _OURS) or _in_job(link.__traceback__)]
    blocks = ["".join(traceback.format_tb(_from_job_on(link.__traceback__))) + _in_full(link) for link in shown]
    return _end_of(mask("\n\n".join(reversed(blocks))))


def _begin_of(text: str) -> str:
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}..."


def _end_of(text: str) -> str:
    return text if len(text) <= MAX_TRACEBACK_CHARS else f"...{text[-MAX_TRACEBACK_CHARS:]}"


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _headline(error: BaseException) -> str:
    message = message_of(error)
    name = "" if names_its_type(message) else type(error).__name__
    return _cause_first(": ".join(filter(None, (name, without_traces(message)))), message)


def _cause_first(head: str, message: str) -> str:
    """Put the cause first that Spark's exceptions name deep in their traces, which are left out."""
    cause = cause_in(message)
    return head if not cause or cause in head.partition("\n")[0] else f"{cause}\nby way of {head}"


def _in_full(error: BaseException) -> str:
    """The type and the message of an error, with the traceback of an executor's Python."""
    text = without_java_frames(message_of(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _from_job_on(frames: TracebackType | None) -> TracebackType | None:
    return _in_job(frames) or frames


def _in_job(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the first one that is not of this package; None: all are."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_HERE):
        frames = frames.tb_next
    return frames
