"""Spark Connect servers as values: URLs, connections and session ids, none of which has secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from airflow_provider.hooks.spark_connect import SparkConnectionError, address_of
from airflow_provider.spark.connect.server import (
    ConnectServer,
    ConnectSettings,
    ConnectUrlError,
    following,
    is_connect,
    session_id,
)

SECRET = "s3cret-t0ken"


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("sc://spark", ConnectServer(host="spark")),
        ("sc://spark:15003", ConnectServer(host="spark", port=15003)),
        ("sc://spark:1/;use_ssl=true", ConnectServer(host="spark", port=1, use_ssl=True)),
        ("sc://spark/;user_id=jos%C3%A9%3B;use_ssl=False", ConnectServer(host="spark", user_id="josé;")),
        ("sc://[::1]:15002/", ConnectServer(host="::1")),
        ("sc://[0:0::A]", ConnectServer(host="::a")),
        (
            "sc://dbc:443/;x-databricks-cluster-id=0-a%3B",
            ConnectServer(host="dbc", port=443, databricks_cluster="0-a;"),
        ),
    ],
)
def test_a_url_is_parsed_and_made_again(url: str, server: ConnectServer) -> None:
    assert ConnectServer.parse(url) == server
    assert ConnectServer.parse(server.url) == ConnectServer.parse(str(server)) == server
    assert is_connect(server.url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("spark://host", "begins with sc://"),
        ("sc://", "names no host"),
        ("sc://host:port", "must be host or host:port"),
        ("sc://[::x]", "must be host or host:port"),
        ("sc://host;use_ssl=true", "only a slash and parameters"),
        ("sc://host/path", "only a slash and parameters"),
        ("sc://host/;use_ssl=maybe", "must be true or false"),
        ("sc://host/;user_id=", "must be a name"),
        ("sc://host/;x-header=1", "not a known parameter"),
        ("sc://host/;x-databricks-cluster-id=", "must be the id of a cluster"),
        ("sc://host/;session_id=1", "set for each task"),
        (
            f"sc://host/;token={SECRET}",
            "spark_connect, or, for cospark, into the environment: SPARK_CONNECT_AUTHENTICATE_TOKEN",
        ),
        (f"sc://me:{SECRET}@host", "no user and password"),
    ],
)
def test_an_invalid_url_is_refused_without_repeating_secrets(url: str, said: str) -> None:
    with pytest.raises(ConnectUrlError, match=said) as refused:
        ConnectServer.parse(url)
    assert SECRET not in str(refused.value)


def test_settings_do_not_show_their_token() -> None:
    settings = ConnectSettings(server=ConnectServer(host="spark"), token=SECRET, conf={"spark.a": SECRET})
    assert SECRET not in repr(settings)


def test_a_session_id_is_made_of_its_names() -> None:
    assert session_id("cluster/group", "job", "0") == session_id("cluster/group", "job", "0")
    assert session_id("cluster/group", "job", "0") != session_id("cluster/group", "job", "1")
    assert session_id("a", "bc") != session_id("ab", "c")
    first = session_id("a")
    assert len({first, following(first), following(following(first))}) == 3
    assert following(first) == following(first)


def connection(**fields: Any) -> Connection:
    extra = fields.pop("extra", {})
    return Connection(
        conn_id="sc", **{"conn_type": "spark_connect", "host": "spark", **fields}, extra=json.dumps(extra)
    )


def test_a_connection_has_the_fields_of_the_provider_for_apache_spark() -> None:
    given = connection(port=15009, login="me", password=SECRET, extra={"use_ssl": True})
    address = address_of(given, "sc")
    assert ConnectServer.parse(address.master) == ConnectServer(host="spark", port=15009, user_id="me", use_ssl=True)
    assert address.token == SECRET
    assert SECRET not in address.master + repr(address)
    assert address_of(connection(host="sc://spark"), "sc").master == ConnectServer(host="spark").url


def test_each_call_names_the_cluster_of_a_databricks_workspace() -> None:
    given = connection(host="dbc", port=443, extra={"use_ssl": True, "x-databricks-cluster-id": "0123-abc"})
    server = ConnectServer.parse(address_of(given, "sc").master)
    assert server == ConnectServer(host="dbc", port=443, use_ssl=True, databricks_cluster="0123-abc")
    assert ("x-databricks-cluster-id", "0123-abc") in DefaultChannelBuilder(server.url).metadata()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "spark"}, "must be of type 'spark_connect'"),
        ({"host": ""}, "names no host"),
        ({"extra": {"use_ssl": "perhaps"}}, "must be true or false"),
    ],
)
def test_the_error_of_an_unusable_connection_names_it(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SparkConnectionError, match=said) as refused:
        address_of(connection(password=SECRET, **fields), "sc")
    assert "connection 'sc'" in str(refused.value)
    assert SECRET not in str(refused.value)
