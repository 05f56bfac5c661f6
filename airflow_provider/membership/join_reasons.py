"""Why a member joins a rebalance, in words for the coordinator and for the leader, which tells its own by them."""

from __future__ import annotations

from typing import Final

OTHERS_BEGAN: Final = "the group rebalances"
"""It has only heard of a rebalance."""
OVERTAKEN: Final = "another rebalance has begun"
"""Before it had its assignment from the last one."""
STARTS: Final = "a worker starts"
HAVE_STOPPED: Final = "revoked tasks have stopped"
DELAY_OVER: Final = "the scheduled delay is over"
