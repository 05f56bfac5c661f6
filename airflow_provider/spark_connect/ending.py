"""Ends a session for good, with the query in it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from airflow_provider.spark_connect.calls import (
    NotThereError,
    ServerCalls,
    SessionClosedError,
    UnansweredError,
)
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.trouble import Trouble

_AGAIN_S: Final = 1.0


class QueryNotStoppedError(Exception):
    """A server has not confirmed that a query has stopped, and that nobody can start one in its session."""


async def end_session(calls: ServerCalls, handle: QueryHandle, *, timeout_s: float) -> None:
    """Stop what runs in the session, and have the server refuse all later calls in it.

    :raises QueryNotStoppedError: if it does not confirm that in time
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            await _end(calls, handle.session_id, deadline)
        except SessionClosedError:
            return
        except (NotThereError, UnansweredError) as error:
            if isinstance(error, UnansweredError) and error.trouble is Trouble.REFUSES:
                raise _not_stopped(handle, error) from None
            if time.monotonic() + _AGAIN_S >= deadline:
                raise _not_stopped(handle, error) from None
            await asyncio.sleep(_AGAIN_S)


async def _end(calls: ServerCalls, session_id: str, deadline: float) -> None:
    """A server only remembers closed sessions that it once had. So a missing session is first created.

    :raises SessionClosedError: when the server confirms that the session is closed
    """

    def left_s() -> float:
        return max(0.1, deadline - time.monotonic())

    with contextlib.suppress(UnansweredError):  # a server may refuse unknown settings
        await calls.say_that_it_ends(session_id, left_s())
    await calls.interrupt(session_id, left_s())  # also a client that is about to start a query there
    for query in await calls.running(session_id, left_s()):
        await calls.stop(session_id, query, left_s())
    await calls.release(session_id, left_s())
    await calls.require_session(session_id)
    raise UnansweredError(Trouble.OTHER, "it still accepts calls in a session that it was told to close")


def _not_stopped(handle: QueryHandle, error: Exception) -> QueryNotStoppedError:
    return QueryNotStoppedError(
        f"the Spark Connect server {handle.server} has not confirmed that the query in session {handle.session_id} is"
        f" stopped ({error}): it may keep running until its session is closed"
    )
