"""Which token the queries of a deferred worker are asked for with, and that it goes nowhere else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from airflow.sdk import Connection
from trigger_bench import SPEC, worker_trigger

from airflow_provider.hooks.spark_connect import SparkConnectHook, SparkConnectionError, address_of
from airflow_provider.integration.airflow_api.masking import masked
from airflow_provider.integration.memberships.worker_values import WatchSpec, WorkerSpec
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import AllowedServers, ConnectServer, ServerNotAllowedError
from airflow_provider.triggers.spark_tokens import tokens_by
from airflow_provider.worker.hands.watching_hands import WatchesInTriggerer

OWN, OTHER = ConnectServer(host="own"), ConnectServer(host="other")
MINE = QueryHandle(server=OWN, session_id="s", conn_id="theirs")


class Connections:
    """What Airflow has, and how often it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosts = {"mine": "own", "theirs": "other"}
        self.asked: list[str] = []

        async def aget_connection(_hook: type[SparkConnectHook], conn_id: str) -> Connection:
            self.asked.append(conn_id)
            await asyncio.sleep(0)
            if conn_id not in self.hosts:
                raise LookupError(f"The conn_id `{conn_id}` isn't defined")
            return Connection(
                conn_id=conn_id, conn_type="spark_connect", host=self.hosts[conn_id], password=f"token of {conn_id}"
            )

        monkeypatch.setattr(SparkConnectHook, "aget_connection", classmethod(aget_connection))


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    return Connections(monkeypatch)


async def test_a_worker_s_own_server_is_asked_by_its_own_connection(connections: Connections) -> None:
    """Who has begun the query may have had another one, which is gone by now, or have had its token elsewhere."""
    token_of = tokens_by(OWN.url, "mine")
    assert await token_of(MINE) == "token of mine"
    assert await token_of(replace(MINE, conn_id="")) == "token of mine"
    assert await token_of(replace(MINE, server=OTHER)) == "token of theirs"
    assert await token_of(QueryHandle(server=OTHER, session_id="s")) == ""


async def test_no_server_gets_the_token_of_another(connections: Connections) -> None:
    connections.hosts["mine"] = "moved"
    for conn_id in ("mine", None):
        token_of = tokens_by(OWN.url, conn_id)
        for handle in (MINE, replace(MINE, server=ConnectServer(host="evil")), replace(MINE, conn_id="mine")):
            with pytest.raises(SparkConnectionError, match="now leads to another server"):
                await token_of(handle)


@pytest.mark.slow
async def test_those_who_ask_at_the_same_time_share_an_answer(connections: Connections) -> None:
    token_of = tokens_by(OWN.url, "mine")
    assert await asyncio.gather(*(token_of(MINE) for _ in range(1_000))) == ["token of mine"] * 1_000
    assert connections.asked == ["mine"]
    connections.hosts.clear()
    for gone in await asyncio.gather(*(token_of(MINE) for _ in range(3)), return_exceptions=True):
        assert isinstance(gone, LookupError)
    assert connections.asked == ["mine", "mine"], "it is asked for anew"


async def test_a_trigger_masks_what_it_says_of_errors_and_asks_by_its_worker_s_connection(
    connections: Connections,
) -> None:
    watches = WatchSpec(server=OWN.url, progress_s=1.0, max_spark_deaths=3, conn_id="mine")
    trigger = worker_trigger()
    trigger.spec = WorkerSpec.from_json(replace(SPEC, watches=watches).to_json())
    place = trigger._place()
    assert isinstance(place, WatchesInTriggerer)
    assert place._mask is masked
    assert await place._servers.token_of(MINE) == "token of mine"


async def test_a_trigger_calls_the_servers_that_its_worker_may_call_and_no_others() -> None:
    allowed = AllowedServers.of([OTHER.url])
    watches = WatchSpec(server=OWN.url, progress_s=1.0, max_spark_deaths=3, conn_id="", allowed=allowed)
    trigger = worker_trigger()
    trigger.spec = WorkerSpec.from_json(replace(SPEC, watches=watches).to_json())
    place = trigger._place()
    assert isinstance(place, WatchesInTriggerer)
    for server in (OWN, OTHER):
        settings = await place._servers.settings_of(QueryHandle(server=server, session_id="s"))
        assert settings.server == server
    with pytest.raises(ServerNotAllowedError, match="sc://evil:15002 is not called"):
        await place._servers.settings_of(QueryHandle(server=ConnectServer(host="evil"), session_id="s"))


def test_a_spec_of_an_earlier_release_leaves_the_connection_to_each_query_and_allows_no_other_server() -> None:
    data = {"server": OWN.url, "progress_s": 1.0, "max_spark_deaths": 3}
    assert WatchSpec.from_json(data).conn_id is None
    assert WatchSpec.from_json(data).allowed.servers == ()


@pytest.mark.parametrize("token", ["abc\n", "tökén", "a\tb", "\0"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_repeated(token: str) -> None:
    connection = Connection(conn_id="sc", conn_type="spark_connect", host="own", password=token)
    with pytest.raises(SparkConnectionError, match="its password") as refused:
        address_of(connection, "sc")
    assert token not in str(refused.value)
