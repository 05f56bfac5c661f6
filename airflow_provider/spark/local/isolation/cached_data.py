"""Which task has cached which data, so that it ends with the task.

The sessions of an application share what is cached, and Spark does not say who has cached it. But it keeps a copy of
the session that did, with its settings; so the session of a task has a setting that names the task.
"""
# ruff: noqa: SLF001 - PySpark has no public way

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_OWNER: Final = "cospark.cached.by"


def own_what_is_cached(session: SparkSession, owner: str) -> None:
    """What is cached in this session from now on belongs to ``owner``."""
    session.conf.set(_OWNER, owner)


def owner_of(session: SparkSession) -> str | None:
    """Who owns what is cached in this session; None: no task."""
    return session.conf.get(_OWNER, None)


def persist_for_all(data: DataFrame) -> DataFrame:
    """Cache data that does not end with the task that caches it."""
    conf = data.sparkSession.conf
    owner = conf.get(_OWNER, None)
    conf.unset(_OWNER)
    try:
        return data.persist()
    finally:
        if owner is not None:
            conf.set(_OWNER, owner)


def drop_what_was_cached(session: SparkSession, owner: str) -> None:
    """Drop what ``owner`` has cached. Data of others that was made from it stays cached."""
    try:
        manager = session._jsparkSession.sharedState().cacheManager()
        for entry in _entries(manager):
            if _owner_of(entry) == owner:
                manager.uncacheQuery(session._jsparkSession, entry.plan(), False)
    except Exception:  # the task has ended, whatever Spark's private parts look like
        log.warning("Can't drop the data that a task has cached; it stays until Spark ends", exc_info=True)


def _entries(manager: Any) -> Iterator[Any]:
    for field in manager.getClass().getDeclaredFields():
        if field.getName().endswith("cachedData"):
            field.setAccessible(True)
            entries = field.get(manager)
            yield from [entries.apply(index) for index in range(entries.size())]


def _owner_of(entry: Any) -> str | None:
    settings = entry.cachedRepresentation().cacheBuilder().cachedPlan().session().conf()
    owner: str | None = settings.get(_OWNER, None)
    return owner
