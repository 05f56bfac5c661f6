"""Waits for a condition, however busy the machine is.

There is one deadline for all waits, and it is no part of any test's claim: it is so generous that only what hangs meets
it. It grows with the load of the machine when the tests begin. If the load rises later, time counts less in waits for a
condition, but for a third at least. A run of a DAG has three times as long.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

TOLD_BY: Final = "COSPARK_SLOWNESS"
"""Who starts several steps of tests at once measures before, and tells them by this variable."""

_QUIET_S: Final = 300.0
_SLOWEST: Final = 5.5
"""So that no deadline is as long as LONGEST_SESSION_S."""
_LEAST: Final = 1 / 3
"""Of a second, however busy the machine has become: a test that hangs comes to its end."""
_SAMPLES: Final = 20
_SAMPLE_S: Final = 0.05
_PAUSE_S: Final = 0.005
_LONGER: Final = 1.2
_LONGEST_PAUSE_S: Final = 0.5
_LONGEST_TURN_S: Final = 0.05
"""In an event loop: what is waited for there may happen, and be over, within tenths of a second."""


def _slowness() -> float:
    """How many times as long as on an idle machine things may take when the tests begin; at least 1."""
    told = os.environ.get(TOLD_BY)
    return float(told) if told else _slowness_with(statistics.mean(_others_soon() for _ in range(_SAMPLES)))


def _slowness_with(others: float) -> float:
    return min(_SLOWEST, max(1.0, (1 + others) / (os.cpu_count() or 1)))


def _others_soon() -> int:
    time.sleep(_SAMPLE_S)
    return _others()


def _others() -> int:
    """How many threads run or wait for a core, beside this one. The load average would count what has just ended."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1


SLOWNESS: Final = _slowness()
DEADLINE_S: Final = _QUIET_S * SLOWNESS
"""For any wait of a test, in seconds."""
RUN_DEADLINE_S: Final = 3 * DEADLINE_S
"""For a run of a DAG: its tasks wait for each other."""
TEST_LIMIT_S: Final = 4 * DEADLINE_S
"""For a whole test: it hangs, although no wait in it says so."""

REST_MS: Final = 1_000
"""For so long after a round, a group may need another one for the same reason."""

LONGEST_SESSION_S: Final = 1_700.0
"""Almost the longest that a broker grants by default. No test waits for its end: whoever has it stays in its group."""


class _Patience:
    """What is left of the deadline. A second counts as less if the machine is busier than when the tests began."""

    def __init__(self) -> None:
        self._left_s = DEADLINE_S
        self._looked_s = time.monotonic()

    def require(self, what: Callable[[], object] | str) -> None:
        """:raises AssertionError: if nothing is left"""
        now_s = time.monotonic()
        self._left_s -= (now_s - self._looked_s) * max(_LEAST, min(1.0, SLOWNESS / _slowness_with(_others())))
        self._looked_s = now_s
        if self._left_s < 0:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {DEADLINE_S:.0f} s, or longer if the machine has become busy: {told}")


def slow_ms(quiet_ms: float) -> str:
    """An option of the code under test in ms, such as a session's length, on a machine as busy as this one."""
    return str(round(quiet_ms * SLOWNESS))


async def eventually(holds: Callable[[], object], what: Callable[[], object] | str = "it") -> None:
    """Wait until ``holds`` returns something true.

    :param what: what is waited for, or how things stand instead
    :raises AssertionError: if it does not by the deadline
    """
    patience, pause_s = _Patience(), _PAUSE_S
    while not holds():  # there is no event to wait for
        patience.require(what)
        await asyncio.sleep(pause_s)
        pause_s = min(_LONGER * pause_s, _LONGEST_TURN_S)


def wait_until(holds: Callable[[], T | None], what: Callable[[], object] | str = "it") -> T:
    """The same for tests without an event loop, and with what ``holds`` returned.

    :raises AssertionError: if ``holds`` returns nothing true by the deadline
    """
    patience, pause_s = _Patience(), _PAUSE_S
    while not (result := holds()):
        patience.require(what)
        time.sleep(pause_s)
        pause_s = min(_LONGER * pause_s, _LONGEST_PAUSE_S)
    return result
