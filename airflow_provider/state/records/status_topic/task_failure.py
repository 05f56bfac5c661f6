"""Why a task failed, in the record of its end or of its next attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider.state.records.envelope import TEXT
from airflow_provider.state.records.plain import Plain

_TRACEBACK_TAIL: Final = 4_000
_MESSAGE_LENGTH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure(Plain):
    """Why a task failed.

    :param message: short; if it failed on an executor, one line for the cause and one for the error that followed
    :param traceback: the end of the traceback, where the cause is
    """

    message: Annotated[str, TEXT]
    traceback: Annotated[str, TEXT] = ""

    @classmethod
    def of(cls, message: str, traceback: str = "") -> TaskFailure:
        """Cut it to what a status record may have: 500 characters, and the last 4,000 of the traceback. Characters that
        can't be written as UTF-8, as in some file names, are shown by their numbers.
        """
        message, traceback = (text.encode(errors="backslashreplace").decode() for text in (message, traceback))
        short = message if len(message) <= _MESSAGE_LENGTH else message[: _MESSAGE_LENGTH - 1] + "…"
        return cls(message=short, traceback=traceback[-_TRACEBACK_TAIL:])

    @property
    def line(self) -> str:
        return "; ".join(part.rstrip(":") for line in self.message.splitlines() if (part := line.strip()))
