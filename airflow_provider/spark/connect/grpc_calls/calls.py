"""The calls to a server about streaming queries and their sessions."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar

from airflow_provider.spark.connect.grpc_calls.messages import (
    Caller,
    QueryStatus,
    RunningQuery,
    read_conf,
    read_error,
    read_executing,
    read_has_operation,
    read_interrupted,
    read_last_progress,
    read_running,
    read_status,
)
from airflow_provider.spark.connect.server import is_start
from airflow_provider.spark.connect.trouble import Trouble, text_of, trouble_of
from airflow_provider.spark.local.streaming.query_progress import QueryProgress

ANSWER_S: Final = 10.0
"""How long one call may take: a server whose JVM collects garbage is not silent."""
_NO_QUERY: Final = re.compile(r"\bSTREAMING_QUERY_NOT_FOUND\b|\[INTERNAL_ERROR\] Streaming query \S+ is not found\b")
"""Spark 4.1 has no condition for it."""
_CLOSED: Final = "INVALID_HANDLE.SESSION_CLOSED"
_CURSOR: Final = "INVALID_CURSOR"
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_ENDING: Final = "this.session.is.being.ended"
"""A class that does not exist. With it as the file manager, no query starts in a session; running ones are not
affected. It is also a mark: the queries of this session are being stopped, so they do not end by themselves."""
_GONE: Final = frozenset({Trouble.CLOSED, Trouble.ENDED})

T = TypeVar("T")


class Channel(Protocol):
    """Carries the calls to the server (:class:`~airflow_provider.spark.connect.grpc_calls.channel.ServerChannel`)."""

    async def execute(self, request: bytes, timeout_s: float) -> list[bytes]: ...

    async def ask(self, method: str, request: bytes, timeout_s: float) -> bytes: ...


class UnansweredError(Exception):
    """A server has given no usable answer.

    :param trouble: what is wrong with the server
    """

    def __init__(self, trouble: Trouble, why: str) -> None:
        super().__init__(why)
        self.trouble = trouble


class NotThereError(Exception):
    """The server has answered that it does not have the query or its session."""


class SessionUnknownError(NotThereError):
    """The server does not know the session: it was restarted."""


class SessionClosedError(NotThereError):
    """The server has closed the session, and never accepts a call in it again."""


class ServerCalls:
    """Calls a server as one caller.

    Each call raises :class:`NotThereError` if the server does not have the query or the session, and
    :class:`UnansweredError` if there is no usable answer. ``timeout_s`` is how long the call may take, in seconds.
    """

    def __init__(self, channel: Channel, caller: Caller) -> None:
        self._channel = channel
        self._caller = caller

    async def require_session(self, session_id: str) -> None:
        """Check that the server has the session, without creating it.

        :raises SessionClosedError: if the server has closed it
        :raises SessionUnknownError: if the server does not know it
        :raises UnansweredError: if there is no usable answer
        """
        await self._ask("ReleaseExecute", self._caller.forget_nothing(session_id), ANSWER_S)

    async def require_spark(self) -> None:
        """Check that the server's Spark keeps running, by creating a session. A server that is shutting down answers
        for a while, and its queries fail in any way, but it creates no more sessions.

        :raises SessionUnknownError: if it does not keep running
        :raises UnansweredError: if there is no usable answer
        """
        session_id = str(uuid.uuid4())
        try:
            await self.interrupt(session_id, ANSWER_S)
        except UnansweredError as refused:
            if refused.trouble is not Trouble.FULL:
                raise
        else:
            await self.release(session_id, ANSWER_S)

    async def status(self, session_id: str, query: RunningQuery) -> QueryStatus:
        return await self._execute(self._caller.status(session_id, query), ANSWER_S, read_status)

    async def last_progress(self, session_id: str, query: RunningQuery) -> QueryProgress | None:
        """The last batch of the query; None: there has been none."""
        return await self._execute(self._caller.last_progress(session_id, query), ANSWER_S, read_last_progress)

    async def error(self, session_id: str, query: RunningQuery) -> str | None:
        """Why the query failed; None: it did not."""
        return await self._execute(self._caller.error(session_id, query), ANSWER_S, read_error)

    async def running(self, session_id: str, timeout_s: float = ANSWER_S) -> list[RunningQuery]:
        """The queries that run in the session. The session is created if it does not exist."""
        return await self._execute(self._caller.running(session_id), timeout_s, read_running)

    async def refuse_starts(self, session_id: str, timeout_s: float) -> None:
        """Let no query start in the session any more, and mark it: whoever finds its query stopped then knows that it
        did not end by itself. The session is created if it does not exist.
        """
        await self._ask("Config", self._caller.set_conf(session_id, _FILE_MANAGER, _ENDING), timeout_s)

    async def is_being_ended(self, session_id: str) -> bool:
        """Whether the session has this mark. A server that lets nobody change the setting does not keep it."""
        try:
            manager = read_conf(await self._ask("Config", self._caller.conf(session_id, _FILE_MANAGER), ANSWER_S))
        except UnansweredError as refused:
            if refused.trouble is Trouble.OTHER:
                return False
            raise
        return manager == _ENDING

    async def stop(self, session_id: str, query: RunningQuery, timeout_s: float) -> None:
        """Stop the query, and wait until it has stopped."""
        await _answer(self._channel.execute(self._caller.stop(session_id, query), timeout_s))

    async def interrupt(self, session_id: str, timeout_s: float) -> frozenset[str]:
        """Interrupt what is executed in the session. The session is created if it does not exist.

        :returns: the ids of these operations. Each continues until it notices
        """
        return read_interrupted(await self._ask("Interrupt", self._caller.interrupt_all(session_id), timeout_s))

    async def is_executing(self, session_id: str, operations: Iterable[str], timeout_s: float) -> bool:
        """Whether anything is executed in the session.

        :param operations: the ids of the operations to ask about if the server can't tell about all of them (before
            Spark 4.2). If its client has died, an operation counts for five minutes more after its end
            (``spark.connect.execute.manager.detachedTimeout``)
        """
        executing = await self._executing(session_id, timeout_s)
        if executing is not None:
            return bool(executing)
        return any([await self._has_operation(session_id, each, timeout_s) for each in operations])

    async def is_starting(self, session_id: str, timeout_s: float) -> bool:
        """Whether a query is being started in the session. A server before Spark 4.2 can't say it: then False."""
        try:
            return any(map(is_start, await self._executing(session_id, timeout_s) or ()))
        except SessionUnknownError:
            return False

    async def _executing(self, session_id: str, timeout_s: float) -> frozenset[str] | None:
        """The ids of what is executed in the session; None: the server can't say it."""
        try:
            return read_executing(await self._ask("GetStatus", self._caller.operations(session_id), timeout_s))
        except UnansweredError as refused:
            if refused.trouble not in (Trouble.OTHER, Trouble.REFUSES):
                raise
        return None

    async def _has_operation(self, session_id: str, operation_id: str, timeout_s: float) -> bool:
        request = self._caller.forget_nothing_of(session_id, operation_id)
        try:
            return read_has_operation(await self._ask("ReleaseExecute", request, timeout_s))
        except UnansweredError as refused:
            if _CURSOR in str(refused):
                return True
            raise

    async def release(self, session_id: str, timeout_s: float) -> None:
        """Let the server refuse all later calls in the session. This has no effect if the server does not know it."""
        await self._ask("ReleaseSession", self._caller.release_session(session_id), timeout_s)

    async def _execute(self, request: bytes, timeout_s: float, read: Callable[[list[bytes]], T]) -> T:
        answers = await _answer(self._channel.execute(request, timeout_s))
        try:
            return read(answers)
        except (ValueError, KeyError) as wrong:
            raise UnansweredError(Trouble.OTHER, f"its answer can't be read: {wrong!r}") from None

    async def _ask(self, method: str, request: bytes, timeout_s: float) -> bytes:
        return await _answer(self._channel.ask(method, request, timeout_s))


async def _answer(call: Awaitable[T]) -> T:
    import grpc

    try:
        return await _answered(call)
    except grpc.RpcError as error:
        broken_off = error.code() is grpc.StatusCode.CANCELLED  # by a server that shuts down
        trouble, text = Trouble.AWAY if broken_off else trouble_of(error), text_of(error)
        if _NO_QUERY.search(text):
            raise NotThereError(text) from None
        if _CLOSED in text:
            raise SessionClosedError(text) from None
        if trouble in _GONE:
            raise SessionUnknownError(text) from None
        raise UnansweredError(trouble, text or trouble.value) from None


async def _answered(call: Awaitable[T]) -> T:
    """The calls of a channel that is closed are cancelled by gRPC. Whoever waits for one would take that for the end of
    their own task, and end without a word: a query that nobody watches would be said to run for ever.

    :raises UnansweredError: if the call is cancelled by anybody but its caller
    """
    answer = asyncio.ensure_future(call)
    try:
        await asyncio.wait([answer])
    except asyncio.CancelledError:
        answer.cancel()
        await asyncio.wait([answer])
        raise
    if answer.cancelled():
        raise UnansweredError(Trouble.AWAY, "the call was broken off")
    return answer.result()
