"""Which clusters a process asks because a record names them, and with which credentials."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_kubernetes import FakeKubernetes, api_server, write_kubeconfig

from airflow_provider.spark.submit import clusters
from airflow_provider.spark.submit.clusters import NoClusterError, cluster_here
from airflow_provider.spark.submit.kubernetes import Kubernetes, NoKubernetesError

TAG = "cospark-1a"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", server.address)))
        clusters._kubernetes.cache_clear()
        yield server
        clusters._kubernetes.cache_clear()


def master_of(server: FakeKubernetes) -> str:
    return f"k8s://{server.address}"


@pytest.mark.parametrize("name", ["standalone", "http://elsewhere:8088", "yarn", "k8s://http://elsewhere", ""])
def test_a_cluster_is_that_of_the_own_configuration(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(Exception, match="HADOOP_CONF_DIR: it is not set" if name == "yarn" else "is not known to this"):
        cluster_here(name, [name])


def test_a_master_that_is_allowed_is_asked_with_the_credentials_of_this_process(server: FakeKubernetes) -> None:
    cluster = cluster_here(f"{master_of(server)}/namespaces/etl", ["k8s://http://other", master_of(server)])
    assert cluster.find(TAG) == []
    ((method, path, credentials),) = server.asked
    assert (method, path.partition("?")[0]) == ("GET", "/api/v1/namespaces/etl/pods")
    assert credentials == "Bearer token-of-ann"


def test_its_name_is_all_that_others_need(server: FakeKubernetes) -> None:
    name = f"{master_of(server)}/namespaces/etl"
    assert cluster_here(name, [master_of(server)]).name == name


@pytest.mark.parametrize("allowed", [[], ["k8s://http://127.0.0.1"], ["k8s://"], ["yarn"]])
def test_no_other_gets_credentials_because_a_record_names_it(server: FakeKubernetes, allowed: list[str]) -> None:
    with pytest.raises(NoClusterError, match=r"is not asked, because only a record .*allowed_applications"):
        cluster_here(f"{master_of(server)}/namespaces/etl", allowed)
    assert server.asked == []


@pytest.mark.parametrize(
    "rest",
    [
        *("", "/", "/namespaces", "/namespaces/", "/namespaces/../x", "/namespaces/a/b", "/namespaces/a?b"),
        *("/namespaces/A", "/namespaces/a%2fb", "/namespaces/a\n", "/namespaces/-a", f"/namespaces/{64 * 'a'}"),
        *("@evil/namespaces/etl", "/namespaces/etl/namespaces/etl", "/../namespaces/etl"),
    ],
)
def test_a_record_has_no_say_in_the_path(server: FakeKubernetes, rest: str) -> None:
    with pytest.raises(NoClusterError):
        cluster_here(f"{master_of(server)}{rest}", [master_of(server)])


def test_all_workers_of_a_process_share_a_connection_until_it_is_time_to_read_the_credentials_again(
    server: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, masters = f"{master_of(server)}/namespaces/etl", [master_of(server)]
    first = cluster_here(name, masters)
    assert cluster_here(name, masters) is first
    assert cluster_here(f"{master_of(server)}/namespaces/other", masters) is not first
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + clusters._RENEWED_S)
    write_kubeconfig(tmp_path / "config", server.address, token="token-of-bob")
    cluster_here(name, masters).find(TAG)
    assert server.asked[-1][2] == "Bearer token-of-bob"


def test_without_its_client_kubernetes_is_not_known(server: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    for _ in range(2):
        with pytest.raises(NoKubernetesError, match=r"install the extra \[kubernetes\]"):
            cluster_here(f"{master_of(server)}/namespaces/etl", [master_of(server)])
    monkeypatch.undo()
    monkeypatch.setenv("KUBECONFIG", "")
    assert isinstance(cluster_here(f"{master_of(server)}/namespaces/etl", [master_of(server)]), Kubernetes)
