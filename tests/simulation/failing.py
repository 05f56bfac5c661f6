"""What is raised when a history goes wrong."""

from __future__ import annotations

from typing import Protocol


class Tells(Protocol):
    def story(self) -> str: ...


class HistoryError(AssertionError):
    """Something in a history is not as it must be. Carries the story."""

    def __init__(self, failure: Exception, world: Tells) -> None:
        super().__init__(f"{type(failure).__name__}: {failure}\n{world.story()}")
        self.failure = failure
