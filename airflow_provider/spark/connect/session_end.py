"""Ends PySpark sessions for good, in threads that may block."""
# ruff: noqa: SLF001 - PySpark has no call for it

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_provider.spark.connect.ending import end_session
from airflow_provider.spark.connect.grpc_calls.calls import ServerCalls
from airflow_provider.spark.connect.grpc_calls.channel import SERVICE
from airflow_provider.spark.connect.grpc_calls.messages import Caller
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


def end_for_good(session: SparkSession, server: ConnectServer, *, timeout_s: float) -> None:
    """As :func:`~airflow_provider.spark.connect.ending.end_session`, for a thread that has no event loop.

    :raises QueryNotStoppedError: if the server does not confirm it in time
    """
    client: Any = session.client
    calls = ServerCalls(
        _SessionChannel(client), Caller(user_id=client._user_id or "", user_agent=client._builder.userAgent)
    )
    handle = QueryHandle(server=server, session_id=client._session_id)
    asyncio.run(end_session(calls, handle, timeout_s=timeout_s))


class _SessionChannel:
    """The channel of a session (a :class:`~airflow_provider.spark.connect.grpc_calls.calls.Channel`). Its calls
    block.
    """

    def __init__(self, client: Any) -> None:
        self._channel = client._channel
        self._metadata = client._builder.metadata()

    async def execute(self, request: bytes, timeout_s: float) -> list[bytes]:
        call = self._channel.unary_stream(f"{SERVICE}ExecutePlan")
        return list(call(request, timeout=timeout_s, metadata=self._metadata))

    async def ask(self, method: str, request: bytes, timeout_s: float) -> bytes:
        call = self._channel.unary_unary(f"{SERVICE}{method}")
        answer: bytes = call(request, timeout=timeout_s, metadata=self._metadata)
        return answer
