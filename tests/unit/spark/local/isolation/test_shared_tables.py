"""Reference data that tasks share, with stand-ins for what Spark has of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark import StorageLevel
from waiting import DEADLINE_S

from airflow_provider.spark.local.isolation import shared_tables
from airflow_provider.spark.local.isolation.shared_tables import SharedTables


class Data:
    """A DataFrame, and the session and the catalog of it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.sparkSession = self.catalog = self
        self.storageLevel = StorageLevel.NONE

    def persist(self) -> Data:
        self.storageLevel = StorageLevel.MEMORY_AND_DISK
        self.done.append("persist")
        return self

    def count(self) -> int:
        return 7

    def createOrReplaceGlobalTempView(self, view: str) -> None:  # noqa: N802
        self.done.append("view")

    def dropGlobalTempView(self, view: str) -> None:  # noqa: N802
        self.done.append("drop")

    def unpersist(self) -> None:
        self.done.append("unpersist")

    class conf:  # noqa: N801
        @staticmethod
        def get(name: str, default: str | None = "global_temp") -> str | None:
            return default

        @staticmethod
        def unset(name: str) -> None: ...

    def table(self, name: str) -> Any:
        return name.partition(".")[0]


def _nothing() -> None: ...


def test_a_table_is_made_once_for_all_and_dropped_when_nobody_has_used_it_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables, data = SharedTables(), Data()
    spark: Any = Data()
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return data

    for user in ("one", "two", "two"):
        table: Any = tables.get(user, spark, "job/airports", make, _nothing)
        assert table == "global_temp"
    assert made == [1]
    monkeypatch.setattr(shared_tables, "KEEP_S", 0.0)
    tables.release("one")
    assert data.done == ["persist", "view"]
    tables.release("two")
    assert data.done == ["persist", "view", "drop", "unpersist"]
    tables.get("three", spark, "job/airports", make, _nothing)
    assert made == [1, 1]


def test_a_table_that_is_dropped_late_leaves_the_next_one_of_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tables, "KEEP_S", 0.0)
    tables, views = SharedTables(), set[str]()
    spark: Any = Data()

    class Viewed(Data):
        def createOrReplaceGlobalTempView(self, view: str) -> None:  # noqa: N802
            views.add(view)

        def dropGlobalTempView(self, view: str) -> None:  # noqa: N802
            views.remove(view)

    class Late(Viewed):
        def dropGlobalTempView(self, view: str) -> None:  # noqa: N802
            tables.get("two", spark, "airports", new, _nothing)
            super().dropGlobalTempView(view)

    new: Any = Viewed
    old: Any = Late
    tables.get("one", spark, "airports", old, _nothing)
    (before,) = views
    tables.release("one")
    (after,) = views
    assert after != before


def test_who_fails_to_make_a_table_leaves_it_to_the_next_and_who_is_to_stop_does_not_wait() -> None:
    tables, began, go_on = SharedTables(), threading.Event(), threading.Event()
    spark: Any = Data()
    good: Any = Data

    def fail() -> Any:
        began.set()
        go_on.wait(DEADLINE_S)
        raise ValueError("no airports")

    def first() -> None:
        with pytest.raises(ValueError, match="no airports"):
            tables.get("one", spark, "airports", fail, _nothing)

    making = threading.Thread(target=first)
    making.start()
    assert began.wait(DEADLINE_S)

    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        tables.get("two", spark, "airports", good, stop)
    go_on.set()
    table: Any = tables.get("three", spark, "airports", good, _nothing)
    assert table == "global_temp"
    making.join(DEADLINE_S)
