"""What an error of Spark Connect's client says of the server, and what it says of the job."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final


class Trouble(Enum):
    """What is wrong with a server."""

    AWAY = "away"
    """Nobody is there. It may be again, and know its sessions still."""
    SLOW = "slow"
    """It has not answered in time."""
    ENDED = "ended"
    """It knows nothing of the sessions that it had: another one is in its place, or its Spark has ended."""
    CLOSED = "closed"
    """It has closed this session, or has forgotten it."""
    REFUSES = "refuses"
    """It does not let this client in."""
    FULL = "full"
    """It has no room for more at present."""
    OTHER = "other"


_CODES: Final = {
    "UNAVAILABLE": Trouble.AWAY,
    "DEADLINE_EXCEEDED": Trouble.SLOW,
    "UNAUTHENTICATED": Trouble.REFUSES,
    "PERMISSION_DENIED": Trouble.REFUSES,
    "RESOURCE_EXHAUSTED": Trouble.FULL,
}
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
    """A job uses what Spark Connect does not have, so that no other try can help on such a worker."""


class SessionRefusedError(Exception):
    """A server that is there gives a task no session, or has closed the one that it had."""


def trouble_of(error: BaseException) -> Trouble:
    """What the error says of the server."""
    text = text_of(error)
    for words, trouble in _WORDS:
        if words in text:
            return trouble
    return _CODES.get(_code(error), Trouble.OTHER)


def is_unsupported(error: BaseException) -> bool:
    """Whether it comes of something that Spark Connect does not have."""
    condition = getattr(error, "getCondition", None)
    return condition is not None and condition() in _UNSUPPORTED


def text_of(error: BaseException) -> str:
    """What it says, without what gRPC puts around it."""
    details = getattr(error, "details", None)
    try:
        return str(details() if callable(details) else error)
    except Exception:  # noqa: BLE001 - code of a job: whatever it does, its error is to be reported
        return ""


def _code(error: BaseException) -> str:
    """Of gRPC; empty if the error has none."""
    ask: Any = getattr(error, "code", None) or getattr(error, "getGrpcStatusCode", None)
    code = ask() if callable(ask) else None
    return str(getattr(code, "name", ""))
