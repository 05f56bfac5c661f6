"""Versions of a mapping: each is as the mapping was, and they share what has not changed."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.values.versions import Versions

KEYS = st.integers(min_value=0, max_value=200)


@given(st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=400), st.integers(min_value=1, max_value=50))
def test_each_version_stays_as_the_mapping_was(changes: list[tuple[int, int | None]], each: int) -> None:
    versions: Versions[int, int] = Versions()
    present: dict[int, int] = {}
    kept = []
    for number, (key, value) in enumerate(changes):
        versions.put(key, value)
        if value is None:
            present.pop(key, None)
        else:
            present[key] = value
        assert versions.get(key) == value
        if number % each == 0:
            kept.append((versions.now(), dict(present)))
    for version, was in kept:
        found = {key: version[key] for key in range(201) if key in version}
        assert found == {key: version.get(key) for key in was} == was, "looked up one by one"
        assert version == was
        assert (len(version), {*version}, {*version.items()}) == (len(was), {*was}, {*was.items()})
        assert sorted(version.values()) == sorted(was.values())
        assert {key: version.get(key) for key in range(201) if key in version} == was, "after a look at all of it"


def test_what_is_not_there_has_no_value() -> None:
    versions: Versions[str, int] = Versions()
    versions.put("a", 1)
    before = versions.now()
    versions.put("a", None)
    version = versions.now()
    assert "a" in before
    assert "a" not in version
    assert (version.get("a"), version.get("a", 7), version.get("b")) == (None, 7, None)
    assert not version
    assert repr(before) == "Version({'a': 1})"


def test_few_of_many_entries_are_copied_for_a_version() -> None:
    versions: Versions[int, int] = Versions()
    for key in range(20_000):
        versions.put(key, 0)
    kept = []
    tracemalloc.start()
    try:
        for key in range(1_200):
            versions.put(key, 1)
            kept.append(versions.now())
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert [version[0] for version in kept] == [1] * 1_200
    assert taken / 1_200 < 30_000, "bytes: a copy of all entries takes twenty times as many"
