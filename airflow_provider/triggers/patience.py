"""A trigger waits for a broker that is away, and says so once."""

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
    """What ``work`` gives; it begins anew when no broker answers.

    :param who: says in the log who goes on when one does
    """
    said = False
    while True:
        try:
            return await work()
        except BrokerAwayError as away:
            if not said:
                log.warning("%s goes on when a broker answers: %s", who, away)
            said = True
            await asyncio.sleep(_AGAIN_S)
