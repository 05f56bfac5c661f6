"""Streaming queries on a Spark Connect server that do almost nothing, each in a session of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import grpc
from pyspark.sql.connect.proto import ExecutePlanRequest, ExecutePlanResponse

from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer

_EXECUTE: Final = "/spark.connect.SparkConnectService/ExecutePlan"
_AT_ONCE: Final = 4


class TinyQueries:
    """Starts queries by plain messages, without keeping any object of a client."""

    def __init__(self, server: ConnectServer) -> None:
        self._server = server
        self._channel = grpc.aio.insecure_channel(server.address)
        self._execute: Any = self._channel.unary_stream(
            _EXECUTE,
            request_serializer=ExecutePlanRequest.SerializeToString,
            response_deserializer=ExecutePlanResponse.FromString,
        )

    async def __aenter__(self) -> TinyQueries:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def start(
        self, *, session_id: str = "", trigger: str = "1 second", only_below: int = 0, checkpoint: str = ""
    ) -> QueryHandle:
        """Start a query that counts seconds.

        :param session_id: by default a new one
        :param trigger: how often it has a batch
        :param only_below: it fails when it has counted so far; 0: never
        :param checkpoint: its folder on the server; empty: one of Spark's own
        :raises grpc.RpcError: if the server does not start it
        """
        session_id = session_id or str(uuid.uuid4())
        request = ExecutePlanRequest(session_id=session_id, client_type="tiny queries")
        request.user_context.user_id = self._server.user_id
        write = request.plan.command.write_stream_operation_start
        write.format, write.output_mode, write.processing_time_interval = "noop", "append", trigger
        if checkpoint:
            write.options["checkpointLocation"] = checkpoint
        source = write.input
        if only_below:
            says = f"assert_true(value < {only_below}, 'counted too far') is null"
            source.filter.condition.expression_string.expression = says
            source = source.filter.input
        source.read.is_streaming = True
        source.read.data_source.format = "rate"
        source.read.data_source.options["numPartitions"] = "1"
        started = [answer async for answer in self._execute(request, timeout=300)]
        query = next(
            answer.write_stream_operation_start_result.query_id
            for answer in started
            if answer.HasField("write_stream_operation_start_result")
        )
        return QueryHandle(server=self._server, session_id=session_id, query_id=query.id, run_id=query.run_id)

    async def start_many(self, count: int, *, trigger: str, within_s: float) -> Sequence[QueryHandle]:
        """Start as many as the server can in that time; the last one may take longer."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        room = asyncio.Semaphore(_AT_ONCE)

        async def start() -> QueryHandle | None:
            async with room:
                return await self.start(trigger=trigger) if loop.time() < end else None

        started = await asyncio.gather(*(start() for _ in range(count)))
        return [handle for handle in started if handle is not None]

    async def stop(self, handle: QueryHandle) -> None:
        request = ExecutePlanRequest(session_id=handle.session_id, client_type="tiny queries")
        request.user_context.user_id = self._server.user_id
        command = request.plan.command.streaming_query_command
        command.query_id.id, command.query_id.run_id = handle.query_id or "", handle.run_id or ""
        command.stop = True
        async for _ in self._execute(request, timeout=60):
            pass
