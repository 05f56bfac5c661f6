"""A task that waits for its driver on a cluster, and what happens to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.spark.job import FencedError


class Guard:
    """Of a task to which things happen while it waits for its driver.

    :param then: what happens, one after the other
    """

    stopping = moves = over = False

    def __init__(self, *then: Callable[[], object]) -> None:
        self.then = [*then]

    def wait(self, timeout_s: float) -> bool:
        assert self.then, "it waits, and nothing happens any more"
        self.then.pop(0)()
        return self.stopping

    def check(self) -> None:
        if self.stopping or self.over:
            raise FencedError("it may not go on")

    def check_lease(self) -> None: ...

    def stop(self, *, moves: bool) -> None:
        self.stopping, self.moves = True, moves

    def lose_lease(self) -> None:
        self.over = True
