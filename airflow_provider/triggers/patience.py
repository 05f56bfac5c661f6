"""Lets a trigger wait for a broker that is away, and logs this once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from airflow_provider.topics.errors import BrokerAwayError

log = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_S: Final = 5.0


async def patiently(work: Callable[[], Awaitable[T]], who: str) -> T:
    """The result of ``work``, which is started again while no broker answers.

    :param who: what waits, for the log
    """
    said = False
    while True:
        try:
            return await work()
        except BrokerAwayError as away:
            if not said:
                log.warning("%s is interrupted until a broker answers: %s", who, away)
            said = True
            await asyncio.sleep(_AGAIN_S)
