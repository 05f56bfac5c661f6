"""Classifies the errors of Spark Connect's client: is the server the reason, or the job?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from traceback import walk_tb
from typing import Any, Final

from airflow_provider.spark.raised import message_of


class Trouble(Enum):
    """What is wrong with a server."""

    AWAY = "away"
    """Nothing answers. When the server is back, it may still know its sessions."""
    SLOW = "slow"
    """It has not answered in time."""
    ENDED = "ended"
    """It does not know its earlier sessions: it was restarted, or its Spark has ended."""
    CLOSED = "closed"
    """It has closed this session, or has forgotten it."""
    REFUSES = "refuses"
    """It refuses this client."""
    FULL = "full"
    """It has no capacity left at present."""
    OTHER = "other"


_CODES: Final = {
    "UNAVAILABLE": Trouble.AWAY,
    "DEADLINE_EXCEEDED": Trouble.SLOW,
    "UNAUTHENTICATED": Trouble.REFUSES,
    "PERMISSION_DENIED": Trouble.REFUSES,
    "RESOURCE_EXHAUSTED": Trouble.FULL,
}
_TOO_LARGE: Final = re.compile(r"message (larger than max|exceeds maximum)|metadata size exceeds")
"""In a RESOURCE_EXHAUSTED of gRPC itself: a message of the task, or an error it has caused, is larger than a client or
server takes.
"""
_WORDS: Final = (
    ("INVALID_HANDLE.SESSION_CHANGED", Trouble.ENDED),
    ("on a stopped SparkContext", Trouble.ENDED),
    ("SparkContext was shut down", Trouble.ENDED),
    ('SparkContext.dagScheduler()" is null', Trouble.ENDED),
    ("INVALID_HANDLE.SESSION_CLOSED", Trouble.CLOSED),
    ("INVALID_HANDLE.SESSION_NOT_FOUND", Trouble.CLOSED),
    ("[NO_ACTIVE_SESSION]", Trouble.CLOSED),
)
_UNSUPPORTED: Final = frozenset(
    {"JVM_ATTRIBUTE_NOT_SUPPORTED", "NOT_IMPLEMENTED", "ATTRIBUTE_NOT_SUPPORTED", "UNSUPPORTED_OPERATION"}
)


class UnsupportedOnConnectError(NotImplementedError):
    """A job uses something that Spark Connect does not have. Another try on such a worker would fail as well."""


class SessionRefusedError(Exception):
    """A server that answers gives a task no session, or has closed the task's session."""


def trouble_of(error: BaseException) -> Trouble:
    """What the error says about the server."""
    said = _in_words(error)
    if said is Trouble.OTHER:
        said = _CODES.get(_code(error), Trouble.OTHER)
    return Trouble.OTHER if said is Trouble.FULL and _TOO_LARGE.search(text_of(error)) else said


def _in_words(error: BaseException) -> Trouble:
    text = text_of(error)
    return next((trouble for words, trouble in _WORDS if words in text), Trouble.OTHER)


def trouble_in(errors: Iterable[BaseException]) -> tuple[BaseException | None, Trouble]:
    """The first of a job's errors that says something about the server, and what. A job may wrap the errors of Spark's
    client. It may also call other services by gRPC, whose codes say nothing about the server.

    :param errors: an error and its causes
    """
    for error in errors:
        trouble = trouble_of(error) if _is_of_client(error) else _in_words(error)
        if trouble is not Trouble.OTHER:
            return error, trouble
    return None, Trouble.OTHER


def _is_of_client(error: BaseException) -> bool:
    """Whether Spark's client has raised it, or has let it through."""
    frames = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__))
    return any(module.startswith("pyspark.") for module in (type(error).__module__, *frames))


def is_unsupported(error: BaseException) -> bool:
    """Whether the error comes from using something that Spark Connect does not have."""
    condition = getattr(error, "getCondition", None)
    return condition is not None and condition() in _UNSUPPORTED


def text_of(error: BaseException) -> str:
    """The error's message, without the text that gRPC adds; empty if its class, which may be a job's, can't show it."""
    details = getattr(error, "details", None)
    return message_of(error, "", read=(lambda _: details()) if callable(details) else str)


def _code(error: BaseException) -> str:
    """The gRPC status code; empty if the error has none."""
    ask: Any = getattr(error, "code", None) or getattr(error, "getGrpcStatusCode", None)
    code = ask() if callable(ask) else None
    return str(getattr(code, "name", ""))
