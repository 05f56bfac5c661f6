"""The tokens of Spark Connect servers, for all triggers of a triggerer. They ask for them at the same times: when the
triggerer starts, and when a server stops answering.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_provider.hooks.spark_connect import SparkAddress, SparkConnectHook, token_for
from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.triggers.shared_answers import SharedAnswers

if TYPE_CHECKING:
    from airflow_provider.spark.connect.handle import QueryHandle
    from airflow_provider.worker.hands.servers import TokenOf

_ADDRESSES: Final = SharedAnswers[SparkAddress](lambda conn_id: SparkConnectHook(conn_id).aget_address())


def tokens_by(server: str, conn_id: str | None) -> TokenOf:
    """The tokens for the queries of one worker.

    :param server: the URL of its own server; its own connection is used there, whoever has started a query; empty: it
        has none
    :param conn_id: the connection of its own server; empty: none is needed; None: unknown
    """
    own = ConnectServer.parse(server) if server else None

    async def token_of(handle: QueryHandle) -> str:
        if conn_id is not None and handle.server == own:
            handle = replace(handle, conn_id=conn_id)
        return token_for(handle, await _ADDRESSES.about(handle.conn_id)) if handle.conn_id else ""

    return token_of
