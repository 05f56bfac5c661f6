"""What a job's tasks have written becomes asset events of who waits for the job and has outlets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow_values import context, job, jobs_snapshot, status_snapshot
from operator_bench import FakeGroup, job_operator

from airflow_provider.integration.airflow_api.airflow_names import TaskDeferred
from airflow_provider.sensors.job import JobSensor
from airflow_provider.state.records import TaskState, WrittenAsset
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.values.replacing import replaced

LAKE = AssetAlias("lake")
ORDERS = Asset("orders", "s3://lake/orders")
EXTRA = {"rows": 14, "tasks": 2, "group": "g", "job": "job", "run_key": "r1"}


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> FakeGroup:
    """Two tasks of its job have finished, and each has written seven orders."""
    group = FakeGroup(monkeypatch)
    wrote(group, WrittenAsset(name="orders", uri="s3://lake/orders", rows=7))
    return group


def wrote(group: FakeGroup, *assets: WrittenAsset, last: TaskState = TaskState.FINISHED) -> None:
    """Each of the two tasks has written these; the last one is in this state."""
    group.jobs = jobs_snapshot(job(), tasks=2)
    status = status_snapshot(group.jobs, "job", TaskState.FINISHED, last)
    tasks = {task: replaced(said, wrote=assets) for task, said in status.tasks.items()}
    group.status = replace(status, tasks=tasks)


def submitting(**parameters: Any) -> Any:
    return job_operator(wait_for_completion=True, run_key="r1", **parameters)


def waiting(**parameters: Any) -> Any:
    return JobSensor(task_id="t", group="g", job="job", run_key="r1", **parameters)


def airflow() -> Any:
    return {**context(), "outlet_events": OutletEventAccessors()}


def told(values: Any) -> dict[str, dict[str, Any]]:
    """The extra of each event that Airflow would store, by the alias and the asset's name and URI."""
    events = {}
    for outlet, accessor in values["outlet_events"].items():
        if isinstance(outlet, Asset):
            events[f"{outlet.name} {outlet.uri}"] = accessor.extra
        for event in accessor.asset_alias_events:
            events[f"{outlet.name}: {event.dest_asset_key.name} {event.dest_asset_key.uri}"] = event.extra
    return events


@pytest.mark.parametrize("waits", [submitting, waiting])
@pytest.mark.parametrize("deferrable", [True, False])
@pytest.mark.parametrize(
    ("outlets", "expected"),
    [
        ([LAKE], {"lake: orders s3://lake/orders": EXTRA}),
        ([ORDERS], {"orders s3://lake/orders": EXTRA}),
        ([Asset("items"), LAKE, ORDERS], {"orders s3://lake/orders": EXTRA}),
        (
            [LAKE, AssetAlias("other")],
            {"lake: orders s3://lake/orders": EXTRA, "other: orders s3://lake/orders": EXTRA},
        ),
        ([], {}),
    ],
)
def test_who_waits_and_has_outlets_tells_it(
    group: FakeGroup, waits: Callable[..., Any], deferrable: bool, outlets: list[Any], expected: Any
) -> None:
    values = airflow()
    waits(deferrable=deferrable, outlets=outlets).execute(values)
    assert told(values) == expected


@pytest.mark.parametrize("waits", [submitting, waiting])
def test_one_that_was_deferred_tells_it_when_it_goes_on(group: FakeGroup, waits: Callable[..., Any]) -> None:
    finished = group.jobs, group.status
    group.status = StatusSnapshot()
    operator = waits(deferrable=True, outlets=[LAKE])
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(airflow())
    trigger = deferred.value.trigger
    assert isinstance(trigger, GroupTrigger)
    assert isinstance(trigger.condition, JobCondition)
    answer = replace(trigger.condition, fingerprint=None).answer(*finished)
    assert answer is not None
    event = {**answer.to_json(), "link": "", "carried": trigger.carried}
    values = airflow()
    operator.execute_complete(values, event)
    assert told(values) == {"lake: orders s3://lake/orders": EXTRA}
    del event["report"]["assets"]
    values = airflow()
    operator.execute_complete(values, event)
    assert told(values) == {}, "an earlier release's triggerer says nothing of assets"


def test_a_job_that_has_not_finished_may_still_write(group: FakeGroup) -> None:
    wrote(group, WrittenAsset(name="orders", uri="orders", rows=7), last=TaskState.RUNNING)
    values = airflow()
    waiting(outlets=[LAKE], state=JobGoal.RUNNING.value).execute(values)
    assert told(values) == {}


def test_who_only_submits_tells_nothing(group: FakeGroup) -> None:
    values = airflow()
    job_operator(run_key="r1", outlets=[LAKE]).execute(values)
    assert told(values) == {}


def test_one_outlet_that_is_named_in_two_ways_is_one_asset(group: FakeGroup) -> None:
    """Its URI as Airflow writes it: without a slash at the end."""
    by_uri = WrittenAsset(name="s3://lake/orders/", uri="s3://lake/orders/", rows=1)
    wrote(group, WrittenAsset(name="orders", uri="orders", rows=7), by_uri)
    values = airflow()
    waiting(outlets=[ORDERS]).execute(values)
    assert told(values) == {"orders s3://lake/orders": {**EXTRA, "rows": 16, "tasks": 4}}


@pytest.mark.parametrize("outlet", [Asset.ref(name="orders"), Asset.ref(uri="s3://lake/orders")])
def test_an_outlet_may_be_a_reference(group: FakeGroup, outlet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose asset Airflow looks up."""

    class Accessors(dict[Any, Any]):
        def __missing__(self, key: Any) -> Any:
            self[key] = OutletEventAccessors()[ORDERS]
            return self[key]

    values: Any = {**context(), "outlet_events": Accessors()}
    waiting(outlets=[outlet]).execute(values)
    assert values["outlet_events"][outlet].extra == EXTRA


def test_what_airflow_refuses_or_nobody_has_declared_is_said(group: FakeGroup) -> None:
    wrote(
        group,
        WrittenAsset(name="reserved", uri="airflow://x/y", rows=1),
        WrittenAsset(name="items", uri="items", rows=1),
    )
    values = airflow()
    with structlog.testing.capture_logs() as lines:
        waiting(outlets=[ORDERS]).execute(values)
    assert told(values) == {}
    said = "\n".join(line["event"] for line in lines)
    assert "No asset event for 'reserved' (airflow://x/y): Airflow refuses it" in said
    assert "No asset event for 'items' (items): it is not among the outlets" in said
