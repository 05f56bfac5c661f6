"""Applications whose driver runs on Kubernetes: submitted once, whatever happens to workers; with stand-ins for its API
server and for ``spark-submit``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_kubernetes import FAILED, RUNNING, SUBMITS, SUCCEEDED, FakeKubernetes, api_server, waits
from fake_spark_home import make_spark_home, write_application
from watched_task import Guard

from airflow_provider.jobs.spark_applications import SparkApplications, tag_of
from airflow_provider.spark.job import FencedError, JobContext, TaskContext
from airflow_provider.spark.job.allowed_applications import AllowedApplications, ApplicationNotAllowedError
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.spark.submit.clusters import cluster_here
from airflow_provider.spark.submit.detached import ClusterRefusesError, DriverError


class Group:
    """Workers that reach one Kubernetes, and an application."""

    def __init__(self, folder: Path, server: FakeKubernetes) -> None:
        self.server = server
        self.apps = folder / "apps"
        self.master = f"k8s://{server.address}"
        self.properties = self.apps / "etl.properties"
        self.config = {
            "application": write_application(self.apps / "etl.py", SUBMITS),
            "spark_home": str(make_spark_home(self.apps)),
            "properties_file": str(self.properties),
            "master": self.master,
            "deploy_mode": "cluster",
        }
        self.properties.write_text("spark.kubernetes.namespace=etl\n")

    def task(
        self, guard: Guard | None = None, *, more_parts: bool = True, detach: bool = False, **more: Any
    ) -> TaskContext:
        (planned,) = make_plan(
            SparkApplications(), JobContext(name="nightly", config={**self.config, **more}, max_tasks=1)
        )
        parts = (str(self.apps), self.master) if more_parts else (str(self.apps),)
        return TaskContext(
            job="nightly",
            index=0,
            config=planned,
            epoch=1,
            run_key="monday",
            fingerprint="1a",
            checkpoint_location="/tmp/group/nightly/0",
            guard=guard or Guard(),
            applications=AllowedApplications(parts, detach=detach),
        )

    def run(self, guard: Guard, **changes: Any) -> dict[str, Any]:
        """By any of the workers, which stays with it."""
        result = SparkApplications().run(None, self.task(guard, **changes))
        assert isinstance(result, dict)
        return result

    @property
    def tag(self) -> str:
        task = self.task()
        return tag_of(task.config["applications"][0], task)

    def becomes(self, number: int, status: dict[str, Any]) -> None:
        self.server.becomes(f"{self.tag}-{number}", status)

    def succeeds(self) -> None:
        self.becomes(1, SUCCEEDED)


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with api_server() as server:
        yield Group(tmp_path, server)


def test_it_is_submitted_to_the_namespace_of_its_properties_and_watched_to_its_end(group: Group) -> None:
    result = group.run(Guard(lambda: group.becomes(1, RUNNING), group.succeeds))
    assert result["applications"] == ["etl"]
    (pod,) = group.server.pods()
    assert pod["metadata"]["namespace"] == "etl"
    assert pod["metadata"]["labels"]["cospark-tag"] == group.tag
    (conf,) = [each["data"] for key, each in group.server.objects.items() if key[0] == "configmaps"]
    assert conf["spark.submit.deployMode"] == "cluster"
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"


def test_its_failure_is_that_of_the_task_and_the_next_attempt_submits_it_again(group: Group) -> None:
    with pytest.raises(DriverError, match=rf"driver etl:{group.tag}-1 failed: container .* exit code 1 \(Error\)"):
        group.run(Guard(lambda: group.becomes(1, FAILED)))
    group.run(Guard(lambda: group.becomes(2, SUCCEEDED)))
    assert group.server.names() == [f"{group.tag}-1", f"{group.tag}-2"]


@pytest.mark.parametrize("moves", [True, False])
def test_if_the_task_moves_or_the_lease_is_over_the_next_worker_adopts_it(group: Group, moves: bool) -> None:
    guard = Guard()
    guard.then = [lambda: guard.stop(moves=True)] if moves else [guard.lose_lease]
    with pytest.raises(FencedError):
        group.run(guard)
    group.run(Guard(group.succeeds))
    assert group.server.names() == [f"{group.tag}-1"]


def test_one_that_has_succeeded_while_nobody_watched_is_not_submitted_again(group: Group) -> None:
    guard = Guard()
    guard.then = [guard.lose_lease]
    with pytest.raises(FencedError):
        group.run(guard)
    group.succeeds()
    assert group.run(Guard())["applications"] == ["etl"]
    assert group.server.names() == [f"{group.tag}-1"]


def test_if_another_worker_has_submitted_it_meanwhile_that_driver_is_watched(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes has refused the second one (409)."""
    late = Guard()
    late.then = [late.lose_lease]
    really = group.server._listed
    answers = iter([{"kind": "PodList", "items": []}])
    with pytest.raises(FencedError):
        group.run(late)

    def listed(plural: str, namespace: str, query: Mapping[str, list[str]]) -> dict[str, Any]:
        return next(answers, None) or really(plural, namespace, query)

    monkeypatch.setattr(group.server, "_listed", listed)
    with caplog.at_level(logging.INFO):
        group.run(Guard(group.succeeds))
    assert "already exists" in caplog.text
    assert group.server.names() == [f"{group.tag}-1"]


