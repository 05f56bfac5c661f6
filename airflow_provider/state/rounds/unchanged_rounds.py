"""Slows down a group that rebalances again and again although nothing changes.

A round with the same members that starts, stops and moves nothing was useless. So was one that only tells a worker
again to stop tasks that it still claims. One or two such rounds are normal: a message was lost, or a worker was
replaced. If there are more (because of a bug, a member that joins for ever, or one that never stops its revoked tasks),
the leader holds back each further assignment for longer, up to a few seconds. In the meantime all tasks go on. A round
that changes something never waits, but a worker that joins waits for a round that is held back.
"""

from __future__ import annotations

from typing import Final

_FREE: Final = 2
_FIRST_MS: Final = 100
_LONGEST_MS: Final = 5_000
IN_A_ROW_MS: Final = 60_000
"""Rounds that are further apart than this, in milliseconds, do not count as in a row."""

_PART_OF_A_SESSION: Final = 4
"""An assignment is held back for a quarter of a session at most: a member that waits for a whole session joins again.
"""


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
