"""An event loop with virtual time: nothing in it waits for real time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class _NothingComes(selectors.BaseSelector):
    """A selector that advances the loop's time instead of waiting."""

    def __init__(self, inner: selectors.BaseSelector, loop: VirtualLoop) -> None:
        self._inner = inner
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everything waits, and nothing is due")
        self._loop.now += max(timeout, 0.0)
        self._loop.turned()
        return self._inner.select(0)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Any:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """:ivar now: the virtual time, in seconds
    :ivar turns: how often something could run since the loop began: each ``await`` that waits takes another turn
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0
        self._at_turn: dict[int, Callable[[], None]] = {}
        super().__init__(_NothingComes(selectors.DefaultSelector(), self))

    def at_turn(self, turn: int, do: Callable[[], None]) -> None:
        """Call this when the loop has turned so often, before anything else runs in that turn."""
        self._at_turn[turn] = do

    def turned(self) -> None:
        self.turns += 1
        if (do := self._at_turn.pop(self.turns, None)) is not None:
            do()

    def time(self) -> float:
        return self.now
