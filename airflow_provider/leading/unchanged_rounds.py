"""How a group that rebalances again and again without anything changing slows down.

A round that starts, stops and moves nothing, with the same members, was for nothing; so was one that only tells a
worker again to stop what it still claims. One or two of them are nothing to worry about: a message was lost, a worker
was replaced. Whatever makes a group go round for longer (a fault of ours, a member that joins for ever, or that never
stops what it is told to), its leader lets each further round wait longer, up to a few seconds, before it hands out the
assignment. Everybody goes on with what it runs meanwhile. A round that changes something never waits; a newcomer waits
for the one that is held back.
"""

from __future__ import annotations

from typing import Final

_FREE: Final = 2
_FIRST_MS: Final = 100
_LONGEST_MS: Final = 5_000
IN_A_ROW_MS: Final = 60_000
"""Rounds that are further apart have nothing to do with each other."""

_PART_OF_A_SESSION: Final = 4
"""Who waits for its assignment for a session takes it for lost and joins again."""


def is_held_back(unchanged: int) -> bool:
    """Whether assignments are held back after so many rounds in a row that changed nothing."""
    return unchanged > _FREE


def hold_back_ms(unchanged: int, session_timeout_ms: int) -> int:
    """How long a leader holds an assignment back.

    :param unchanged: how many rounds in a row changed nothing, with the one that is held back
    :return: milliseconds; 0: not at all
    """
    if not is_held_back(unchanged):
        return 0
    doubled = min(unchanged - _FREE - 1, 10)
    return min(_FIRST_MS << doubled, _LONGEST_MS, session_timeout_ms // _PART_OF_A_SESSION)
