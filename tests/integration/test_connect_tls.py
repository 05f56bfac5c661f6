"""A Spark Connect server with a token, behind a proxy for TLS: the server itself speaks plain text only."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates
from detached_bench import JOB, MODULE, Copying, Life
from fleet import MakeFleet, cospark
from shared_servers import ServerForTrials
from tcp_proxy import TcpProxy
from waiting import eventually

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.spark.connect.server import TOKEN_ENV, ConnectServer
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.presence import present
from airflow_provider.values.model import WorkerId

ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
W1, W2 = map(WorkerId, ("w1", "w2"))


@pytest.fixture(scope="module")
def url(certificates: Certificates, for_trials: ServerForTrials) -> Iterator[str]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.broker, certificates.broker_key)
    tls.set_alpn_protocols(["h2"])
    with TcpProxy(ConnectServer.parse(for_trials.url).port, tls) as proxy:
        yield f"sc://{proxy.address}/;use_ssl=true"


@pytest.fixture(autouse=True)
def environment(
    broker: LocalBroker, certificates: Certificates, for_trials: ServerForTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv(TOKEN_ENV, for_trials.token)
    monkeypatch.setenv(ROOTS, str(certificates.authority))


async def test_a_stream_is_started_watched_adopted_and_ended(
    fleet: MakeFleet, url: str, for_trials: ServerForTrials, tmp_path: Path
) -> None:
    checkpoints = tmp_path / "checkpoints"
    jobs = ("--allow", MODULE, "--checkpoint-root", str(checkpoints))
    async with fleet("--spark-master", url, *jobs) as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, url, checkpoints)
        await copying.submit()
        group.start("w1")
        began = await life.begun()
        await copying.goes_on()
        await life.said(lambda last: last.progress is not None, "its progress is reported")

        group.start("w2")
        await group.wait_for(lambda _, status: W2 in present(status), "w2 has joined")
        assert (await cospark(group, "workers", "stop", group.group_id, "w1")).status == 0
        adopted = await life.said(lambda last: last.worker == W2 and last.state is TaskState.RUNNING, "w2 goes on")
        assert (adopted.handle, adopted.attempt) == (began.handle, began.attempt)
        await copying.goes_on()

        assert (await cospark(group, "jobs", "pause", group.group_id, JOB)).status == 0
        await life.said(lambda last: last.state is TaskState.STOPPED, "it is paused")
        assert not [name for name in ("w1", "w2") if for_trials.token in group.log_of(name)]
        assert all(for_trials.token not in str(step) for step in await group.steps())


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [(TOKEN_ENV, "guessed", "does not let this worker in"), (ROOTS, "stranger", "is not trusted here (failed")],
    ids=["token", "certificate"],
)
async def test_a_worker_that_is_refused_says_why(
    fleet: MakeFleet,
    url: str,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    says: str,
) -> None:
    monkeypatch.setenv(name, str(getattr(certificates, value, value)))
    async with fleet("--spark-master", url, "--allow", MODULE) as group:
        await group.submit("any", tasks=1, entry_point=f"{MODULE}:Append")
        group.start("w1")
        await eventually(lambda: says in group.log_of("w1"), f"w1 says {says!r}")
