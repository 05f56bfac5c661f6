"""The requests to a Spark Connect server as bytes, and its responses, compared with PySpark's own classes."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pyspark.sql.connect.proto as proto
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.proto import (
    ExecutePlanRequest,
    ExecutePlanResponse,
    InterruptRequest,
    InterruptResponse,
    ReleaseExecuteRequest,
    ReleaseExecuteResponse,
    ReleaseSessionRequest,
    StreamingQueryCommandResult,
    StreamingQueryInstanceId,
)

from airflow_provider.spark.connect.grpc_calls.messages import (
    Caller,
    NoAnswerInItError,
    QueryStatus,
    RunningQuery,
    read_error,
    read_has_operation,
    read_interrupted,
    read_last_progress,
    read_running,
    read_status,
)
from airflow_provider.spark.connect.grpc_calls.protobuf import Message, NotAMessageError, message, number, text
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.values.lag import Lag

CALLER = Caller(user_id="Jürgen", user_agent="cospark/" + "w" * 200)
SESSION = "6b1ffd2c-2a8c-4ae0-a6e8-4ff0f5f6c2b0"
QUERY = RunningQuery("the-query", "the-run")


def theirs(kind: Any, **fields: Any) -> Any:
    """The request as PySpark's classes read it."""
    request = kind(session_id=SESSION, client_type=CALLER.user_agent, **fields)
    request.user_context.user_id = CALLER.user_id
    return request


@pytest.mark.parametrize(
    ("ask", "command"),
    [
        (CALLER.status, "status"),
        (CALLER.last_progress, "last_progress"),
        (CALLER.error, "exception"),
        (CALLER.stop, "stop"),
    ],
)
def test_a_request_about_a_query_is_that_of_pyspark(ask: Any, command: str) -> None:
    request = theirs(ExecutePlanRequest)
    asked = request.plan.command.streaming_query_command
    asked.query_id.id, asked.query_id.run_id = QUERY.query_id, QUERY.run_id
    setattr(asked, command, True)
    assert ExecutePlanRequest.FromString(ask(SESSION, QUERY)) == request


def test_a_request_about_a_session_is_that_of_pyspark() -> None:
    request = theirs(ExecutePlanRequest)
    request.plan.command.streaming_query_manager_command.active = True
    assert ExecutePlanRequest.FromString(CALLER.running(SESSION)) == request
    everything = theirs(InterruptRequest, interrupt_type=InterruptRequest.INTERRUPT_TYPE_ALL)
    assert InterruptRequest.FromString(CALLER.interrupt_all(SESSION)) == everything
    assert ReleaseSessionRequest.FromString(CALLER.release_session(SESSION)) == theirs(ReleaseSessionRequest)
    forgotten = ReleaseExecuteRequest.FromString(CALLER.forget_nothing(SESSION))
    nothing = theirs(ReleaseExecuteRequest, operation_id=forgotten.operation_id)
    nothing.release_all.SetInParent()
    assert forgotten == nothing
    assert len(forgotten.operation_id) == len(SESSION)
    of_one = ReleaseExecuteRequest.FromString(CALLER.forget_nothing_of(SESSION, "an operation"))
    until = ReleaseExecuteRequest.ReleaseUntil(response_id=of_one.release_until.response_id)
    assert of_one == theirs(ReleaseExecuteRequest, operation_id="an operation", release_until=until)


@pytest.mark.skipif(not hasattr(proto, "GetStatusRequest"), reason="Spark says what it executes since 4.2")
def test_the_request_for_all_operations_is_that_of_pyspark() -> None:
    request = theirs(proto.GetStatusRequest)
    request.operation_status.SetInParent()
    assert proto.GetStatusRequest.FromString(CALLER.operations(SESSION)) == request


def test_the_interrupted_operations_are_read() -> None:
    said = InterruptResponse(session_id=SESSION, interrupted_ids=["a", "b"])
    assert read_interrupted(said.SerializeToString()) == {"a", "b"}
    assert read_interrupted(InterruptResponse(session_id=SESSION).SerializeToString()) == frozenset()


@pytest.mark.parametrize(("said", "there"), [("an operation", True), (None, False)])
def test_it_is_read_whether_a_server_has_an_operation(said: str | None, there: bool) -> None:
    assert (
        read_has_operation(ReleaseExecuteResponse(session_id=SESSION, operation_id=said).SerializeToString()) is there
    )


