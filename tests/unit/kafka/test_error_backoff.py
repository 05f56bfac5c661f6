"""How long it rests before something is tried again."""

from __future__ import annotations

from airflow_provider.kafka.error_backoff import Resting


def test_it_rests_twice_as_long_each_time_and_not_for_ever() -> None:
    resting = Resting(1.0, lambda: 0)
    assert [resting.fault() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_after_a_good_minute_it_rests_as_at_first() -> None:
    now = 0
    resting = Resting(1.0, lambda: now)
    rests = []
    for ran_ms in (0, 60_000, 60_001, 0):
        resting.begin()
        now += ran_ms
        rests.append(resting.fault())
    assert rests == [1, 2, 1, 2]


def test_what_is_said_to_be_well_is_so_immediately() -> None:
    resting = Resting(1.0, lambda: 0)
    assert [resting.fault(), resting.fault()] == [1, 2]
    resting.is_well()
    assert [resting.fault(), resting.fault()] == [1, 2]


def test_no_pause_is_longer_than_can_be_borne() -> None:
    resting = Resting(1.0, lambda: 0)
    assert [resting.fault(1.5) for _ in range(4)] == [1, 1.5, 1.5, 1.5]


def test_a_pause_that_was_cut_short_does_not_shorten_the_next_one() -> None:
    resting = Resting(1.0, lambda: 0)
    assert [resting.fault(), resting.fault(), resting.fault(1.5), resting.fault()] == [1, 2, 1.5, 8]
