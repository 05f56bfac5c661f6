"""The port through which a shard uses the bridges of its groups
(:mod:`airflow_provider.group.declarative.coordinator.handlers.bridging`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airflow_provider.group.declarative.coordinator.events import (
    BridgeAsks,
    BridgeClaims,
    BridgeLost,
    BridgeSaid,
    ToBridge,
)

BridgeWord = BridgeSaid | BridgeLost
PutWord = Callable[[BridgeWord], None]
"""Takes what a bridge says; must not block."""


class Bridges(Protocol):
    """The bridges that this process holds. Any thread may call it. Only :meth:`close` blocks, for a few seconds."""

    def open(self, group: str, claims: BridgeClaims, put: PutWord) -> None:
        """Take over the bridge to the classic group of this name from its former holder, also from one in this process.
        When it ends, for whatever reason, it says that it is lost.

        :param claims: what it says it owns
        :param put: takes what the bridge says, and identifies the caller. To open a bridge twice has no effect
        """

    def asks(self, group: str) -> BridgeAsks:
        """The tasks that the bridge wants to release now."""

    def tell(self, group: str, asked: BridgeAsks, answer: ToBridge) -> None:
        """Answer the bridge.

        :param asked: the question that this answers
        """

    def close(self, group: str, put: PutWord) -> None:
        """Stop holding the bridge. It stays a member of the classic group, for the next coordinator of the group.

        :param put: that of :meth:`open`. If another caller has opened the bridge since, it goes on
        """
