"""How a process asks its worker to leave the group or to hand its membership over, even before it holds the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider.assignment.model import Absence
from airflow_provider.worker.endings.ending import STOPPED

if TYPE_CHECKING:
    from airflow_provider.worker.standing_back import SteadyWorker


class ExitRequests:
    """The requests to one worker, over all the times that this process holds it. Everything on one event loop.

    :ivar worker: the worker while it is held
    """

    def __init__(self) -> None:
        self.worker: SteadyWorker | None = None
        self._leaving: tuple[str, Absence, float] | None = None
        self._goes_elsewhere = False

    @property
    def leaving(self) -> bool:
        return self._leaving is not None

    def leave(self, reason: str, absence: Absence = STOPPED, confirm_within_s: float = 0.0) -> None:
        """As :meth:`Worker.leave <airflow_provider.worker.worker.Worker.leave>`; the first request counts."""
        if self._leaving is None:
            self._leaving = reason, absence, confirm_within_s
            self._pass_on()

    def confirm(self, absence: Absence) -> None:
        """As :meth:`Worker.confirm <airflow_provider.worker.worker.Worker.confirm>`, after :meth:`leave`."""
        if self._leaving is not None:
            self._leaving = self._leaving[0], absence, 0.0
            if self.worker is not None:
                self.worker.confirm(absence)

    def hand_over(self) -> None:
        """As :meth:`Worker.hand_over <airflow_provider.worker.worker.Worker.hand_over>`."""
        self._goes_elsewhere = True
        self._pass_on()

    def arrived(self) -> None:
        """The hand-over is done: the worker is held again."""
        self._goes_elsewhere = False

    @contextmanager
    def on(self, worker: SteadyWorker) -> Iterator[None]:
        """The worker is held while the block runs."""
        self.worker = worker
        asyncio.get_running_loop().call_soon(self._pass_on)  # a request may have come before
        try:
            yield
        finally:
            self.worker = None

    def _pass_on(self) -> None:
        if self.worker is None:
            return
        if self._leaving is not None:
            self.worker.leave(*self._leaving)
        elif self._goes_elsewhere:
            self.worker.hand_over()
