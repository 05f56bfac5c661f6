"""Spark Connect's messages as bytes: what is asked of a session, and what is read of the answer.

The classes are PySpark's. Importing them takes seconds, so :func:`preload` does it once, in a thread.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.driver.query_progress import QueryProgress

_TOTALS: Final = ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")


class NoAnswerInItError(ValueError):
    """What came back does not have what was asked for."""


def preload() -> None:
    """:raises ImportError: if PySpark's client, or gRPC, is not installed"""
    import grpc.aio  # noqa: F401
    import pyspark.sql.connect.proto  # noqa: F401


@dataclass(frozen=True, slots=True)
class RunningQuery:
    query_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, in each message.

    :param user_agent: shown by the server
    """

    user_id: str
    user_agent: str

    def is_active(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, "status")

    def last_progress(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, "last_progress")

    def error(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, "exception")

    def stop(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, "stop")

    def running(self, session_id: str) -> bytes:
        """Which queries run in the session."""
        from pyspark.sql.connect.proto import ExecutePlanRequest

        request = self._of(ExecutePlanRequest, session_id)
        request.plan.command.streaming_query_manager_command.active = True
        return _as_bytes(request)

    def forget_nothing(self, session_id: str) -> bytes:
        """Has a server forget an operation that there is not. Nothing comes of it but an error, if it does not have the
        session: other requests would make it.
        """
        from pyspark.sql.connect.proto import ReleaseExecuteRequest

        request = self._of(ReleaseExecuteRequest, session_id)
        request.operation_id = str(uuid.uuid4())
        request.release_all.SetInParent()
        return _as_bytes(request)

    def interrupt_all(self, session_id: str) -> bytes:
        """Ends what is being done in the session. It is made if there is none."""
        from pyspark.sql.connect.proto import InterruptRequest

        request = self._of(InterruptRequest, session_id)
        request.interrupt_type = InterruptRequest.INTERRUPT_TYPE_ALL
        return _as_bytes(request)

    def release_session(self, session_id: str) -> bytes:
        from pyspark.sql.connect.proto import ReleaseSessionRequest

        return _as_bytes(self._of(ReleaseSessionRequest, session_id))

    def _of_query(self, session_id: str, query: RunningQuery, command: str) -> bytes:
        from pyspark.sql.connect.proto import ExecutePlanRequest

        request = self._of(ExecutePlanRequest, session_id)
        of_query = request.plan.command.streaming_query_command
        of_query.query_id.id, of_query.query_id.run_id = query.query_id, query.run_id
        setattr(of_query, command, True)
        return _as_bytes(request)

    def _of(self, kind: Any, session_id: str) -> Any:
        message = kind(session_id=session_id, client_type=self.user_agent)
        message.user_context.user_id = self.user_id
        return message


def read_is_active(answers: Iterable[bytes]) -> bool:
    result = _query_result(answers)
    if not result.HasField("status"):
        raise NoAnswerInItError("it does not say whether the query runs")
    return bool(result.status.is_active)


def read_last_progress(answers: Iterable[bytes]) -> QueryProgress | None:
    """None: it has had no batch."""
    told = _query_result(answers).recent_progress.recent_progress_json
    return QueryProgress.of(_with_totals(json.loads(told[-1]))) if told else None


def read_error(answers: Iterable[bytes]) -> str | None:
    """None: it has not failed."""
    said = _query_result(answers).exception
    if not said.HasField("exception_message") and not said.HasField("error_class"):
        return None
    return str(said.exception_message or said.error_class)


def read_running(answers: Iterable[bytes]) -> list[RunningQuery]:
    queries = _manager_result(answers).active.active_queries
    return [RunningQuery(query.id.id, query.id.run_id) for query in queries]


def _with_totals(said: dict[str, Any]) -> dict[str, Any]:
    """A server says of each source what clients are to add up."""
    totals: dict[str, float] = {}
    for source, name in itertools.product(said.get("sources") or (), _TOTALS):
        if isinstance(source.get(name), int | float):
            totals[name] = totals.get(name, 0) + source[name]
    return {**totals, **said}


def _query_result(answers: Iterable[bytes]) -> Any:
    return _result(answers, "streaming_query_command_result")


def _manager_result(answers: Iterable[bytes]) -> Any:
    return _result(answers, "streaming_query_manager_command_result")


def _result(answers: Iterable[bytes], name: str) -> Any:
    """A server may say beside it how far its work is."""
    from google.protobuf.message import DecodeError
    from pyspark.sql.connect.proto import ExecutePlanResponse

    try:
        for answer in map(ExecutePlanResponse.FromString, answers):
            if answer.HasField(name):
                return getattr(answer, name)
    except DecodeError as wrong:
        raise NoAnswerInItError(f"it cannot be read: {wrong}") from None
    raise NoAnswerInItError(f"it has no {name}")


def _as_bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString())
