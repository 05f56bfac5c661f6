"""The tokens of Spark Connect servers, for all triggers of a triggerer.

They all want to know at the same times: as the triggerer starts, and when a server answers nobody any more. Airflow
answers its questions one by one, so those who ask at the same time share an answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider.hooks.spark_connect import SparkAddress, SparkConnectHook, token_for
from airflow_provider.spark_connect.server import ConnectServer

if TYPE_CHECKING:
    from airflow_provider.hands.servers import TokenOf
    from airflow_provider.spark_connect.handle import QueryHandle

_ASKED: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Future[SparkAddress]]] = WeakKeyDictionary()


def tokens_by(server: str, conn_id: str | None) -> TokenOf:
    """The tokens for the queries of one worker.

    :param server: the URL of its own server, for which it has a connection by itself, whoever has begun a query there
    :param conn_id: that connection; empty: none is needed; None: it is not known
    """
    own = ConnectServer.parse(server)

    async def token_of(handle: QueryHandle) -> str:
        if conn_id is not None and handle.server == own:
            handle = replace(handle, conn_id=conn_id)
        return token_for(handle, await _address_of(handle.conn_id)) if handle.conn_id else ""

    return token_of


async def _address_of(conn_id: str) -> SparkAddress:
    """:raises SparkConnectionError: if the connection names no server that can be used"""
    asked = _ASKED.setdefault(asyncio.get_running_loop(), {})
    answer = asked.get(conn_id)
    if answer is None:
        answer = asked[conn_id] = asyncio.ensure_future(SparkConnectHook(conn_id).aget_address())

        def forget(answer: asyncio.Future[SparkAddress]) -> None:
            del asked[conn_id]
            _ = answer.cancelled() or answer.exception()  # seen, also if nobody waits for it any more

        answer.add_done_callback(forget)
    # Shielded: a trigger that is cancelled meanwhile must not take the answer from the others.
    return await asyncio.shield(answer)
