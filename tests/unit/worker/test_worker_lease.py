"""Whether a task's thread may still write, as the worker's lease has it."""

from __future__ import annotations

import pytest

from airflow_provider.spark.job import FencedError
from airflow_provider.worker.lease import WorkerLease


def test_it_is_valid_until_its_end_by_the_clock() -> None:
    now = 0.0
    lease = WorkerLease(lambda: 10, lambda: now)
    lease.check(lease.grant)
    now = 10.0
    with pytest.raises(FencedError, match="is over"):
        lease.check(lease.grant)


def test_without_a_lease_nothing_may_be_written() -> None:
    lease = WorkerLease(lambda: None, lambda: 0.0)
    with pytest.raises(FencedError, match="is over"):
        lease.check(lease.grant)


def test_a_lease_that_ended_and_was_granted_again_is_another_one() -> None:
    lease = WorkerLease(lambda: 10, lambda: 0.0)
    before = lease.grant
    lease.end()
    lease.check(lease.grant)
    with pytest.raises(FencedError, match="ended while this attempt ran"):
        lease.check(before)


def test_also_one_that_does_so_while_it_is_asked() -> None:
    """The thread that asks may stand still between any two of its steps, and the membership's goes on."""

    def until() -> int:
        if lease.grant == before:
            lease.end()
        return 10

    lease = WorkerLease(until, lambda: 0.0)
    before = lease.grant
    with pytest.raises(FencedError, match="ended while this attempt ran"):
        lease.check(before)


def test_what_is_left_is_told_in_seconds() -> None:
    now = 4_000.0
    lease = WorkerLease(lambda: 10_000, lambda: now)
    assert lease.left_s(lease.grant) == 6
    now = 11_000
    assert lease.left_s(lease.grant) <= 0


def test_nothing_is_left_without_a_lease() -> None:
    lease = WorkerLease(lambda: None, lambda: 0.0)
    assert lease.left_s(lease.grant) == 0


def test_tasks_that_were_told_to_stop_before_the_end_are_nobody_else_s_when_it_is_put_off_after_all() -> None:
    """The group has not given them away. They may write nothing more, but Spark need not be ended for them."""
    until = 10_000
    lease = WorkerLease(lambda: until, lambda: 9_000.0)
    before = lease.grant
    lease.end()
    assert lease.left_s(before) == 1
    until = 20_000
    assert lease.left_s(before) == lease.left_s(lease.grant) == 11


@pytest.mark.parametrize("at_the_end", [None, 9_000], ids=["the coordinator ended it", "by the clock"])
def test_nothing_is_left_of_a_lease_after_which_there_was_none(at_the_end: int | None) -> None:
    until = at_the_end
    lease = WorkerLease(lambda: until, lambda: 9_000.0)
    before = lease.grant
    lease.end()
    until = 20_000
    assert lease.left_s(before) == 0
    assert lease.left_s(lease.grant) == 11
