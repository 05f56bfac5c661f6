"""The error of a history that goes wrong."""

from __future__ import annotations

from typing import Protocol


class Tells(Protocol):
    def story(self) -> str: ...


class HistoryError(AssertionError):
    """A history broke a rule. Carries the story."""

    def __init__(self, failure: Exception, world: Tells) -> None:
        super().__init__(f"{type(failure).__name__}: {failure}\n{world.story()}")
        self.failure = failure
