"""The operator of a worker that has drivers on a cluster, and no Spark Connect server."""

from __future__ import annotations

import pytest
from airflow_values import context
from operator_bench import FakeGroup, FakeRun, outcome, worker_operator

from airflow_provider.integration.airflow_api.airflow_names import TaskDeferred
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.endings.ending import Ending, Outcome

DRIVER = TaskStatus(
    task=TaskId("job", 1),
    state=TaskState.RUNNING,
    epoch=Epoch(1),
    worker=WorkerId("w"),
    handle={"cluster": "yarn", "tag": "cospark-1"},
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> type[FakeRun]:
    class Run(FakeRun):
        endings: list[Outcome] = []  # noqa: RUF012
        made: list[FakeRun] = []  # noqa: RUF012
        status = StatusSnapshot()

    FakeGroup(monkeypatch)
    monkeypatch.setattr(SparkWorkerOperator, "_make_run", Run)
    return Run


@pytest.mark.parametrize("living", [True, False])
def test_its_trigger_watches_if_there_may_be_something_to_watch(runs: type[FakeRun], living: bool) -> None:
    runs.status = StatusSnapshot(tasks={DRIVER.task: DRIVER} if living else {})
    runs.endings.append(outcome(Ending.HANDED_OVER, saved={"v": 1, "member": {}}))
    with pytest.raises(TaskDeferred) as deferred:
        worker_operator(until="forever").execute(context(dag_id="d", task_id="w"))
    trigger = deferred.value.trigger
    assert isinstance(trigger, WorkerTrigger)
    watches = trigger.spec.watches
    assert (watches is not None and watches.server == "") is living
    assert WorkerSpec.from_json(trigger.serialize()[1]["plan"]) == trigger.spec


def test_its_trigger_may_ask_the_masters_that_the_worker_allows(runs: type[FakeRun]) -> None:
    runs.status = StatusSnapshot(tasks={DRIVER.task: DRIVER})
    runs.endings.append(outcome(Ending.HANDED_OVER, saved={"v": 1, "member": {}}))
    allowed = ["/opt/apps", "yarn", "k8s://https://one:6443", "k8s://two"]
    with pytest.raises(TaskDeferred) as deferred:
        worker_operator(until="forever", allowed_applications=allowed).execute(context(dag_id="d", task_id="w"))
    trigger = deferred.value.trigger
    assert isinstance(trigger, WorkerTrigger)
    assert trigger.spec.watches is not None
    assert trigger.spec.watches.masters == ("k8s://https://one:6443", "k8s://two")
    stored = trigger.serialize()[1]["plan"]
    assert WorkerSpec.from_json(stored) == trigger.spec
    del stored["watches"]["allowed_masters"]
    before = WorkerSpec.from_json(stored).watches
    assert before is not None
    assert before.masters == (), "as one of the release before, which leaves such drivers to a process"


@pytest.mark.parametrize(
    ("said", "linger_s"), [({"lacks": "HADOOP_CONF_DIR: it is not set"}, 600.0), ({"lacks": ""}, 5.0), ({}, 5.0)]
)
def test_what_its_triggerer_can_not_watch_its_process_watches_for_long(
    runs: type[FakeRun], said: dict[str, str], linger_s: float
) -> None:
    runs.endings.append(outcome(Ending.DRAINED))
    event = {"v": 1, "ending": "handed over", "worker": "dag.task", "epoch": 3, "saved": {"v": 1}, **said}
    worker_operator().resume(context(), event={**event, "story": WorkerStory(began_ms=1).to_json()})
    assert runs.made[0].equipment.linger_s == linger_s
