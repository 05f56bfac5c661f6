"""Writes what a worker has to say to the status topic, in the order in which it is said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, Final

from airflow_provider.protocol.model import TaskId, WorkerId
from airflow_provider.topics.errors import BrokerAwayError, TooLargeError, TopicError

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0

Write = Callable[[], Awaitable[object]]


class Journal:
    """What cannot be written is said once, until it works again; that no broker is there, others say already.

    :param worker: whose words these are
    """

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._writing: set[asyncio.Task[Any]] = set()
        self._complained = False
        self._numbers = count(1)
        self._newest: dict[TaskId, int] = {}

    def note(self, write: Write) -> None:
        """Write what nobody waits for: if it fails, the next words will do."""
        self._spawn(self._try(write))

    def keep(self, about: TaskId, write: Write) -> None:
        """Write what others wait for, again and again, until it is stored or something newer is said about the same."""
        self.outdate(about)
        self._spawn(self._keep(about, self._newest[about], write))

    def outdate(self, about: TaskId) -> None:
        """Write no more what :meth:`keep` still tries to write about this: there is something newer to say."""
        self._newest[about] = next(self._numbers)

    async def insist(self, write: Write) -> None:
        """Write what must not be lost, again and again. Cancel it to give up.

        :raises TooLargeError: if no broker will ever take it
        """
        while (failed := await self._try(write)) is not None:
            if isinstance(failed, TooLargeError):
                raise failed
            await asyncio.sleep(_RETRY_S)

    async def settle(self, timeout_s: float) -> None:
        """Wait until what has been noted so far is stored, or can't be; no longer than that."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=timeout_s)

    async def flush(self, timeout_s: float) -> None:
        """Wait until all notes are stored; what is not by then is not waited for."""
        await self.settle(timeout_s)
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _keep(self, about: TaskId, number: int, write: Write) -> None:
        failed = await self._try(write)
        while failed is not None and not isinstance(failed, TooLargeError):
            await asyncio.sleep(_RETRY_S)
            if self._newest.get(about) != number:
                return
            failed = await self._try(write)
        if self._newest.get(about) == number:
            del self._newest[about]

    async def _try(self, write: Write) -> TopicError | None:
        """What kept it from being written, if something did."""
        try:
            await write()
        except TopicError as failed:
            self._complain(failed)
            return failed
        self._complained = False
        return None

    def _complain(self, failed: TopicError) -> None:
        if not self._complained and not isinstance(failed, BrokerAwayError):
            self._complained = True
            log.warning("worker %s cannot write what it does: %s", self._worker, failed)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._writing.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._writing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("worker %s: a record was not written", self._worker, exc_info=task.exception())
