"""The gRPC channel to a server. All watches of an event loop share one."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.connect.client import INSTALL
from airflow_provider.spark.connect.grpc_calls.calls import UnansweredError
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.spark.connect.trouble import Trouble

if TYPE_CHECKING:
    import grpc.aio

SERVICE: Final = "/spark.connect.SparkConnectService/"
_LOCAL: Final = "localhost"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 128 * 1024 * 1024),  # as PySpark
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.primary_user_agent", "cospark"),
)


class ServerChannel:
    """Sends requests as bytes. It connects with the first call, and reconnects by itself."""

    def __init__(self, settings: ConnectSettings) -> None:
        self._settings = settings
        self._opening: asyncio.Task[None] | None = None
        self._channel: Any = None

    async def open(self) -> None:
        """Import gRPC in a thread, and open the channel. Call this before anything else.

        :raises UnansweredError: if gRPC is not installed here
        """
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            await asyncio.to_thread(importlib.import_module, "grpc.aio")
        except ImportError as missing:
            raise UnansweredError(Trouble.OTHER, f"its client is not installed here ({missing}): {INSTALL}") from None
        self._channel = _channel(self._settings)

    async def execute(self, request: bytes, timeout_s: float) -> list[bytes]:
        """Execute a command, and return all its responses.

        :raises grpc.RpcError: if it is refused, or not answered in time
        """
        call = self._channel.unary_stream(f"{SERVICE}ExecutePlan")
        return [answer async for answer in call(request, timeout=timeout_s)]

    async def ask(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """:raises grpc.RpcError: if it is refused, or not answered in time"""
        answer: bytes = await self._channel.unary_unary(f"{SERVICE}{method}")(request, timeout=timeout_s)
        return answer

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._channel is not None:
            await self._channel.close()


def _channel(settings: ConnectSettings) -> grpc.aio.Channel:
    """A token is only sent over TLS, or within this machine."""
    import grpc.aio

    server, token = settings.server, settings.token
    if not server.use_ssl and not token:
        return grpc.aio.insecure_channel(server.address, options=_OPTIONS)
    within = not server.use_ssl and server.host == _LOCAL
    secured = grpc.local_channel_credentials() if within else grpc.ssl_channel_credentials()
    if token:
        secured = grpc.composite_channel_credentials(secured, grpc.access_token_call_credentials(token))
    return grpc.aio.secure_channel(server.address, secured, options=_OPTIONS)
