"""A stopped task is released when the record of that is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from executor_bench import bench

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.hands.releases import Releases

A0, A1, A2 = (TaskId("a", index) for index in range(3))


class Bench:
    """What is released, and what is to be called when."""

    def __init__(self) -> None:
        self.released: list[Tasks] = []
        self.soon: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []
        self.releases = Releases(
            self.released.append, soon=self.soon.append, later=lambda _ms, call: self.later.append(call)
        )

    def turn(self) -> None:
        while self.soon:
            self.soon.pop(0)()


def test_what_has_nothing_to_write_is_released_at_once() -> None:
    bench = Bench()
    bench.releases.release(frozenset({A0}))
    assert bench.released == [{A0}]
    assert not bench.releases


def test_what_is_stored_together_is_released_together() -> None:
    bench = Bench()
    written = [bench.releases.writing(task) for task in (A0, A1, A2)]
    bench.releases.release(frozenset({A0, A1, A2}))
    bench.turn()
    assert bench.released == []
    assert bench.releases
    for stored in written[:2]:
        stored()
    bench.turn()
    assert bench.released == [{A0, A1}]
    written[2]()
    bench.turn()
    assert bench.released == [{A0, A1}, {A2}]
    assert not bench.releases


def test_it_waits_for_the_last_record() -> None:
    bench = Bench()
    first, last = bench.releases.writing(A0), bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    first()
    bench.turn()
    assert bench.released == []
    last()
    bench.turn()
    assert bench.released == [{A0}]


def test_a_record_that_is_not_stored_is_not_waited_for_for_long_and_releases_nothing_twice() -> None:
    bench = Bench()
    written = bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    for give_up in bench.later:
        give_up()
    written()
    bench.turn()
    assert bench.released == [{A0}]


def test_what_waits_and_was_given_again_is_not_released() -> None:
    bench = Bench()
    written = bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    bench.releases.forget(frozenset({A0, A1}))
    written()
    bench.turn()
    assert bench.released == []


def test_an_earlier_release_of_a_task_does_not_shorten_the_wait_of_a_later_one() -> None:
    bench = Bench()
    bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    bench.releases.forget(frozenset({A0}))
    bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    bench.later[0]()
    assert bench.released == []
    bench.later[1]()
    assert bench.released == [{A0}]


def test_when_a_lease_is_over_nothing_is_waited_for() -> None:
    bench = Bench()
    bench.releases.writing(A0)
    bench.releases.writing(A1)
    bench.releases.release(frozenset({A0}))
    bench.releases.wait_for_no_record(frozenset({A0, A1, A2}))
    bench.releases.release(frozenset({A1}))
    bench.releases.writing(A2)
    bench.releases.release(frozenset({A2}))
    assert bench.released == [{A0}, {A1}, {A2}]


def test_what_is_given_again_waits_for_its_records_again() -> None:
    bench = Bench()
    bench.releases.wait_for_no_record(frozenset({A0}))
    bench.releases.forget(frozenset({A0}))
    bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    assert bench.released == []


def test_what_is_released_just_as_its_record_is_stored_is_released_once() -> None:
    bench = Bench()
    written = bench.releases.writing(A0)
    bench.releases.release(frozenset({A0}))
    written()
    bench.releases.release(frozenset({A0}))
    bench.turn()
    assert bench.released == [{A0}]


# ---- in a worker's hands


@pytest.mark.turned_clock
async def test_a_revoked_task_is_released_when_the_topic_says_that_it_has_stopped() -> None:
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        worker.topics.takes_s = 2.0
        worker.stop(A0)
        await worker.releases(A0, into=worker.stopped)
        assert worker.state(A0) is TaskState.STOPPED


@pytest.mark.turned_clock
@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason.ends_lease])
async def test_a_worker_that_has_lost_its_lease_or_leaves_waits_for_no_record(reason: StopReason) -> None:
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        worker.topics.takes_s = 2.0
        worker.executor.stop(frozenset({A0}), reason.value)
        await worker.releases(A0, into=worker.stopped)
        assert worker.state(A0) is TaskState.RUNNING


@pytest.mark.turned_clock
async def test_a_topic_that_cannot_be_written_holds_nobody_up_for_long() -> None:
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        worker.topics.takes_s = 100.0
        worker.stop(A0)
        await worker.releases(A0, into=worker.stopped)
        assert worker.state(A0) is TaskState.RUNNING
        worker.topics.takes_s = 0.0
