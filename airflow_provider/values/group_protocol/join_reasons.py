"""Reasons why a member joins a rebalance, for the coordinator's log and for the leader, which recognizes its own."""

from __future__ import annotations

from typing import Final

OTHERS_BEGAN: Final = "the group rebalances"
"""The member joins only because it has heard of a rebalance."""
STARTS: Final = "a worker starts"
HAVE_STOPPED: Final = "revoked tasks have stopped"
DELAY_OVER: Final = "the scheduled delay is over"
