"""Writes a worker's records to the status topic, in their order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, Final

from airflow_provider.kafka.topics.errors import BrokerAwayError, TooLargeError, TopicError
from airflow_provider.values.model import TaskId, WorkerId

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0

Write = Callable[[], Awaitable[object]]
Tried = Callable[["BaseException | None"], None]
"""Called with the error that kept a record from being written; None: it is stored."""


class Journal:
    """Writes records. A failure is logged once, until writing works again; an absent broker is logged elsewhere.

    A record that is stored at the first try, as nearly all are, needs no task of the loop.

    :param worker: the worker that writes
    """

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._writing: set[asyncio.Future[Any]] = set()
        self._complained = False
        self._numbers = count(1)
        self._newest: dict[TaskId, int] = {}

    def note(self, write: Write) -> None:
        """Write a record that nobody waits for: if this fails, the next record will do."""
        self.attempt(write, self._forgive)

    def keep(self, about: TaskId, write: Write) -> None:
        """Write a record that others wait for, until it is stored or there is a newer one about the same task."""
        number = self._newest[about] = next(self._numbers)

        def tried(failed: BaseException | None) -> None:
            if failed is None or isinstance(failed, TooLargeError):
                self._forget(about, number)
            elif isinstance(failed, TopicError):
                self.later(again)
            else:
                self._forgive(failed)

        def again() -> None:
            if self._newest.get(about) == number:
                self.attempt(write, tried)

        self.attempt(write, tried)

    def outdate(self, about: TaskId) -> None:
        """Stop trying to write the record that :meth:`keep` was given for this task: there is a newer one."""
        self._newest.pop(about, None)

    def attempt(self, write: Write, tried: Tried) -> None:
        """Write this once, and report the outcome."""
        written: asyncio.Future[Any]
        try:
            written = asyncio.ensure_future(write())
        except Exception as failed:  # noqa: BLE001  treated like an error that comes later
            written = asyncio.get_running_loop().create_future()
            written.set_exception(failed)

        def done(written: asyncio.Future[Any]) -> None:
            self._writing.discard(written)
            if not written.cancelled():
                tried(self._complain(written.exception()))

        self._writing.add(written)
        written.add_done_callback(done)

    def later(self, again: Callable[[], None]) -> None:
        """Try again after a while; :meth:`flush` cancels this."""

        async def wait() -> None:
            await asyncio.sleep(_RETRY_S)
            again()

        self._spawn(wait())

    async def insist(self, write: Write) -> None:
        """Write a record that must not be lost, until it is stored. Cancel this to give up.

        :raises TooLargeError: if no broker will ever take it
        """
        while (failed := await self._try(write)) is not None:
            if isinstance(failed, TooLargeError):
                raise failed
            await asyncio.sleep(_RETRY_S)

    async def settle(self, timeout_s: float) -> None:
        """Wait until everything is stored or has failed, at most this long."""
        until = time.monotonic() + timeout_s
        while self._writing and (left_s := until - time.monotonic()) > 0:
            await asyncio.wait(self._writing, timeout=left_s)

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything is stored, at most this long, and cancel the rest."""
        await self.settle(timeout_s)
        writing = list(self._writing)
        for written in writing:
            written.cancel()
        await asyncio.gather(*writing, return_exceptions=True)

    def _forget(self, about: TaskId, number: int) -> None:
        if self._newest.get(about) == number:
            del self._newest[about]

    def _forgive(self, failed: BaseException | None) -> None:
        if failed is not None and not isinstance(failed, TopicError):
            log.error("worker %s: a record was not written", self._worker, exc_info=failed)

    async def _try(self, write: Write) -> TopicError | None:
        """Write once; returns the error, if there was one."""
        try:
            await write()
        except TopicError as failed:
            self._complain(failed)
            return failed
        self._complain(None)
        return None

    def _complain(self, failed: BaseException | None) -> BaseException | None:
        if failed is None:
            self._complained = False
        elif isinstance(failed, TopicError) and not isinstance(failed, BrokerAwayError) and not self._complained:
            self._complained = True
            log.warning("worker %s can't write its records: %s", self._worker, failed)
        return failed

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
