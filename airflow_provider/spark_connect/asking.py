"""What a server is asked about streaming queries, one call at a time."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from airflow_provider.driver.query_progress import QueryProgress
from airflow_provider.spark_connect.messages import (
    Caller,
    RunningQuery,
    read_conf,
    read_error,
    read_is_active,
    read_last_progress,
    read_running,
)
from airflow_provider.spark_connect.trouble import Trouble, text_of, trouble_of

ANSWER_S: Final = 10.0
"""So long one answer may take: a server whose JVM collects garbage is not silent."""
_NO_QUERY: Final = "STREAMING_QUERY_NOT_FOUND"
_CLOSED: Final = "INVALID_HANDLE.SESSION_CLOSED"
_ENDING: Final = "cospark.ending"
"""A setting of a session: what runs there is being ended, so it has not come to its end by itself."""
_GONE: Final = frozenset({Trouble.CLOSED, Trouble.ENDED})

T = TypeVar("T")


class Wire(Protocol):
    """How calls get to the server: :class:`~airflow_provider.spark_connect.line.Line`."""

    async def execute(self, request: bytes, timeout_s: float) -> list[bytes]: ...

    async def ask(self, method: str, request: bytes, timeout_s: float) -> bytes: ...


class UnansweredError(Exception):
    """A server has given no answer that can be used.

    :param trouble: what is wrong with it
    """

    def __init__(self, trouble: Trouble, why: str) -> None:
        super().__init__(why)
        self.trouble = trouble


class NotThereError(Exception):
    """The server has answered that it does not have the query, or its session."""


class SessionUnknownError(NotThereError):
    """It has never had the session, as far as it knows: it was restarted."""


class SessionClosedError(NotThereError):
    """It has ended the session, and never takes a call in it again."""


class Questions:
    """Asks a server as one caller."""

    def __init__(self, line: Wire, caller: Caller) -> None:
        self._line = line
        self._caller = caller

    async def require_session(self, session_id: str) -> None:
        """Make sure that the server has the session, and do not make it.

        :raises SessionClosedError: if it has closed it
        :raises SessionUnknownError: if it has not had it
        :raises UnansweredError: if it does not say
        """
        await self._ask("ReleaseExecute", self._caller.forget_nothing(session_id), ANSWER_S)

    async def require_spark(self) -> None:
        """Make sure that the server's Spark goes on. One that is told to end answers for a while, and its queries fail
        by whatever they miss first; but it begins no session any more.

        :raises SessionUnknownError: if it does not go on
        :raises UnansweredError: if the server does not say
        """
        session_id = str(uuid.uuid4())
        try:
            await self.interrupt(session_id, ANSWER_S)
        except UnansweredError as refused:
            if refused.trouble is not Trouble.FULL:
                raise
        else:
            await self.release(session_id, ANSWER_S)

    async def is_active(self, session_id: str, query: RunningQuery) -> bool:
        """Whether it runs.

        :raises NotThereError: if the server does not have it
        :raises UnansweredError: if it does not say
        """
        return await self._execute(self._caller.is_active(session_id, query), ANSWER_S, read_is_active)

    async def last_progress(self, session_id: str, query: RunningQuery) -> QueryProgress | None:
        return await self._execute(self._caller.last_progress(session_id, query), ANSWER_S, read_last_progress)

    async def error(self, session_id: str, query: RunningQuery) -> str | None:
        """Why it failed; None: it did not."""
        return await self._execute(self._caller.error(session_id, query), ANSWER_S, read_error)

    async def running(self, session_id: str, timeout_s: float = ANSWER_S) -> list[RunningQuery]:
        """The queries that run in the session, which is made if there is none."""
        return await self._execute(self._caller.running(session_id), timeout_s, read_running)

    async def say_that_it_ends(self, session_id: str, timeout_s: float) -> None:
        """Whoever finds the query stopped is to know that it was told to."""
        await self._ask("Config", self._caller.set_conf(session_id, _ENDING, "true"), timeout_s)

    async def is_being_ended(self, session_id: str) -> bool:
        """Whether somebody has said so. A server that refuses settings which it does not know has not heard it."""
        try:
            return read_conf(await self._ask("Config", self._caller.conf(session_id, _ENDING), ANSWER_S)) is not None
        except UnansweredError as refused:
            if refused.trouble is Trouble.OTHER:
                return False
            raise

    async def stop(self, session_id: str, query: RunningQuery, timeout_s: float) -> None:
        """Stop it, and wait until it has stopped."""
        await _answer(self._line.execute(self._caller.stop(session_id, query), timeout_s))

    async def interrupt(self, session_id: str, timeout_s: float) -> None:
        """End what is being done in the session, which is made if there is none."""
        await self._ask("Interrupt", self._caller.interrupt_all(session_id), timeout_s)

    async def release(self, session_id: str, timeout_s: float) -> None:
        """Have the server never take a call in the session again. It must have it: otherwise nothing comes of that."""
        await self._ask("ReleaseSession", self._caller.release_session(session_id), timeout_s)

    async def _execute(self, request: bytes, timeout_s: float, read: Callable[[list[bytes]], T]) -> T:
        answers = await _answer(self._line.execute(request, timeout_s))
        try:
            return read(answers)
        except (ValueError, KeyError) as wrong:
            raise UnansweredError(Trouble.OTHER, f"its answer makes no sense: {wrong!r}") from None

    async def _ask(self, method: str, request: bytes, timeout_s: float) -> bytes:
        return await _answer(self._line.ask(method, request, timeout_s))


async def _answer(call: Awaitable[T]) -> T:
    import grpc

    try:
        return await call
    except grpc.RpcError as error:
        broken_off = error.code() is grpc.StatusCode.CANCELLED  # by a server that goes
        trouble, text = Trouble.AWAY if broken_off else trouble_of(error), text_of(error)
        if _NO_QUERY in text:
            raise NotThereError(text) from None
        if _CLOSED in text:
            raise SessionClosedError(text) from None
        if trouble in _GONE:
            raise SessionUnknownError(text) from None
        raise UnansweredError(trouble, text or trouble.value) from None
