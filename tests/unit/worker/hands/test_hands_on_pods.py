"""Drivers in pods, as a triggerer watches them, and as people end them; with a stand-in for the API server."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from executor_bench import A0, ME
from fake_kubernetes import RUNNING, SUCCEEDED, FakeKubernetes, api_server, write_kubeconfig
from stand_ins import MemoryTopics
from test_hands_on_drivers import TAG, hands_of_triggerer, no_server, submitted
from test_kubernetes_api import submit
from waiting import eventually

from airflow_provider.spark.submit import clusters
from airflow_provider.spark.submit.kubernetes import Kubernetes, kubernetes_here
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.orphans import Orphan
from airflow_provider.worker.hands.end_orphan_queries import end_all
from airflow_provider.worker.hands.servers import Servers
from airflow_provider.worker.hands.watching_hands import what_it_lacks


class Group:
    """A task whose driver runs in a pod."""

    def __init__(self, server: FakeKubernetes) -> None:
        self.server = server
        self.master = f"k8s://{server.address}"
        self.masters: tuple[str, ...] = (self.master,)
        cluster = kubernetes_here(self.master, {"spark.kubernetes.namespace": "etl"}, {})
        self.pod = submit(server, cluster.settings(TAG))
        server.becomes(self.pod, RUNNING)
        self.handle = {"cluster": cluster.name, "tag": TAG, "since_ms": 0, "result": {"applications": ["etl"]}}
        server.asked.clear()

    async def submitted(self) -> MemoryTopics:
        return await submitted(self.handle)


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    with api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", server.address)))
        clusters._kubernetes.cache_clear()
        yield Group(server)
        clusters._kubernetes.cache_clear()


async def test_a_triggerer_watches_it_to_its_end(group: Group) -> None:
    topics = await group.submitted()
    hands = hands_of_triggerer(topics, group.masters)
    await eventually(lambda: topics.status.tasks[A0].epoch == 2 and group.server.asked, "it is adopted, and watched")
    assert hands.running == {A0}
    assert not hands.done
    group.server.becomes(group.pod, SUCCEEDED)
    await eventually(lambda: topics.status.tasks[A0].state is TaskState.FINISHED)
    assert topics.status.tasks[A0].result["applications"] == ["etl"]
    assert {method for method, _path, _credentials in group.server.asked} == {"GET"}
    await hands.close()


async def test_a_triggerer_kills_it_if_its_job_is_removed(group: Group) -> None:
    topics = await group.submitted()
    hands = hands_of_triggerer(topics, group.masters)
    await eventually(lambda: topics.status.tasks[A0].epoch == 2, "it is adopted")
    await topics.remove(A0.job, by="me")
    hands.refresh()
    await eventually(lambda: not hands.running)
    assert group.server.pods() == []
    await hands.close()


async def test_its_connection_is_made_beside_the_event_loop_which_others_share(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[threading.Thread] = []

    def here(master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> Kubernetes:
        made.append(threading.current_thread())
        return kubernetes_here(master, settings, environment)

    monkeypatch.setattr(clusters, "kubernetes_here", here)
    topics = await group.submitted()
    hands = hands_of_triggerer(topics, group.masters)
    await eventually(lambda: made)
    assert await what_it_lacks(topics.status, ME, group.masters) == ""
    assert threading.main_thread() not in made
    await hands.close()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("its worker does not allow the master", "is not asked, because only a record of the group names it"),
        ("it has no client", "install the extra [kubernetes]"),
        ("its credentials are unknown there", "Kubernetes answers 401"),
        ("its credentials can't be read", "the credentials for Kubernetes can't be read"),
    ],
)
async def test_a_triggerer_that_can_not_watch_it_leaves_it_to_a_process(
    group: Group, wrong: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = group.masters
    match wrong.split():
        case [*_, "master"]:
            masters = ()
        case [*_, "client"]:
            monkeypatch.setitem(sys.modules, "kubernetes", None)
        case [*_, "there"]:
            group.server.refuses = {"pods": 401}
        case _:
            (tmp_path / "config").write_text("{}")
    topics = await group.submitted()
    hands = hands_of_triggerer(topics, masters)
    await eventually(lambda: hands.done)
    assert why in await what_it_lacks(topics.status, ME, masters)
    assert topics.status.tasks[A0].state is TaskState.RUNNING, "nothing fails"
    assert masters or group.server.asked == []
    await hands.close()


async def test_while_kubernetes_is_silent_the_triggerer_keeps_it(group: Group) -> None:
    group.server.refuses = {"pods": 500}
    topics = await group.submitted()
    assert await what_it_lacks(topics.status, ME, group.masters) == ""


@pytest.mark.parametrize("allowed", [True, False])
async def test_people_may_have_it_killed_if_they_allow_its_master(group: Group, allowed: bool) -> None:
    topics = await group.submitted()
    servers = Servers(own=None, masters=group.masters if allowed else ())
    orphan = Orphan(status=topics.status.tasks[A0], label="a:0", why="the group has no workers")
    ((_, why),) = await end_all([orphan], topics, no_server, servers.cluster_of)
    state: Any = topics.status.tasks[A0].state
    if allowed:
        assert (why, group.server.pods(), state) == ("", [], TaskState.STOPPED)
    else:
        assert "--allow-master" in why
        assert (len(group.server.pods()), group.server.asked, state) == (1, [], TaskState.RUNNING)
