"""Answers of Airflow, shared by all triggers that ask for the same at the same time.

Airflow answers a triggerer's questions one by one. Each takes a query of its database; new triggers and events wait
meanwhile. When a triggerer starts, hundreds of its triggers ask for the same connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class SharedAnswers(Generic[T]):
    """The answers about connections, for each event loop of the process.

    :param ask: asks Airflow about a connection, by its id
    """

    def __init__(self, ask: Callable[[str], Awaitable[T]]) -> None:
        self._ask = ask
        self._asked: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Future[T]]] = WeakKeyDictionary()

    async def about(self, conn_id: str) -> T:
        """Ask, or wait for the answer if another trigger has just asked the same.

        :raises Exception: what ``ask`` raises
        """
        asked = self._asked.setdefault(asyncio.get_running_loop(), {})
        answer = asked.get(conn_id)
        if answer is None:
            answer = asked[conn_id] = asyncio.ensure_future(self._ask(conn_id))

            def forget(answer: asyncio.Future[T]) -> None:
                del asked[conn_id]
                _ = answer.cancelled() or answer.exception()  # retrieved, even if nobody waits for it any more

            answer.add_done_callback(forget)
        # Shielded: cancelling one trigger must not cancel the answer for the others.
        return await asyncio.shield(answer)
