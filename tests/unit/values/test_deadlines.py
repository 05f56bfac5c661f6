"""What is awaited at most for so long."""

from __future__ import annotations

import asyncio
import gc

import pytest

from airflow_provider.values.deadlines import DeadlineError, Patience, wait_at_most


async def test_the_result_comes_in_time() -> None:
    assert await wait_at_most(60, asyncio.sleep(0, "done")) == "done"


async def test_an_error_is_raised_as_it_is() -> None:
    async def fail() -> None:
        raise LookupError("no such topic")

    with pytest.raises(LookupError, match="no such topic"):
        await wait_at_most(60, fail())


async def test_work_that_takes_too_long_is_cancelled_and_has_ended() -> None:
    ended = asyncio.Event()

    async def take_long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    with pytest.raises(DeadlineError):
        await wait_at_most(0.001, take_long())
    assert ended.is_set()


async def test_work_that_is_cancelled_by_others_counts_as_cancelled() -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(answered.cancel)
    with pytest.raises(asyncio.CancelledError):
        await wait_at_most(60, answered)


@pytest.mark.parametrize("late", [False, True])
async def test_a_cancellation_at_the_very_deadline_is_not_lost(late: bool) -> None:
    """The caller would go on, and whoever has cancelled it would wait for ever."""
    loop = asyncio.get_running_loop()
    work = asyncio.Event()
    went_on = False

    async def wait_often() -> None:
        nonlocal went_on
        with pytest.raises(DeadlineError):
            await wait_at_most(0.01, work.wait())
        went_on = True

    caller = asyncio.create_task(wait_often())
    await asyncio.sleep(0)
    due = loop.time() + 0.01
    loop.call_at(due if late else due - 1e-9, caller.cancel)
    busy_until = due + 0.02
    while loop.time() < busy_until:
        pass  # both are due when the loop next looks
    await asyncio.wait([caller], timeout=60)
    assert caller.cancelled()
    assert not went_on


@pytest.mark.parametrize("ended", [False, True])
async def test_the_work_of_a_cancelled_caller_has_ended(ended: bool) -> None:
    work = asyncio.ensure_future(asyncio.Event().wait())
    caller = asyncio.create_task(wait_at_most(60, work))
    await asyncio.sleep(0)
    if ended:
        work.cancel()
    caller.cancel()
    await asyncio.wait([caller], timeout=60)
    assert caller.cancelled()
    assert work.cancelled()


async def test_an_error_at_the_moment_of_a_cancellation_is_not_logged() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))

    async def fails(callers: list[asyncio.Future[None]]) -> None:
        await asyncio.sleep(0)
        callers.pop().cancel()
        raise ValueError

    async def is_cancelled() -> bool:
        callers: list[asyncio.Future[None]] = []
        callers.append(asyncio.ensure_future(wait_at_most(60, fails(callers))))
        (outcome,) = await asyncio.gather(*callers, return_exceptions=True)
        return isinstance(outcome, asyncio.CancelledError)

    assert await is_cancelled()
    await asyncio.sleep(0)
    gc.collect()
    assert told == []


def test_patience_lasts_as_long_as_there_is_progress() -> None:
    patience = Patience(None, step_s=0.0, reached=(3, 4))
    assert not patience.lasts((3, 4))
    patience = Patience(None, step_s=60, reached=(3, 4))
    assert patience.lasts((3, 5))
    assert not patience.lasts((3, 5)), "since then there was none"


@pytest.mark.turned_clock
async def test_the_time_is_counted_anew_after_progress_only() -> None:
    steps, ends = Patience(None, step_s=60, reached=0), Patience(70, step_s=60, reached=0)
    await asyncio.sleep(65)
    assert (steps.left_s(), round(ends.left_s())) == (0, 5)
    assert (steps.lasts(1), ends.lasts(1)) == (True, False)
    assert (round(steps.left_s()), round(ends.left_s())) == (60, 5)