def test_if_the_job_is_stopped_it_is_killed_and_gone_before_the_task_has_stopped(group: Group) -> None:
    guard = Guard()
    guard.then = [lambda: guard.stop(moves=False)]
    with pytest.raises(FencedError):
        group.run(guard)
    assert group.server.pods() == []


def test_one_that_somebody_deletes_has_failed_with_what_was_last_known(group: Group) -> None:
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    running = {**RUNNING, "conditions": [evicted]}
    guard = Guard(lambda: group.becomes(1, running), lambda: group.server.vanishes(f"{group.tag}-1"))
    with pytest.raises(DriverError, match=r"not know driver .* any more; what it said last: EvictionByEvictionAPI: "):
        group.run(guard)


def test_when_it_is_submitted_it_is_left_to_whoever_may_ask_its_master_about_its_namespace(group: Group) -> None:
    handle = SparkApplications().run(None, group.task(detach=True))
    assert handle.to_json() == {
        "cluster": f"{group.master}/namespaces/etl",
        "tag": group.tag,
        "since_ms": handle.since_ms,
        "result": {"applications": ["etl"]},
    }
    (driver,) = cluster_here(handle.cluster, [group.master]).find(handle.tag)
    assert driver.id == f"etl:{group.tag}-1"


def test_others_would_not_show_the_credentials_of_a_context_so_its_worker_stays_with_it(group: Group) -> None:
    group.properties.write_text("spark.kubernetes.namespace=etl\nspark.kubernetes.context=etl\n")
    assert group.run(Guard(group.succeeds), detach=True)["applications"] == ["etl"]


def test_why_it_does_not_start_is_in_the_log_once(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    stuck = {"containerStatuses": [waits("ImagePullBackOff", "no such image")]}
    with caplog.at_level(logging.INFO):
        group.run(Guard(lambda: group.becomes(1, stuck), lambda: None, group.succeeds))
    said = f"The cluster says of driver etl:{group.tag}-1: container spark-kubernetes-driver waits: ImagePullBackOff"
    assert len([text for text in caplog.messages if text.startswith(said)]) == 1


def test_while_kubernetes_is_silent_nothing_fails(group: Group) -> None:
    def answers_again() -> None:
        group.server.refuses = {}
        group.succeeds()

    group.run(Guard(lambda: group.server.refuses.update(pods=500), lambda: None, answers_again))


def test_if_it_refuses_from_the_start_nothing_is_submitted(group: Group) -> None:
    group.server.refuses = {"pods": 403}
    with pytest.raises(ClusterRefusesError, match="a role there"):
        group.run(Guard())
    assert group.server.pods() == []


def test_a_master_that_the_worker_does_not_allow_is_not_asked(group: Group) -> None:
    with pytest.raises(ApplicationNotAllowedError, match=r"^master: "):
        group.run(Guard(), more_parts=False)
    assert group.server.asked == []


@pytest.mark.parametrize("argument", ["$(HOME)", "a$$b"])
def test_an_argument_that_kubernetes_would_replace_is_refused(group: Group, argument: str) -> None:
    with pytest.raises(PlanError, match="which Kubernetes would read otherwise on the cluster"):
        group.task(args=[argument])
    group.task(args=["`a`", "{{b}}", "$HOME", "5 $"])
