"""Ends a session for good, with the query in it.

A server that closes a session first stops its queries. A query that is just being started is registered only after
that: it would keep running in a session that nobody can reach, and nobody else could use its checkpoint. An interrupt
does not end a start either: Spark may only forget the query that comes of it (``StreamingQueryManager.startQuery``). So
the session is first made to refuse new starts. Then we wait for the starts that are under way, interrupt everything
else, and stop the queries that we find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from airflow_provider.spark.connect.grpc_calls.calls import (
    NotThereError,
    ServerCalls,
    SessionClosedError,
    UnansweredError,
)
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.spark.connect.trouble import Trouble

_PASSING: Final = frozenset({Trouble.AWAY, Trouble.SLOW, Trouble.FULL})
_interrupted: Final[dict[tuple[ConnectServer, str], set[str]]] = {}
"""The operations that this process has interrupted, by session, until the session is closed. A server before Spark 4.2
can only be asked about single operations, and tells their ids only to the caller that interrupts them first."""
_AGAIN_S: Final = 1.0
_LEAST_S: Final = 0.1
"""What a call may take even if the time is over."""
_LOOK_S: Final = 0.2


class QueryNotStoppedError(Exception):
    """A server has not confirmed that a query has stopped, and that nobody can start one in its session."""


async def end_session(calls: ServerCalls, handle: QueryHandle, *, timeout_s: float) -> None:
    """Stop what runs in the session, and have the server refuse all later calls in it.

    :raises QueryNotStoppedError: if it does not confirm that in time. It has the last words of the server, which say
        more than that the time is over
    """
    now = asyncio.get_running_loop().time
    deadline = now() + timeout_s
    place = handle.server, handle.session_id
    said: list[str] = []
    while True:
        try:
            await _end(calls, handle.session_id, _interrupted.setdefault(place, set()), said, deadline)
        except SessionClosedError:
            _interrupted.pop(place, None)
            return
        except (NotThereError, UnansweredError) as error:
            trouble = error.trouble if isinstance(error, UnansweredError) else Trouble.OTHER
            if trouble is not Trouble.SLOW:
                said.append(str(error))
            if trouble is Trouble.REFUSES or now() + _AGAIN_S >= deadline:
                late = ("it has not answered in time",) if trouble is Trouble.SLOW else ()
                raise _not_stopped(handle, "; then ".join((*said[-1:], *late))) from None
            await asyncio.sleep(_AGAIN_S)


async def _end(calls: ServerCalls, session_id: str, interrupted: set[str], said: list[str], deadline: float) -> None:
    """A server only remembers closed sessions that it once had. So a missing session is first created.

    :param said: what the server has refused so far; this adds to it
    :raises SessionClosedError: when the server confirms that the session is closed
    """
    now = asyncio.get_running_loop().time

    def left_s() -> float:
        return max(_LEAST_S, deadline - now())

    async def wait_until_not(does: Callable[[], Awaitable[bool]], what: str) -> None:
        while await does():
            if now() >= deadline:
                raise UnansweredError(Trouble.OTHER, what)
            await asyncio.sleep(_LOOK_S)

    try:
        await calls.refuse_starts(session_id, left_s())
    except UnansweredError as refused:
        if refused.trouble in _PASSING:
            raise
        said.append(str(refused))  # it lets nobody change this setting, or nobody do anything
    await wait_until_not(lambda: calls.is_starting(session_id, left_s()), "it is still starting a query there")
    interrupted |= await calls.interrupt(session_id, left_s())
    await wait_until_not(
        lambda: calls.is_executing(session_id, frozenset(interrupted), left_s()),
        "it still executes what was interrupted there",
    )
    for query in await calls.running(session_id, left_s()):
        await calls.stop(session_id, query, left_s())
    await calls.release(session_id, left_s())
    await calls.require_session(session_id)
    raise UnansweredError(Trouble.OTHER, "it still accepts calls in a session that it was told to close")


def _not_stopped(handle: QueryHandle, why: str) -> QueryNotStoppedError:
    return QueryNotStoppedError(
        f"the Spark Connect server {handle.server} has not confirmed that the query in session {handle.session_id} is"
        f" stopped ({why}): it may keep running until its session is closed"
    )
