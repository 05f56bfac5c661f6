"""A driver on a cluster, from the worker's process that submits it to the triggerer that watches it. The broker is
real; YARN, Kubernetes and ``spark-submit`` are stand-ins.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from detached_bench import over
from fake_kubernetes import SUBMITS as SUBMITS_POD
from fake_kubernetes import SUCCEEDED, FakeKubernetes, api_server, write_kubeconfig
from fake_resource_manager import SUBMITS, FakeResourceManager, resource_manager
from fake_spark_home import make_spark_home, write_application
from fleet import Fleet, MakeFleet, cospark
from waiting import DEADLINE_S, eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory, watching
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.state.records import TaskState, WorkerPhase
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import TaskId, WorkerId
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.holding import Holding, held
from airflow_provider.worker.settings import Until

W1 = WorkerId("w1")
JOB, TASK = "nightly", TaskId("nightly", 0)
APP = "application_1700000000000_0000"


@pytest.fixture(autouse=True)
def connection(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeResourceManager]:
    with resource_manager(tmp_path / "submitted") as running:
        address = f"<name>yarn.resourcemanager.webapp.address</name><value>{running.address}</value>"
        (tmp_path / "yarn-site.xml").write_text(f"<configuration><property>{address}</property></configuration>")
        monkeypatch.delenv("YARN_CONF_DIR", raising=False)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        yield running


class Life:
    """A worker, held by a process or by a trigger as the operator would have it, and its job."""

    def __init__(self, group: Fleet, folder: Path, cluster: FakeResourceManager | FakeKubernetes) -> None:
        self.group = group
        self._apps = folder / "apps"
        if isinstance(cluster, FakeResourceManager):
            self._master, submits, args = "yarn", SUBMITS, [str(cluster.folder)]
        else:
            self._master, submits, args = f"k8s://{cluster.address}", SUBMITS_POD, []
        self._config = {
            "application": write_application(self._apps / "etl.py", submits),
            "args": args,
            "spark_home": str(make_spark_home(self._apps)),
            "master": self._master,
            "deploy_mode": "cluster",
        }
        member = MemberSettings(
            group_id=group.group_id, worker=W1, session_timeout_ms=30_000, heartbeat_interval_ms=1_000
        )
        self._spec = WorkerSpec(member=member, slots=2, until=Until.FOREVER, policy=Deferred(max_delay_ms=300_000))

    async def submit(self) -> None:
        job = "airflow_provider.jobs.spark_applications:SparkApplications"
        await self.group.submit(JOB, tasks=1, entry_point=job, config=self._config, retries=0)

    async def in_process(self, saved: Any = None) -> Outcome:
        spec = self._spec
        settings = spec.settings(WorkerPhase.STABLE)
        holding = Holding(protocol=spec.protocol(), settings=settings, place=InThisProcess(self._equipment))
        async with held(holding, self.group.settings, ExitRequests()) as worker:
            outcome, _ = await asyncio.wait_for(worker.run(saved), DEADLINE_S)
            return outcome

    def trigger(self, saved: Any, **watches: Any) -> WorkerTrigger:
        plan = watching(self._spec, self._equipment, self.group.topics.status).to_json()
        plan["watches"] |= watches
        story = WorkerStory(began_ms=wall_ms()).to_json()
        return WorkerTrigger(kafka_conn_id="broker", plan=plan, saved=saved, story=story)

    @property
    def _equipment(self) -> Equipment:
        return Equipment(
            runner="local",
            allowed=("airflow_provider.jobs",),
            checkpoint_root=None,
            spark_master="local[1]",
            applications=AllowedApplications((str(self._apps), self._master)),
            linger_s=2.0,
        )

    async def becomes(self, state: TaskState) -> Any:
        def is_so(_jobs: object, status: Any) -> bool:
            return TASK in status.tasks and status.tasks[TASK].state is state

        await self.group.wait_for(is_so, f"the task is {state.value}")
        return self.group.topics.status.tasks[TASK]


async def test_the_triggerer_watches_it_and_has_the_result(
    fleet: MakeFleet, manager: FakeResourceManager, tmp_path: Path
) -> None:
    async with fleet() as group:
        life = Life(group, tmp_path, manager)
        await life.submit()
        outcome = await life.in_process()
        assert outcome.ending is Ending.HANDED_OVER, "its process was only needed to submit it"
        began = await life.becomes(TaskState.RUNNING)
        assert (began.attempt, began.server) == (1, "yarn")
        assert "http" not in json.dumps(began.handle), "a record sends nobody anywhere"

        trigger = life.trigger(outcome.saved)
        deferred = asyncio.ensure_future(anext(trigger.run()))
        await group.wait_for(
            lambda _, status: status.workers[W1].state is WorkerPhase.DEFERRED and status.workers[W1].running == {TASK},
            "the trigger reports what it watches",
        )
        manager.ends[APP] = ("FINISHED", "SUCCEEDED")
        done = await life.becomes(TaskState.FINISHED)
        assert (done.result["applications"], done.attempt) == (["etl"], 1)
        assert (len(manager.apps()), manager.kills) == (1, [])
        assert not deferred.done(), "no process is needed for that"
        await over(trigger, deferred)


@pytest.mark.parametrize("allowed", [True, False])
async def test_of_kubernetes_the_triggerer_only_asks_a_master_that_its_worker_allows(
    fleet: MakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with api_server() as kubernetes:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", kubernetes.address)))
        async with fleet() as group:
            life = Life(group, tmp_path, kubernetes)
            await life.submit()
            outcome = await life.in_process()
            began = await life.becomes(TaskState.RUNNING)
            assert began.server == f"k8s://{kubernetes.address}/namespaces/default"
            kubernetes.asked.clear()

            trigger = life.trigger(outcome.saved, **({} if allowed else {"allowed_masters": []}))
            deferred = asyncio.ensure_future(anext(trigger.run()))
            if not allowed:
                event = await asyncio.wait_for(deferred, DEADLINE_S)
                await trigger.cleanup()
                assert event.payload["ending"] == Ending.HANDED_OVER.value
                assert "is not asked, because only a record of the group names it" in event.payload["lacks"]
                assert kubernetes.asked == []
                return
            (pod,) = kubernetes.names()
            await eventually(lambda: kubernetes.asked)
            kubernetes.becomes(pod, SUCCEEDED)
            done = await life.becomes(TaskState.FINISHED)
            assert (done.result["applications"], done.attempt) == (["etl"], 1)
            assert not deferred.done(), "no process is needed for that"
            await over(trigger, deferred)


async def test_the_triggerer_kills_it_when_its_job_is_stopped(
    fleet: MakeFleet, manager: FakeResourceManager, tmp_path: Path
) -> None:
    async with fleet() as group:
        life = Life(group, tmp_path, manager)
        await life.submit()
        trigger = life.trigger((await life.in_process()).saved)
        deferred = asyncio.ensure_future(anext(trigger.run()))
        await group.wait_for(lambda _, status: status.workers[W1].state is WorkerPhase.DEFERRED, "the trigger has it")
        assert (await cospark(group, "jobs", "stop", group.group_id, JOB)).status == 0
        await life.becomes(TaskState.STOPPED)
        assert [app for app, _user in manager.kills] == [APP]
        await over(trigger, deferred)


async def test_a_triggerer_that_does_not_know_the_cluster_gives_it_back_and_nothing_fails(
    fleet: MakeFleet, manager: FakeResourceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet() as group:
        life = Life(group, tmp_path, manager)
        await life.submit()
        outcome = await life.in_process()
        with monkeypatch.context() as elsewhere:
            elsewhere.delenv("HADOOP_CONF_DIR")
            trigger = life.trigger(outcome.saved)
            event = await asyncio.wait_for(anext(trigger.run()), DEADLINE_S)
            await trigger.cleanup()
        assert event.payload["ending"] == Ending.HANDED_OVER.value
        assert "HADOOP_CONF_DIR: it is not set" in event.payload["lacks"]
        manager.ends[APP] = ("FINISHED", "SUCCEEDED")  # first, as the process does not stay until it asks again
        back = asyncio.ensure_future(life.in_process(event.payload["saved"]))
        done = await life.becomes(TaskState.FINISHED)
        assert (done.attempt, len(manager.apps())) == (1, 1)
        await asyncio.wait_for(back, DEADLINE_S)
        await eventually(lambda: not manager.kills)
