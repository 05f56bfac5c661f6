"""Reference data that several tasks of a process read: made once, cached by Spark, and visible in each task's session.

The sessions of an application share cached data and global temporary views, and little else. So the data that one task
has made becomes such a view, in which the others find it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.local.isolation.cached_data import persist_for_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

KEEP_S: Final = 600.0
"""How long an unused table is kept for the next task."""
_LOOK_S: Final = 0.2
_DATABASE: Final = "spark.sql.globalTempDatabase"


@dataclass(slots=True, eq=False)
class _Table:
    view: str
    users: set[object] = field(default_factory=set)
    settled: threading.Event = field(default_factory=threading.Event)
    data: DataFrame | None = None
    unused_since: float = 0.0


class SharedTables:
    """The shared tables of one Spark application. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, _Table] = {}
        self._numbers = itertools.count()

    def get(
        self, user: object, spark: SparkSession, name: str, make: Callable[[], DataFrame], waits: Callable[[], None]
    ) -> DataFrame:
        """The table, in the session ``spark``. The first task that asks makes it; the others wait.

        :param user: who needs it, until :meth:`release`
        :param waits: called repeatedly while this waits; if it raises, the wait ends
        :raises Exception: what ``make`` or ``waits`` raises
        """
        while True:
            table, mine = self._table(user, name)
            if mine:
                self._make(table, name, make)
            while not table.settled.wait(_LOOK_S):
                waits()
            if table.data is not None:
                _cache_again(table.data, name)
                return spark.table(f"{spark.conf.get(_DATABASE)}.{table.view}")

    def release(self, user: object) -> None:
        """``user`` needs no table any more. Tables that nobody has needed for :data:`KEEP_S` are dropped."""
        with self._lock:
            now = time.monotonic()
            for table in self._tables.values():
                if user in table.users:
                    table.users.remove(user)
                    table.unused_since = now
            outdated = [
                name
                for name, table in self._tables.items()
                if not table.users and table.settled.is_set() and now >= table.unused_since + KEEP_S
            ]
            dropped = [self._tables.pop(name) for name in outdated]
        for table in dropped:
            _drop(table)

    def _table(self, user: object, name: str) -> tuple[_Table, bool]:
        """The table, and whether the caller has to make it."""
        with self._lock:
            table = self._tables.get(name)
            mine = table is None
            if table is None:
                digest = hashlib.sha256(name.encode()).hexdigest()[:32]
                # Not the view of a former table of this name, which may be about to be dropped.
                table = self._tables[name] = _Table(f"cospark_{digest}_{next(self._numbers)}")
            table.users.add(user)
            return table, mine

    def _make(self, table: _Table, name: str, make: Callable[[], DataFrame]) -> None:
        began = time.monotonic()
        try:
            data = persist_for_all(make())
            rows = data.count()
            data.createOrReplaceGlobalTempView(table.view)
        except BaseException:
            with self._lock:
                del self._tables[name]
            table.settled.set()
            raise
        table.data = data
        table.settled.set()
        log.info("The table %s has %d rows, and was cached in %.1f s", name, rows, time.monotonic() - began)


def _cache_again(data: DataFrame, name: str) -> None:
    """Cache the table if a task has thrown it out: ``clearCache()`` of one session clears those of all others."""
    level = data.storageLevel
    if not (level.useMemory or level.useDisk):
        persist_for_all(data).count()
        log.info("The table %s is cached again: a task had cleared the cache, which all tasks share", name)


def _drop(table: _Table) -> None:
    data = table.data
    assert data is not None
    with contextlib.suppress(Exception):  # Spark may have ended, and its tables with it
        data.sparkSession.catalog.dropGlobalTempView(table.view)
        data.unpersist()
