"""A worker whose group has nothing to run: it logs this, and waits no longer than its idle timeout."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from airflow_provider.group.live.timers import Timer, call_at
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.state.records import TaskStatus
from airflow_provider.state.reports.standing import SAY_AGAIN_S
from airflow_provider.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

SAY_AGAIN_MS: Final = round(SAY_AGAIN_S * 1000)


class Idling:
    """How long no worker of the group has had anything to run, over all processes that held the membership.

    A worker without tasks is not idle while others run theirs: it stands by for them.

    :param look_again: called when :meth:`overdue` has to be called again
    """

    def __init__(self, settings: WorkerSettings, look_again: Callable[[], None]) -> None:
        self._group = settings.member.group_id
        self._limit_ms = settings.idle_timeout_ms
        self._look_again = look_again
        self._since_ms: int | None = None
        self._said_at_ms = -SAY_AGAIN_MS
        self._said = ""
        self._timer: Timer | None = None

    @property
    def since_wall_ms(self) -> int | None:
        """Since when (wall clock), for the process that takes over; None: there is something to run."""
        return None if self._since_ms is None else wall_ms() - (now_ms() - self._since_ms)

    def go_on(self, since_wall_ms: int, reason: str | None, tasks: Iterable[TaskStatus]) -> None:
        """Continue the wait of another process, which has already logged the reason."""
        if reason is not None:
            self._since_ms = now_ms() - max(0, wall_ms() - since_wall_ms)
            self._said, self._said_at_ms = reason, now_ms()
            self.count_from_last_end(tasks)

    def count_from_last_end(self, tasks: Iterable[TaskStatus]) -> None:
        """If a task has ended since the wait began, there was work meanwhile that was not seen."""
        if self._since_ms is not None:
            ended_ms = max((task.finished_at_ms or 0 for task in tasks), default=0)
            self._since_ms = max(self._since_ms, now_ms() - max(0, wall_ms() - ended_ms))

    def overdue(self, reason: str | None) -> str | None:
        """Why the worker gives up, if it has waited long enough.

        :param reason: why there is nothing to run; None: there is something
        """
        if reason is None:
            self._since_ms, self._said = None, ""
            self.close()
            return None
        now = now_ms()
        if self._since_ms is None:
            self._since_ms = now
        self._say(reason, now)
        if self._limit_ms is not None and now - self._since_ms >= self._limit_ms:
            return (
                f"group {self._group} {reason}: waited {self._limit_ms / 1000:g} s for something to run (idle timeout)"
            )
        if self._timer is None:
            self._timer = call_at(self._due_ms(self._since_ms), self._due)
        return None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self, reason: str, now: int) -> None:
        if reason == self._said and now - self._said_at_ms < SAY_AGAIN_MS:
            return
        self._said, self._said_at_ms = reason, now
        limit = "" if self._limit_ms is None else f", {self._limit_ms / 1000:g} s at most"
        log.info("Group %s %s: this worker waits for something to run%s", self._group, reason, limit)

    def _due_ms(self, since_ms: int) -> int:
        again = self._said_at_ms + SAY_AGAIN_MS
        return again if self._limit_ms is None else min(again, since_ms + self._limit_ms)

    def _due(self) -> None:
        self._timer = None
        self._look_again()
