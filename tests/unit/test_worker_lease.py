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
        lease.end()
        return 10

    lease = WorkerLease(until, lambda: 0.0)
    with pytest.raises(FencedError, match="ended while this attempt ran"):
        lease.check(lease.grant)
