"""How often a query is rehearsed, and what of its checkpoint is copied for that."""

from __future__ import annotations

import pytest

from airflow_provider.driver.checkpoint_copy import before
from airflow_provider.driver.rehearsal import FEWEST, MOST, is_settled


@pytest.mark.parametrize(
    ("times", "settled"),
    [
        ([], False),
        ([9.0] * (FEWEST - 1), False),
        ([9.0] * FEWEST, True),
        ([9.0, 7.0, 5.0, 4.0, 3.0], False),
        ([9.0, 7.0, 5.0, 4.0, 3.0, 2.9], True),
        ([3.0, 2.0, 2.0, 2.0, 4.0], True),
        ([0.5**n for n in range(MOST - 1)], False),
        ([0.5**n for n in range(MOST)], True),
    ],
)
def test_a_query_is_rehearsed_until_it_starts_no_faster(times: list[float], settled: bool) -> None:
    assert is_settled(times) is settled
    assert not settled or FEWEST <= len(times) <= MOST


def test_a_copy_stands_before_the_last_batch() -> None:
    logs = [f"{folder}/{batch}" for folder in ("offsets", "commits") for batch in range(9, 13)] + ["offsets/13"]
    state = [f"state/0/1/{version}.delta" for version in range(9, 14)] + [
        f"state/0/1/{version}.snapshot" for version in (8, 10, 13)
    ]
    copied = before(12, [*logs, *state])
    assert copied == [
        "commits/11",
        "offsets/11",
        "offsets/12",
        "state/0/1/10.snapshot",
        "state/0/1/11.delta",
        "state/0/1/12.delta",
    ]


def test_the_first_batch_needs_no_state() -> None:
    paths = ["commits/0", "offsets/0", "offsets/1", "state/0/0/1.delta", "state/0/_metadata/schema", "metadata"]
    assert before(0, paths) == ["metadata", "offsets/0", "state/0/_metadata/schema"]


def test_a_copy_has_what_is_of_no_version_and_what_a_source_has_seen() -> None:
    rocks = ["state/0/0/7_a-b.zip", "state/0/0/8_a-c.changelog", "state/0/0/9_a-d.zip", "state/0/0/SSTs/000012-a.sst"]
    seen = ["sources/0/8", "sources/0/9.compact", "sources/0/10", "sources/0/11", "sources/1/0"]
    hidden = ["offsets/.8.crc", "state/0/0/.8.changelog.crc", "sources/0/.10.crc"]
    assert before(8, [*rocks, *seen, *hidden, "offsets/7", "offsets/8"]) == [
        "offsets/7",
        "offsets/8",
        "sources/0/10",
        "sources/0/11",
        "sources/0/9.compact",
        "sources/1/0",
        "state/0/0/7_a-b.zip",
        "state/0/0/8_a-c.changelog",
        "state/0/0/SSTs/000012-a.sst",
    ]
