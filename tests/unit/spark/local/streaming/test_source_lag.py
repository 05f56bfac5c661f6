"""How far each kind of source is behind, as Spark's progress says it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider.spark.local.streaming.source_lag import lag_of, most_offsets
from airflow_provider.values.lag import Lag

KAFKA: dict[str, Any] = {
    "description": "KafkaV2[Subscribe[orders]]",
    "startOffset": {"orders": {"0": 1, "1": 1}},
    "endOffset": {"orders": {"0": 10, "1": 20}},
    "latestOffset": {"orders": {"0": 52, "1": 35}},
    "metrics": {"minOffsetsBehindLatest": "15", "maxOffsetsBehindLatest": "42", "avgOffsetsBehindLatest": "28.5"},
}
FILES: dict[str, Any] = {
    "description": "FileStreamSource[file:/in]",
    "endOffset": {"logOffset": 7},
    "latestOffset": None,
    "metrics": {},
}


def delta(**offset: Any) -> dict[str, Any]:
    return {"sourceVersion": 1, "reservoirId": "r", "reservoirVersion": 7, "index": -1, **offset}


def test_kafkas_offsets_are_counted_over_all_partitions() -> None:
    assert lag_of([KAFKA]) == Lag(offsets=57)
    assert most_offsets([KAFKA]) == 42
    assert lag_of([KAFKA, KAFKA, FILES]) == Lag(offsets=114, silent=1)


def test_what_is_read_further_than_the_source_knew_of_is_not_behind() -> None:
    """Kafka's latest offsets were asked for before the batch was read. A topic may have been deleted, too."""
    read = {"orders": {"0": 60, "1": 35}, "gone": {"0": 9}}
    assert lag_of([{**KAFKA, "endOffset": read}]) == Lag(offsets=0)
    behind = {"metrics": {"maxOffsetsBehindLatest": "-3"}}
    assert (lag_of([behind]), most_offsets([behind])) == (Lag(offsets=0), 0)


def test_offsets_may_be_text() -> None:
    as_text = {name: json.dumps(said) for name, said in KAFKA.items() if name.endswith("Offset")}
    assert lag_of([{**KAFKA, **as_text}]) == Lag(offsets=57)
    assert lag_of([{**FILES, "endOffset": '{"logOffset": 7}', "latestOffset": "null"}]) == Lag(silent=1)


def test_where_offsets_can_not_be_read_the_slowest_partition_is_the_least() -> None:
    new_partition = {**KAFKA, "latestOffset": {"orders": {"0": 52, "1": 35, "2": 9}}}
    for said in ({"metrics": KAFKA["metrics"]}, {**KAFKA, "endOffset": "soon"}, new_partition):
        assert lag_of([said]) == Lag(offsets=42, silent=1)


def test_tables_and_folders_that_say_how_many_files_they_have() -> None:
    """As Delta and the Auto Loader of Databricks do."""
    outstanding = {"numFilesOutstanding": "1287", "numBytesOutstanding": "5388009472"}
    said = {"endOffset": delta(), "latestOffset": None, "metrics": outstanding}
    assert lag_of([said]) == Lag(files=1_287, bytes=5_388_009_472)


def test_the_bytes_that_a_kafka_source_estimates() -> None:
    said = {**KAFKA, "metrics": {**KAFKA["metrics"], "estimatedTotalBytesBehindLatest": "1200.5"}}
    assert lag_of([said]) == Lag(offsets=57, bytes=1_200)
    said["metrics"]["estimatedTotalBytesBehindLatest"] = None
    assert lag_of([said]) == Lag(offsets=57)


@pytest.mark.parametrize(("latest", "versions"), [({"reservoirVersion": 10}, 3), ({"index": 4}, 1), ({}, 0)])
def test_versions_of_a_table(latest: dict[str, Any], versions: int) -> None:
    assert lag_of([{"endOffset": delta(), "latestOffset": delta(**latest)}]) == Lag(versions=versions)


def test_any_source_that_was_read_to_its_end_is_not_behind() -> None:
    assert lag_of([{"endOffset": "12", "latestOffset": "12"}]) == Lag(offsets=0)
    assert lag_of([{"endOffset": "12", "latestOffset": "15"}]) == Lag(silent=1), "whatever these mean"


@pytest.mark.parametrize(
    "said",
    [
        FILES,
        {},
        {"metrics": None},
        {"metrics": {"maxOffsetsBehindLatest": "soon", "numFilesOutstanding": "inf"}},
        {"endOffset": [1], "latestOffset": {"a": [2]}},
        {"endOffset": {"a": {"0": "x"}}, "latestOffset": {"a": {"0": "y"}}},
    ],
)
def test_nothing_is_made_up_of_a_source_that_does_not_say_it(said: dict[str, Any]) -> None:
    assert lag_of([said]) == Lag(silent=1)
    assert most_offsets([said]) is None
