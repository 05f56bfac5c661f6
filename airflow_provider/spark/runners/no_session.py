"""What a task has in place of a session if its job needs none: no Spark is started for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from airflow_provider.spark.job import TaskGuard
from airflow_provider.spark.runners.attached_tasks.sessions import Spark
from airflow_provider.spark.submit.driver_handle import DriverHandle


class NoSessionError(Exception):
    """The code of a task without a session uses what needs one: a fault of the job."""

    def __init__(self) -> None:
        super().__init__("this task has no session: its job says needs_session = False")


class NoSession:
    """No session (an :class:`~airflow_provider.spark.runners.attached_tasks.sessions.AttachedSession`). Such a task may
    leave a driver to others, which it has submitted to a cluster.
    """

    spark: Spark | None = None
    handle: Any = None
    left_open = False

    def open(self) -> Any:
        return None

    def query_id(self, value: object) -> None: ...

    def left_running(self, value: object) -> None: ...

    def await_query(self, _query: Any, _tell: Callable[[Any], None]) -> Any:
        raise NoSessionError

    def explain(self, error: BaseException) -> BaseException:
        return error

    def share(self, _name: str, _make: Callable[[], Any], _guard: TaskGuard) -> Any:
        raise NoSessionError

    def prepare_stream(self, _location: str, _guard: TaskGuard) -> Iterator[float]:
        return iter(())

    def rehearse(self, _stream: Any, _location: str, _guard: TaskGuard) -> Iterator[float]:
        return iter(())

    def await_batch(self, limit_s: float, may_go_on: Callable[[], bool]) -> None: ...

    def count(self) -> None: ...

    def count_at_the_end(self) -> None: ...

    def let_go_on(self, query: Any) -> bool:
        if not isinstance(query, DriverHandle):
            return False
        self.handle, self.left_open = query.to_json(), True
        return True

    def give_up(self) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...
