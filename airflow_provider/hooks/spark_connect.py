"""Airflow's connection to a Spark Connect server, with the same fields as in the provider for Apache Spark."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from airflow.sdk import BaseHook

from airflow_provider.integration.airflow_api.airflow_names import AirflowNotFoundException
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import (
    DATABRICKS_CLUSTER,
    SCHEME,
    ConnectServer,
    ConnectSettings,
    ConnectUrlError,
    is_token,
)

if TYPE_CHECKING:
    from airflow.sdk import Connection

_USE_SSL: Final = "use_ssl"


class SparkConnectionError(ValueError):
    """A connection does not name a usable Spark Connect server. The message contains no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAddress:
    """The address of a worker's Spark.

    :param master: Spark's master URL, or that of a server, without secrets
    :param token: for the server; empty: none
    """

    master: str
    token: str = field(default="", repr=False)


class SparkConnectHook(BaseHook):
    """Tells where a Spark Connect server is, and its token.

    :param spark_conn_id: a connection of type ``spark_connect``: host, port, login (the user that owns the sessions),
        password (the token) and, in the extra, ``use_ssl`` and ``x-databricks-cluster-id`` (if the host is a Databricks
        workspace)
    """

    conn_name_attr: ClassVar[str] = "spark_conn_id"
    default_conn_name: ClassVar[str] = "spark_connect_default"
    conn_type: ClassVar[str] = "spark_connect"
    hook_name: ClassVar[str] = "Spark Connect"

    def __init__(self, spark_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id

    def get_address(self) -> SparkAddress:
        """The address of the connection's server.

        :raises SparkConnectionError: if it does not name a usable server
        """
        try:
            connection = self.get_connection(self.spark_conn_id)
        except AirflowNotFoundException as nowhere:
            raise SparkConnectionError(f"connection {self.spark_conn_id!r}: is not defined") from nowhere
        return address_of(connection, self.spark_conn_id)

    async def aget_address(self) -> SparkAddress:
        """As :meth:`get_address`, in a triggerer."""
        return address_of(await self.aget_connection(self.spark_conn_id), self.spark_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Whether the server answers, for the button in Airflow's UI."""
        from airflow_provider.spark.connect.connection import ServerConnection
        from airflow_provider.spark.local.errors import SparkStartError

        try:
            address = self.get_address()
            server = ConnectServer.parse(address.master)
            settings = ConnectSettings(server=server, token=address.token, conn_id=self.spark_conn_id)
            connection = ServerConnection(settings, "cospark/test")
            try:
                connection.server()
            finally:
                connection.close()
        except (SparkConnectionError, SparkStartError) as failed:
            return False, str(failed)
        return True, "The Spark Connect server answers"


async def token_of_handle(handle: QueryHandle) -> str:
    """The present token of the server on which a query runs; for use in a task's process.

    :raises SparkConnectionError: if the connection now leads to another server, or can't be used
    """
    if not handle.conn_id:
        return ""
    return token_for(handle, await asyncio.to_thread(SparkConnectHook(handle.conn_id).get_address))


def token_for(handle: QueryHandle, address: SparkAddress) -> str:
    """The connection's token, which only the connection's own server gets.

    :raises SparkConnectionError: if the connection now leads to another server
    """
    if ConnectServer.parse(address.master) != handle.server:
        raise SparkConnectionError(
            f"a query runs on {handle.server}, and the connection {handle.conn_id!r} now leads to another server: end"
            " the query there with cospark jobs orphans"
        )
    return address.token


def address_of(connection: Connection, conn_id: str) -> SparkAddress:
    """Read the address from a connection.

    :raises SparkConnectionError: naming the connection, and what is wrong with it
    """
    if connection.conn_type != SparkConnectHook.conn_type:
        raise SparkConnectionError(
            f"connection {conn_id!r} is of type {connection.conn_type!r}, and must be of type"
            f" {SparkConnectHook.conn_type!r}"
        )
    host = (connection.host or "").removeprefix(SCHEME)
    if connection.port:
        host = f"{host}:{connection.port}"
    user = f"user_id={quote(connection.login, safe='')};" if connection.login else ""
    use_ssl = str(connection.extra_dejson.get(_USE_SSL) or False).lower()
    named = connection.extra_dejson.get(DATABRICKS_CLUSTER)
    cluster = f";{DATABRICKS_CLUSTER}={quote(str(named), safe='')}" if named else ""
    try:
        server = ConnectServer.parse(f"{SCHEME}{host}/;{user}{_USE_SSL}={use_ssl}{cluster}")
    except ConnectUrlError as wrong:
        raise SparkConnectionError(f"connection {conn_id!r}: {wrong}") from None
    token = connection.password or ""
    if not is_token(token):
        raise SparkConnectionError(
            f"connection {conn_id!r}: its password, which is the token, has a character that is not allowed: use only"
            " printable ASCII, without a line break at the end"
        )
    return SparkAddress(master=server.url, token=token)
