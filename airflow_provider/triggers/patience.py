"""Lets a trigger wait until an error has passed, and logs this once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from airflow_provider.topics.errors import PassingError

log = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_S: Final = 5.0


async def patiently(work: Callable[[], Awaitable[T]], who: str) -> T:
    """The result of ``work``, which is started again after errors that may pass.

    :param who: what waits, for the log
    """
    said = False
    while True:
        try:
            return await work()
        except PassingError as wrong:
            if not said:
                log.warning("%s is interrupted until this has passed: %s", who, wrong)
            said = True
            await asyncio.sleep(_AGAIN_S)
