"""What is done before a request carries a Python function to a Spark Connect server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.proto import AnalyzePlanRequest, ExecutePlanRequest, Plan, ReleaseExecuteRequest
from pyspark.sql.types import LongType

from airflow_provider.spark.connect.client import hang_up, open_session
from airflow_provider.spark.connect.python_functions import BeforeFunctions, may_carry_function
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings


@pytest.fixture
def session() -> Iterator[Any]:
    """One that needs no server to make plans: it asks none from which size on to compress them."""
    session: Any = open_session(ConnectSettings(server=ConnectServer(host="127.0.0.1", port=1)), "w")
    client = session.client
    client._plan_compression_threshold, client._plan_compression_algorithm = -1, "NONE"
    yield session
    hang_up(session)


def asks_for(data: Any) -> ExecutePlanRequest:
    """As PySpark does, which also says its own version and that of this Python."""
    request: ExecutePlanRequest = data._session.client._execute_plan_request_with_metadata()
    request.plan.CopyFrom(data._plan.to_proto(data._session.client))
    return request


def doubled(data: Any) -> Any:
    double: Any = udf(lambda number: number * 2, LongType())
    return data.select(double("id"))


def starts(writer: Any) -> ExecutePlanRequest:
    request = ExecutePlanRequest()
    request.plan.command.write_stream_operation_start.CopyFrom(writer._write_proto)
    return request


def test_what_has_a_python_function_anywhere_in_its_plan_may_carry_one(session: Any) -> None:
    ticks = session.readStream.format("rate").load()
    assert may_carry_function(asks_for(doubled(session.range(3)).distinct().limit(1)))
    assert may_carry_function(starts(ticks.writeStream.foreachBatch(lambda _rows, _number: None)))
    assert may_carry_function(starts(ticks.writeStream.foreach(lambda _row: None)))


def test_what_has_none_carries_none(session: Any) -> None:
    ticks = session.readStream.format("rate").option("rowsPerSecond", 1).load()
    assert not may_carry_function(asks_for(session.range(3).distinct().limit(1)))
    assert not may_carry_function(starts(ticks.writeStream.format("noop").trigger(processingTime="1 day")))


@pytest.mark.skipif(
    "compressed_operation" not in Plan.DESCRIPTOR.fields_by_name, reason="this Spark compresses no plans"
)
def test_nobody_knows_what_is_in_a_compressed_plan() -> None:
    plan = Plan(compressed_operation=Plan.CompressedOperation(data=b"zstd"))
    assert may_carry_function(ExecutePlanRequest(plan=plan))
    assert may_carry_function(AnalyzePlanRequest(schema=AnalyzePlanRequest.Schema(plan=plan)))


def calls_of(prepare: Callable[[], None]) -> tuple[Any, list[Any]]:
    """A client's calls, and what was asked for by them."""
    asked: list[Any] = []
    stub = SimpleNamespace(ExecutePlan=asked.append, AnalyzePlan=asked.append)
    BeforeFunctions(prepare, stub)
    return stub, asked


def test_modules_are_sent_once_before_the_first_function(session: Any) -> None:
    stub, happened = calls_of(lambda: happened.append("sent"))
    plain, function = asks_for(session.range(3)), asks_for(doubled(session.range(3)))
    for request in (plain, function, function):
        stub.ExecutePlan(request)
    assert happened == [plain, "sent", function, function]


def test_a_request_whose_modules_could_not_be_sent_is_not_made_and_the_next_one_tries_again(session: Any) -> None:
    tries: list[int] = []

    def prepare() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the server is away")

    function = asks_for(doubled(session.range(3)))
    stub, made = calls_of(prepare)
    with pytest.raises(OSError, match="away"):
        stub.AnalyzePlan(function)
    assert not made
    stub.AnalyzePlan(function)
    assert made == [function]


def test_calls_of_a_session_whose_channel_was_closed_fail_and_crash_nothing() -> None:
    """PySpark makes some of them in the background."""
    settings = ConnectSettings(server=ConnectServer(host="127.0.0.1", port=1))
    session: Any = open_session(settings, "w", before_functions=lambda: None)
    stub = session.client._stub
    hang_up(session)
    with pytest.raises(ValueError, match="closed"):
        stub.ReleaseExecute(ReleaseExecuteRequest())
