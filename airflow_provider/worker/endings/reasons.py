"""Why a worker ends although nothing is wrong: it was asked to, all work is done, or it has waited too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from airflow_provider.kafka.topics.errors import PassingError, TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import ControlRecord
from airflow_provider.state.views.task_progress.progress import group_drained, why_idle
from airflow_provider.values.model import Tasks
from airflow_provider.worker.endings.idling import Idling
from airflow_provider.worker.settings import Until, WorkerSettings

_CATCH_UP_AGAIN_S: Final = 5.0


class ReasonsToEnd:
    """Finds these reasons in the group's topics, for one worker.

    :param began_at: how far the jobs topic had been read when the worker began: earlier requests don't count
    :param look_again: called when :meth:`waited_too_long` has to be called again
    """

    def __init__(
        self, settings: WorkerSettings, topics: GroupTopics, *, began_at: int, look_again: Callable[[], None]
    ) -> None:
        self.began_at = began_at
        self._me = settings.member.worker
        self._until = settings.until
        self._topics = topics
        self._idling = Idling(settings, look_again)
        self._look_again = look_again
        self._catching_up: asyncio.Task[None] | None = None

    @property
    def wish(self) -> ControlRecord | None:
        """The request to leave, if there is one for this worker."""
        jobs = self._topics.jobs
        return jobs.controls[self._me] if jobs.asked_at.get(self._me, -1) >= self.began_at else None

    @property
    def is_done(self) -> bool:
        """Whether the group has done its work, and the worker ends in this case."""
        topics = self._topics
        return self._until is Until.DRAINED and group_drained(topics.jobs, topics.status.tasks, since=self.began_at)

    def waited_too_long(self, running: Tasks) -> str | None:
        """Why the worker gives up waiting for something to run; None: it does not. It first reads what came meanwhile:
        its process may have been suspended or cut off.

        :param running: the tasks that run here
        """
        error = self._idling.overdue(None if running else self._why_idle())
        if error is None:
            self._stop_catching_up()
        elif self._catching_up is None:
            self._catching_up = asyncio.ensure_future(self._catch_up())
            self._catching_up.add_done_callback(lambda _: self._look_again())
        elif self._catching_up.done():
            self._catching_up.result()
            return error
        return None

    @property
    def waits_since_ms(self) -> int | None:
        """Since when no worker of the group has had anything to run (wall clock); None: there is something to run."""
        return self._idling.since_wall_ms

    def go_on_waiting(self, since_ms: int | None) -> None:
        """Continue a wait that began in another process.

        :param since_ms: the value of :attr:`waits_since_ms` there
        """
        if since_ms is not None:
            self._idling.go_on(since_ms, self._why_idle(), self._topics.status.tasks.values())

    def close(self) -> None:
        self._idling.close()
        self._stop_catching_up()

    async def _catch_up(self) -> None:
        """Until nothing more can be read."""
        while True:
            try:
                await self._topics.catch_up()
            except PassingError:
                await asyncio.sleep(_CATCH_UP_AGAIN_S)
                continue
            except TopicError:
                return
            self._idling.count_from_last_end(self._topics.status.tasks.values())
            return

    def _stop_catching_up(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None

    def _why_idle(self) -> str | None:
        return why_idle(self._topics.jobs, self._topics.status.tasks)
