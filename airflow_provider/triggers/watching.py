"""Checks the conditions of sensors: in one go for all sensors of a group, and with pauses.

A triggerer may hold hundreds of sensors of one group, and a job thousands of tasks, of which some end in every second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider.kafka.event_loops.off_loop import REST, SETTLE_S, off_loop
from airflow_provider.triggers.conditions import Answer, Condition

if TYPE_CHECKING:
    from airflow_provider.integration.memberships.group_now import GroupNow
    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot


class _Watch:
    """The conditions that are waited for in one group, on one loop."""

    def __init__(self, group: GroupNow) -> None:
        self._group = group
        self._waiting: dict[asyncio.Future[Answer], Condition] = {}
        self._changed = asyncio.Event()
        self._unsubscribe = group.subscribe(self._changed.set)
        self._looking = asyncio.ensure_future(self._look_again_and_again())

    async def wait(self, condition: Condition) -> Answer:
        hash(condition)  # if it can't be hashed, this fails its own sensor, and not all of them
        mine: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = condition
        self._changed.set()
        try:
            return await mine
        finally:
            del self._waiting[mine]
            if not self._waiting:
                self._ends()
                self._unsubscribe()
                self._looking.cancel()

    def _ends(self) -> None:
        """From now on, new sensors start another watch."""
        if _WATCHES.get(self._group) is self:
            del _WATCHES[self._group]

    async def _look_again_and_again(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                began = time.perf_counter()
                await self._look()
                await asyncio.sleep(max(SETTLE_S, REST * (time.perf_counter() - began)))
        except Exception as failed:  # noqa: BLE001  whatever it is: it is raised in all that wait
            self._ends()
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(failed)

    async def _look(self) -> None:
        """:raises TopicError: if a topic can't be read"""
        jobs, status, problem = self._group.jobs, self._group.status, self._group.problem
        conditions = set(self._waiting.values())

        def answers() -> Mapping[Condition, Answer | Exception | None]:
            return {condition: _answer_to(condition, jobs, status) for condition in conditions}

        answered = await off_loop(answers, tasks=jobs.planned)
        for waiting, condition in self._waiting.items():
            answer = answered.get(condition)
            if answer is None or waiting.done():
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        if problem is not None:
            raise problem


def _answer_to(condition: Condition, jobs: JobsSnapshot, status: StatusSnapshot) -> Answer | Exception | None:
    """A fault in a condition is only raised where that condition is waited for."""
    try:
        return condition.answer(jobs, status)
    except Exception as fault:  # noqa: BLE001  it is raised where the answer is waited for
        return fault


_WATCHES: WeakKeyDictionary[object, _Watch] = WeakKeyDictionary()


async def answer_to(group: GroupNow, condition: Condition) -> Answer:
    """The answer, as soon as there is one.

    :param group: its topics are read to their ends
    :raises TopicError: if a topic can't be read
    """
    watch = _WATCHES.get(group)
    if watch is None:
        watch = _WATCHES[group] = _Watch(group)
    return await watch.wait(condition)
