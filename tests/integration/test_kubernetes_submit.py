"""The real ``spark-submit`` submits drivers to a stand-in for the API server of Kubernetes, and reads our settings.

There is no real Kubernetes in the tests: its nodes need a container runtime and root.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_kubernetes import RUNNING, SUCCEEDED, FakeKubernetes, api_server, write_kubeconfig

from airflow_provider.jobs.spark_applications import SparkApplications
from airflow_provider.spark.job import FencedError, JobContext, TaskContext
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.job.planning import make_plan
from airflow_provider.spark.submit.application import Application, run_application
from airflow_provider.spark.submit.detached import DriverState
from airflow_provider.spark.submit.kubernetes import Kubernetes, kubernetes_here

IMAGE = "spark.kubernetes.container.image"
APPLICATION = "local:///opt/spark/examples/src/main/python/pi.py"
TAG = f"cospark-{'1a' * 20}"


class Guard:
    """Of a task that nobody stops."""

    def __init__(self, server: FakeKubernetes) -> None:
        self._server = server
        self._then: list[Any] = [RUNNING, SUCCEEDED]

    stopping = moves = False

    def wait(self, timeout_s: float) -> bool:
        (name,) = self._server.names()
        self._server.becomes(name, self._then.pop(0))
        return False

    def check(self) -> None: ...

    def check_lease(self) -> None: ...


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with api_server() as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server="https://elsewhere.invalid:6443")
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        yield server


def submit(
    server: FakeKubernetes,
    kubernetes: Kubernetes,
    hear: Callable[[str], None],
    check: Callable[[], None] = lambda: None,
) -> int:
    own = {"spark.master": f"k8s://{server.address}", "spark.app.name": "pi (3)", IMAGE: "spark:4.3.0"}
    application = Application(file=APPLICATION, settings={**own, **kubernetes.settings(TAG)})
    return run_application(application, hear=hear, check=check, lease_left_s=lambda: 600.0)


def reached(server: FakeKubernetes, tmp_path: Path) -> Kubernetes:
    environment = {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    return kubernetes_here(f"k8s://{server.address}", {"spark.kubernetes.namespace": "etl"}, environment)


def test_a_task_submits_its_driver_with_its_tag_and_watches_it_to_its_end(
    server: FakeKubernetes, tmp_path: Path
) -> None:
    master, properties = f"k8s://{server.address}", tmp_path / "etl.properties"
    properties.write_text(f"spark.kubernetes.namespace=etl\n{IMAGE}=spark:4.3.0\n")
    application = {"application": APPLICATION, "args": [5], "properties_file": str(properties)}
    config = {**application, "master": master, "deploy_mode": "cluster"}
    (planned,) = make_plan(SparkApplications(), JobContext(name="nightly", config=config, max_tasks=1))
    task = TaskContext(
        job="nightly",
        index=0,
        config=planned,
        epoch=1,
        run_key="monday",
        fingerprint="1a",
        checkpoint_location="/tmp/group/nightly/0",
        guard=Guard(server),
        applications=AllowedApplications((master, str(tmp_path), "local:///opt/spark/examples")),
    )
    assert SparkApplications().run(None, task)["applications"] == ["pi"]

    (pod,) = server.pods()
    tag = pod["metadata"]["labels"]["cospark-tag"]
    assert pod["metadata"]["name"] == f"{tag}-1"
    assert pod["metadata"]["namespace"] == "etl"
    assert pod["spec"]["restartPolicy"] == "Never"
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "spark-kubernetes-driver"
    assert container["args"][-2:] == [APPLICATION, "5"]
    owned = [each for (plural, *_names), each in server.objects.items() if plural != "pods"]
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in owned} == {pod["metadata"]["uid"]}
    assert {credentials for _method, _path, credentials in server.asked} == {"Bearer token-of-ann"}


def test_of_two_that_submit_at_the_same_time_kubernetes_takes_one(server: FakeKubernetes, tmp_path: Path) -> None:
    kubernetes, late = (reached(server, tmp_path) for _worker in range(2))
    assert kubernetes.find(TAG) == late.find(TAG) == []
    heard = list[str]()
    assert submit(server, kubernetes, heard.append) == 0
    assert submit(server, late, heard.append) != 0
    assert any("AlreadyExists" in line or "already exists" in line for line in heard), heard
    assert [(driver.id, driver.state) for driver in late.find(TAG)] == [(f"etl:{TAG}-1", DriverState.RUNS)]


def test_a_pod_whose_submission_was_cut_off_is_known_and_deleted(
    server: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes = reached(server, tmp_path)
    has_pod, killed = threading.Event(), threading.Event()

    def hang(key: tuple[str, str, str], given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        has_pod.set()
        killed.wait()
        return 500, {}

    def check() -> None:
        if has_pod.is_set():
            raise FencedError("it may not go on")

    monkeypatch.setattr(server, "_applied", hang)
    with pytest.raises(FencedError):
        submit(server, kubernetes, lambda _line: None, check)
    killed.set()
    kubernetes._cut_off_s = 0.0
    (found,) = kubernetes.find(TAG)
    assert "spark-submit was ended before it had made spark-drv-" in found.why
    assert "deletionTimestamp" in server.pods()[0]["metadata"]
