"""Waits for a condition with a deadline, however busy the machine is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

DEADLINE_S = 60.0
_PAUSE_S = 0.005


async def eventually(holds: Callable[[], object], what: str = "it", *, within_s: float = DEADLINE_S) -> None:
    """Wait until ``holds`` returns something true.

    :raises AssertionError: if it does not in time; the message says ``what``
    """

    async def look() -> None:
        while not holds():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(_PAUSE_S)

    try:
        await asyncio.wait_for(look(), within_s)
    except asyncio.TimeoutError:
        raise AssertionError(f"not within {within_s:.0f} s: {what}") from None