def answered(**result: Any) -> list[bytes]:
    """A result, as a server sends it after responses about its progress."""
    beside = ExecutePlanResponse(session_id=SESSION, execution_progress=ExecutePlanResponse.ExecutionProgress())
    answer = ExecutePlanResponse(streaming_query_command_result=StreamingQueryCommandResult(**result))
    answer.streaming_query_command_result.query_id.id = QUERY.query_id
    return [beside.SerializeToString(), answer.SerializeToString()]


@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("active", [True, False])
def test_it_is_read_whether_a_query_runs_and_whether_it_is_in_a_batch(active: bool, in_batch: bool) -> None:
    said = StreamingQueryCommandResult.StatusResult(
        status_message="Waiting", is_active=active, is_data_available=True, is_trigger_active=in_batch
    )
    assert read_status(answered(status=said)) == QueryStatus(is_active=active, in_batch=in_batch)


def test_a_query_that_still_begins_is_taken_for_one_in_its_first_batch() -> None:
    said = StreamingQueryCommandResult.StatusResult(status_message="Initializing sources", is_active=True)
    assert read_status(answered(status=said)) == QueryStatus(is_active=True, in_batch=True)


def test_the_error_of_a_query_is_read() -> None:
    said = StreamingQueryCommandResult.ExceptionResult
    assert read_error(answered(exception=said(exception_message="zu viele Zeilen €", error_class="X"))) == (
        "zu viele Zeilen €"
    )
    traced = said(exception_message="too many", error_class="X", stack_trace="E: too many\n\tat a\nCaused by: F: b")
    assert read_error(answered(exception=traced)) == "E: too many\n\tat a\nCaused by: F: b"
    assert read_error(answered(exception=said(error_class="X"))) == "X"
    assert read_error(answered(exception=said())) is None
    assert read_error(answered()) is None


def test_the_last_batch_is_read_and_its_sources_are_added_up() -> None:
    sources = [
        {"numInputRows": 2, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 4.0},
        {"numInputRows": 3, "processedRowsPerSecond": 0.5, "metrics": {"maxOffsetsBehindLatest": "7"}},
    ]
    said = {"batchId": 12, "durationMs": {"triggerExecution": 80}, "sources": sources}
    progress = StreamingQueryCommandResult.RecentProgressResult(recent_progress_json=["{}", json.dumps(said)])
    assert read_last_progress(answered(recent_progress=progress)) == QueryProgress(
        batch=12,
        rows_per_second=4.5,
        rows=5,
        rows_per_second_in=1.0,
        batch_ms=80,
        behind=7,
        lag=Lag(offsets=7, silent=2),
    )
    assert read_last_progress(answered()) is None


def test_the_running_queries_are_read() -> None:
    answer = ExecutePlanResponse()
    active = answer.streaming_query_manager_command_result.active
    active.SetInParent()
    assert read_running([answer.SerializeToString()]) == []
    for name in ("one", "two"):
        query = active.active_queries.add(name=name)
        query.id.CopyFrom(StreamingQueryInstanceId(id=name, run_id=f"{name}-run"))
    assert read_running([answer.SerializeToString()]) == [
        RunningQuery("one", "one-run"),
        RunningQuery("two", "two-run"),
    ]


@pytest.mark.parametrize("read", [read_status, read_last_progress, read_error, read_running])
def test_the_response_to_another_request_is_an_error(read: Any) -> None:
    with pytest.raises(NoAnswerInItError):
        read([ExecutePlanResponse(session_id=SESSION).SerializeToString()])
    with pytest.raises(NoAnswerInItError):
        read_status(answered())


def test_unknown_fields_of_all_kinds_are_skipped() -> None:
    skipped = bytes([9 << 3 | 1, *range(8), 10 << 3 | 5, *range(4)])
    read = Message(skipped + number(300, 2**40) + text(2, "ä") + message(3, number(1, 1)) + text(2, "ö"))
    assert (read.number(300), read.text(2), read.texts(2)) == (2**40, "ö", ["ä", "ö"])
    (inner,) = read.messages(3)
    assert inner.number(1) == 1
    assert (read.message(4), read.text(4), read.number(4)) == (None, "", 0)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_named_error(data: bytes) -> None:
    with contextlib.suppress(NotAMessageError):
        Message(data)


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x80", b"\x0b", b"\xff" * 11, b"\x09abc"])
def test_truncated_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(NotAMessageError):
        Message(data)
