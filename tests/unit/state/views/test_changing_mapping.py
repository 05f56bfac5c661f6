"""Snapshots of a mapping: each is as the mapping was, and they share what has not changed."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.views.changing_mapping import ChangingMapping

KEYS = st.integers(min_value=0, max_value=200)


@given(st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=400), st.integers(min_value=1, max_value=50))
def test_each_snapshot_stays_as_the_mapping_was(changes: list[tuple[int, int | None]], each: int) -> None:
    mapping: ChangingMapping[int, int] = ChangingMapping()
    present: dict[int, int] = {}
    kept = []
    for number, (key, value) in enumerate(changes):
        mapping.put(key, value)
        if value is None:
            present.pop(key, None)
        else:
            present[key] = value
        assert mapping.get(key) == value
        if number % each == 0:
            kept.append((mapping.snapshot(), dict(present)))
    for snapshot, was in kept:
        found = {key: snapshot[key] for key in range(201) if key in snapshot}
        assert found == {key: snapshot.get(key) for key in was} == was, "looked up one by one"
        assert snapshot == was
        assert (len(snapshot), {*snapshot}, {*snapshot.items()}) == (len(was), {*was}, {*was.items()})
        assert sorted(snapshot.values()) == sorted(was.values())
        assert {key: snapshot.get(key) for key in range(201) if key in snapshot} == was, "after a look at all of it"


def test_what_is_not_there_has_no_value() -> None:
    mapping: ChangingMapping[str, int] = ChangingMapping()
    mapping.put("a", 1)
    before = mapping.snapshot()
    mapping.put("a", None)
    snapshot = mapping.snapshot()
    assert "a" in before
    assert "a" not in snapshot
    assert (snapshot.get("a"), snapshot.get("a", 7), snapshot.get("b")) == (None, 7, None)
    assert not snapshot
    assert repr(before) == "MappingSnapshot({'a': 1})"


def test_few_of_many_entries_are_copied_for_a_snapshot() -> None:
    mapping: ChangingMapping[int, int] = ChangingMapping()
    for key in range(20_000):
        mapping.put(key, 0)
    kept = []
    tracemalloc.start()
    try:
        for key in range(1_200):
            mapping.put(key, 1)
            kept.append(mapping.snapshot())
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert [snapshot[0] for snapshot in kept] == [1] * 1_200
    assert taken / 1_200 < 30_000, "bytes: a copy of all entries takes twenty times as many"
