"""Tells the log of a task that waits in the triggerer how far its group is.

A triggerer holds a thousand of them in one loop. Each looks on its own time, twice a minute; those that want to know
the same of a group share the answer, and what takes long is worked out beside the loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.off_loop import off_loop
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.reports.standing import SAY_EVERY_S, Pace, SoFar

if TYPE_CHECKING:
    from airflow_provider.topics.group_topics import GroupTopics

log = logging.getLogger(__name__)

Look = Callable[[JobsSnapshot, StatusSnapshot], SoFar | None]

_FRESH_S: Final = 10.0
"""An answer may be so old."""

_Answers = dict[Hashable, "tuple[float, asyncio.Future[SoFar | None]]"]

_ANSWERS: WeakKeyDictionary[object, _Answers] = WeakKeyDictionary()


@asynccontextmanager
async def telling_so_far(topics: GroupTopics, question: Hashable, look: Look) -> AsyncIterator[None]:
    """Tell as long as the block runs: when something has changed, every 30 s at most, and every 10 minutes at least.

    In a task of its own, for the same reason as :func:`~airflow_provider.worker.narrator.narrated`.

    :param question: the same for all whose ``look`` gives the same
    :param look: must not touch what belongs to the loop; None: there is nothing to tell
    """
    telling = asyncio.ensure_future(_tell(topics, question, look))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(topics: GroupTopics, question: Hashable, look: Look) -> None:
    pace = Pace()
    while True:
        # Not all at once: those that a triggerer has taken over have begun at the same moment.
        await asyncio.sleep(SAY_EVERY_S * random.uniform(1.0, 1.1))
        so_far = await _answer(topics, question, look)
        if so_far is not None and pace.is_due(so_far, time.monotonic()):
            log.info("%s", so_far.in_words(wall_ms()))


async def _answer(topics: GroupTopics, question: Hashable, look: Look) -> SoFar | None:
    answers, now = _ANSWERS.setdefault(topics, {}), time.monotonic()
    for old in [asked for asked, (at, _) in answers.items() if now - at >= _FRESH_S]:
        del answers[old]
    if question not in answers:
        jobs, status = topics.jobs, topics.status
        looking = asyncio.ensure_future(off_loop(lambda: look(jobs, status), tasks=len(status.tasks)))
        answers[question] = now, looking
    # Shielded: one who waits no more must not take the answer from the others.
    return await asyncio.shield(answers[question][1])
