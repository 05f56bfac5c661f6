"""Waits until an error has passed, and logs this once: the same patience for tasks, sensors and triggers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from airflow_provider.kafka.topics.errors import PassingError, UnsureError

log = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_S: Final = 5.0


async def patiently(work: Callable[[], Awaitable[T]], who: str, *, until: float = math.inf) -> T:
    """The result of ``work``, which is started again after errors that may pass.

    :param who: what waits, for the log
    :param until: when to give up (monotonic clock, in seconds)
    :raises PassingError: if it has not passed by then
    """
    said = False
    while True:
        try:
            return await work()
        except PassingError as wrong:
            if time.monotonic() >= until:
                raise
            said = _tell(who, wrong, said=said)
        await asyncio.sleep(max(0.0, min(_AGAIN_S, until - time.monotonic())))


def waited_out(work: Callable[[], T], who: str) -> T:
    """As :func:`patiently`, in the thread of a task, which Airflow can end at any time.

    :raises UnsureError: if it may be done already, so that it must not be done again without being asked to
    """
    said = False
    while True:
        try:
            return work()
        except UnsureError:
            raise
        except PassingError as wrong:
            said = _tell(who, wrong, said=said)
        time.sleep(_AGAIN_S)


def _tell(who: str, wrong: PassingError, *, said: bool) -> bool:
    if not said:
        log.warning("%s is interrupted until this has passed: %s", who, wrong)
    return True
