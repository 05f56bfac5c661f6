"""A value that is polled in the background."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider.group.live.polled import Polled
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

    polled, seen = Polled(ask), []
    assert not polled.answer
    with polled.polling():
        for wait_s in (1, 5, 5):
            await asyncio.sleep(wait_s)
            seen.append(polled.answer)
    await asyncio.sleep(60)
    assert (seen, asked) == ([True, False, True], 3), "afterwards nobody asks"
