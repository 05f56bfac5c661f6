"""A stand-in for a task's session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from airflow_provider.spark.job import TaskGuard
from airflow_provider.spark.local.streaming.query_progress import QueryProgress


class Query:
    """Stands for a started StreamingQuery."""


class FakeSession:
    """A session without Spark; says whether it was opened and closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.forgotten: str | None = None

    def open(self) -> Any:
        self.opened += 1
        return "the session"

    def query_id(self, value: object) -> str | None:
        return "query-1" if isinstance(value, Query) else None

    def left_running(self, value: object) -> str | None:
        return "it returned a query" if isinstance(value, Query) else self.forgotten

    def await_query(self, query: Query, tell: Callable[[QueryProgress], None]) -> dict[str, int]:
        tell(QueryProgress(batch=9, rows_per_second=2.5))
        return {"last_batch": 9}

    def explain(self, error: BaseException) -> BaseException:
        return error

    def share(self, name: str, make: Callable[[], Any], guard: TaskGuard) -> Any:
        return make()

    def prepare_stream(self, location: str, guard: TaskGuard) -> Iterator[float]:
        return iter(())

    def rehearse(self, stream: object, location: str, guard: TaskGuard) -> Iterator[float]:
        return iter((0.5, 1.0))

    def cancel(self) -> None: ...

    handle: Any = None
    left_open = False

    def give_up(self) -> None: ...

    def let_go_on(self, query: Any) -> bool:
        return False

    def close(self) -> None:
        self.closed += 1
