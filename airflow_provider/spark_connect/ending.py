"""Ends a session for ever, with the query in it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from airflow_provider.spark_connect.asking import (
    NotThereError,
    Questions,
    SessionClosedError,
    UnansweredError,
)
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.trouble import Trouble

_AGAIN_S: Final = 1.0


class QueryNotStoppedError(Exception):
    """A server has not confirmed that a query runs no more, and that nobody can start one in its session."""


async def end_session(ask: Questions, handle: QueryHandle, *, timeout_s: float) -> None:
    """Stop what runs in the session, and have the server take no call in it any more.

    :raises QueryNotStoppedError: if it does not confirm that in time
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            await _end(ask, handle.session_id, deadline)
        except SessionClosedError:
            return
        except (NotThereError, UnansweredError) as error:
            if isinstance(error, UnansweredError) and error.trouble is Trouble.REFUSES:
                raise _not_stopped(handle, error) from None
            if time.monotonic() + _AGAIN_S >= deadline:
                raise _not_stopped(handle, error) from None
            await asyncio.sleep(_AGAIN_S)


async def _end(ask: Questions, session_id: str, deadline: float) -> None:
    """A server remembers only that it has closed a session that it had. So it is made, if it is not there.

    :raises SessionClosedError: as soon as it is certain
    """

    def left_s() -> float:
        return max(0.1, deadline - time.monotonic())

    with contextlib.suppress(UnansweredError):  # a server may refuse settings that it does not know
        await ask.say_that_it_ends(session_id, left_s())
    await ask.interrupt(session_id, left_s())  # also who is about to start a query there
    for query in await ask.running(session_id, left_s()):
        await ask.stop(session_id, query, left_s())
    await ask.release(session_id, left_s())
    await ask.require_session(session_id)
    raise UnansweredError(Trouble.OTHER, "it still takes calls in a session that it was told to close")


def _not_stopped(handle: QueryHandle, error: Exception) -> QueryNotStoppedError:
    return QueryNotStoppedError(
        f"the Spark Connect server {handle.server} has not confirmed that the query in session {handle.session_id} is"
        f" stopped ({error}): it may run on until its session is closed"
    )
