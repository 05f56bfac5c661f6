"""What who watches queries on a server is told."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.driver.query_progress import QueryProgress
from airflow_provider.spark_connect.handle import QueryHandle


@dataclass(frozen=True, slots=True)
class QueryTold:
    """How far it is. Told now and then, not with each batch."""

    handle: QueryHandle
    progress: QueryProgress


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """It runs no more, and is not watched any more.

    :param error: why it failed; None: it had nothing more to do, or somebody else than a worker has stopped it
    :param last_batch: the number of its last batch; None: not known, or there was none
    """

    handle: QueryHandle
    error: str | None
    last_batch: int | None


@dataclass(frozen=True, slots=True)
class QueryStopped:
    """A worker has ended it, and may have been killed before it closed its session. It is not watched any more."""

    handle: QueryHandle


@dataclass(frozen=True, slots=True)
class QueryLost:
    """The server is there and does not have it: it was restarted, or has closed its session. It is not watched
    any more.
    """

    handle: QueryHandle
    why: str


@dataclass(frozen=True, slots=True)
class ServerSilent:
    """It has said nothing of use for a while, to none of the queries. They may run on; each is still watched."""

    why: str


@dataclass(frozen=True, slots=True)
class ServerBack:
    """It answers again. Those queries that it does not have any more are told one by one."""


OfQuery = QueryTold | QueryEnded | QueryStopped | QueryLost
QueryNews = OfQuery | ServerSilent | ServerBack
