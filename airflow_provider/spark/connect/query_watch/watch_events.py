"""The events that a watch of queries on a server reports."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress


@dataclass(frozen=True, slots=True)
class QueryProgressed:
    """The query's progress, or that it moves. Reported at intervals, not with each batch."""

    handle: QueryHandle
    progress: QueryProgress | QueryMoves


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """The query has ended, and is no longer watched.

    :param error: why it failed; None: it had nothing more to do, or it was stopped by somebody other than a worker
    :param last_batch: the number of its last batch; None: unknown, or there was none
    """

    handle: QueryHandle
    error: str | None
    last_batch: int | None


@dataclass(frozen=True, slots=True)
class QueryStopped:
    """A worker has stopped the query, and may have been killed before it closed the session. The query is no longer
    watched.
    """

    handle: QueryHandle


@dataclass(frozen=True, slots=True)
class QueryLost:
    """The server answers and does not have the query: it was restarted, or it has closed the session. The query is no
    longer watched.
    """

    handle: QueryHandle
    why: str


@dataclass(frozen=True, slots=True)
class ServerSilent:
    """No call about a query was answered for a while. The queries may still be running, and stay watched.

    :param lacks: whether this is due to this process, which does not know the server, or which it refuses
    """

    why: str
    lacks: bool = False


@dataclass(frozen=True, slots=True)
class ServerBack:
    """The server answers again. For each query that it no longer has, a :class:`QueryLost` follows."""


QueryEvent = QueryProgressed | QueryEnded | QueryStopped | QueryLost
WatchEvent = QueryEvent | ServerSilent | ServerBack
