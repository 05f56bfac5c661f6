"""What a shard wants of the bridges of its groups (:mod:`airflow_provider.coordinator.bridging`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airflow_provider.coordinator.events import BridgeAsks, BridgeLost, BridgeSaid, ToBridge
from airflow_provider.protocol.model import Tasks

BridgeWord = BridgeSaid | BridgeLost
PutWord = Callable[[BridgeWord], None]
"""Takes what a bridge says; must not block."""


class Bridges(Protocol):
    """Those that are driven in this process. Any thread may call it; nothing blocks."""

    def open(self, group: str, claims: Tasks, put: PutWord) -> None:
        """Have a bridge in the classic group of this name, taken over from whoever drove it before, here too. When it
        is over it is lost, whatever the reason.

        :param claims: what the members of the declarative group may run
        :param put: of who opens it; who has opened it already need not again
        """

    def asks(self, group: str) -> BridgeAsks:
        """What it would let go of now."""

    def tell(self, group: str, asked: BridgeAsks, answer: ToBridge) -> None:
        """:param asked: what this is the answer to"""

    def close(self, group: str, put: PutWord) -> None:
        """Drive it here no more. It stays a member of the classic group, for whoever coordinates the group next.

        :param put: of who opened it; if somebody else has since, it goes on
        """
