"""By which a process has its worker leave the group, or go on elsewhere: also before it holds one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider.assignors.model import Absence
from airflow_provider.worker.ending import STOPPED

if TYPE_CHECKING:
    from airflow_provider.worker.standing_back import SteadyWorker


class Reins:
    """Those of one worker, over all the times that this process holds it. Everything on one event loop.

    :ivar worker: the worker while it is held
    """

    def __init__(self) -> None:
        self.worker: SteadyWorker | None = None
        self._leaving: tuple[str, Absence] | None = None
        self._goes_elsewhere = False

    @property
    def leaving(self) -> bool:
        return self._leaving is not None

    def leave(self, reason: str, absence: Absence = STOPPED) -> None:
        """As :meth:`Worker.leave <airflow_provider.worker.worker.Worker.leave>`; the first word counts."""
        if self._leaving is None:
            self._leaving = reason, absence
            self._pull()

    def hand_over(self) -> None:
        """As :meth:`Worker.hand_over <airflow_provider.worker.worker.Worker.hand_over>`."""
        self._goes_elsewhere = True
        self._pull()

    def arrived(self) -> None:
        """The worker is where it was to go on."""
        self._goes_elsewhere = False

    @contextmanager
    def on(self, worker: SteadyWorker) -> Iterator[None]:
        """This one is held as long as the block runs."""
        self.worker = worker
        asyncio.get_running_loop().call_soon(self._pull)  # the wish may have come before it began
        try:
            yield
        finally:
            self.worker = None

    def _pull(self) -> None:
        if self.worker is None:
            return
        if self._leaving is not None:
            self.worker.leave(*self._leaving)
        elif self._goes_elsewhere:
            self.worker.hand_over()
