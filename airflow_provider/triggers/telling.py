"""Logs the group's progress in the log of a task that waits in the triggerer.

A triggerer holds a thousand such tasks in one loop. Each checks on its own schedule, twice a minute. Tasks that ask the
same about a group share the answer, and what takes long is computed outside the loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Final
from weakref import WeakKeyDictionary

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.event_loops.off_loop import off_loop
from airflow_provider.state.reports.standing import SAY_EVERY_S, Pace, SoFar
from airflow_provider.state.views.group_view import GroupView
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot

log = logging.getLogger(__name__)

Look = Callable[[JobsSnapshot, StatusSnapshot], SoFar | None]

_FRESH_S: Final = 10.0
"""How old a shared answer may be."""

_Answers = dict[Hashable, "tuple[float, asyncio.Future[SoFar | None]]"]

_ANSWERS: WeakKeyDictionary[object, _Answers] = WeakKeyDictionary()


def telling_so_far(group: GroupView, question: Hashable, look: Look) -> AbstractAsyncContextManager[None]:
    """Log the progress while the block runs: at most every 30 s when something has changed, at least every 10 minutes.

    :param question: identifies what ``look`` computes, so that equal ones share the answer
    :param look: runs outside the loop, so it must not touch what belongs to the loop; returns None if there is nothing
        to log
    """
    return _Telling(group, question, look)


class _Telling:
    """One of a thousand: between two looks it is only a timer, not a task. It logs in its creator's context, so to the
    log of its task.
    """

    __slots__ = ("_group", "_look", "_pace", "_question", "_telling", "_timer")

    def __init__(self, group: GroupView, question: Hashable, look: Look) -> None:
        self._group = group
        self._question = question
        self._look = look
        self._pace = Pace()
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._timer = self._armed()

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    def _armed(self) -> asyncio.TimerHandle:
        # Spread out: those that a triggerer has taken over have started at the same moment.
        wait_s = SAY_EVERY_S * random.uniform(1.0, 1.1)
        return asyncio.get_running_loop().call_later(wait_s, self._begin)

    def _begin(self) -> None:
        self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        so_far = await _answer(self._group, self._question, self._look)
        if so_far is not None and self._pace.is_due(so_far, time.monotonic()):
            log.info("%s", so_far.in_words(wall_ms()))
        self._telling, self._timer = None, self._armed()


async def _answer(group: GroupView, question: Hashable, look: Look) -> SoFar | None:
    answers, now = _ANSWERS.setdefault(group, {}), time.monotonic()
    for old in [asked for asked, (at, _) in answers.items() if now - at >= _FRESH_S]:
        del answers[old]
    if question not in answers:
        jobs, status = group.jobs, group.status
        looking = asyncio.ensure_future(off_loop(lambda: look(jobs, status), tasks=len(status.tasks)))
        answers[question] = now, looking
    # Shielded: cancelling one task must not cancel the answer for the others.
    return await asyncio.shield(answers[question][1])
