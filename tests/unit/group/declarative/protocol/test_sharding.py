"""Where a group's requests and records lie: the numbers are those of Kafka's own test (``UtilsTest.testMurmur2``)."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_provider.group.declarative.protocol.sharding import _murmur2, partition_of
from airflow_provider.values.model import LocalProtocolError

KAFKAS = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.mark.parametrize(("name", "hashed"), KAFKAS.items())
def test_the_hash_is_kafkas(name: str, hashed: int) -> None:
    assert _murmur2(name.encode()) == hashed & 0xFFFFFFFF
    assert partition_of(name, 16) == (hashed & 0x7FFFFFFF) % 16


def test_groups_spread_over_the_shards() -> None:
    counts = Counter(partition_of(f"etl-{number}", 4) for number in range(1_000))
    assert len(counts) == 4
    assert min(counts.values()) > 200


def test_a_topic_without_partitions_has_no_shards() -> None:
    with pytest.raises(LocalProtocolError, match="at least one partition, not 0"):
        partition_of("etl", 0)
