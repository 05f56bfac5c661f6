"""A question that is asked again and again."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider.group.kept_asked import KeptAsked
from airflow_provider.kafka.errors import Fault, TransportError


@pytest.mark.turned_clock
async def test_the_last_answer_counts_and_who_does_not_answer_has_said_nothing() -> None:
    answers: list[bool | Exception] = [True, TransportError("nobody answers", fault=Fault.CONNECTION), True]
    asked = 0

    async def ask() -> bool:
        nonlocal asked
        asked += 1
        answer = answers[asked - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    kept, seen = KeptAsked(ask), []
    assert not kept.is_so
    with kept.going_on():
        for wait_s in (1, 5, 5):
            await asyncio.sleep(wait_s)
            seen.append(kept.is_so)
    await asyncio.sleep(60)
    assert (seen, asked) == ([True, False, True], 3), "afterwards nobody asks"
