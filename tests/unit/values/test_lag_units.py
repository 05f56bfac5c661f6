"""How much a stream has still to read, in the units of its sources."""

from __future__ import annotations

import pytest

from airflow_provider.values.lag import NOTHING_SAID, Lag


def test_the_lag_of_a_stream_is_that_of_all_its_sources_each_in_its_unit() -> None:
    kafka, table, silent = Lag(offsets=50, bytes=900), Lag(files=3, bytes=100), Lag(silent=1)
    lag = Lag.of_all([kafka, kafka, table, silent])
    assert lag == Lag(offsets=100, files=3, bytes=1_900, silent=1)
    assert (lag.waits, lag.whole) == (True, False)
    assert Lag.of_all([kafka, table]).whole
    assert Lag.of_all([]) == NOTHING_SAID


def test_no_sum_is_too_large_for_a_record() -> None:
    assert Lag.of_all([Lag(offsets=2**53 - 1)] * 2).offsets == 2**53 - 1


@pytest.mark.parametrize(
    ("lag", "words"),
    [
        (Lag(offsets=3_338), "3,338 offsets behind"),
        (Lag(offsets=0, files=1, bytes=2_000), "1 file, 2,000 bytes behind"),
        (Lag(offsets=0), "not behind"),
        (Lag(silent=1), ""),
        (NOTHING_SAID, ""),
    ],
)
def test_in_words(lag: Lag, words: str) -> None:
    assert lag.in_words() == words
