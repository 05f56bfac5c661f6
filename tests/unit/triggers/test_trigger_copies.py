"""Two copies of a trigger, in two triggerers, of which one has stalled or knows less than the other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from airflow_values import worker_status
from trigger_bench import SAVED, SPEC, Triggerer, worker_trigger
from waiting import DEADLINE_S, eventually

from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers import worker as worker_module
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.endings.ending import Ending

PAGE = "http://airflow.example/dags/d/runs/r/tasks/w?try_number=1"


@pytest.fixture
async def triggerer(monkeypatch: pytest.MonkeyPatch) -> Triggerer:
    return Triggerer(monkeypatch)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_STALE_S", 0.001)


def said(state: WorkerPhase, *, at_ms: int, page: str = PAGE) -> StatusSnapshot:
    status = replace(worker_status("w1", 4, state), url=page, at_ms=at_ms)
    return StatusSnapshot(workers={WorkerId("w1"): status})


def trigger_of_page() -> WorkerTrigger:
    spec = replace(SPEC, member=replace(SPEC.member, url=PAGE))
    return worker_trigger(plan=spec.to_json(), deferred_at_ms=5_000)


@pytest.mark.parametrize(
    "status",
    [
        StatusSnapshot(),
        said(WorkerPhase.STABLE, at_ms=4_000),
        said(WorkerPhase.STABLE, at_ms=60_000, page="http://airflow.example/dags/d/runs/other/tasks/w"),
    ],
    ids=["nothing", "by the task before it deferred", "by another task"],
)
async def test_the_first_copy_goes_on_as_the_same_member(status: StatusSnapshot, triggerer: Triggerer) -> None:
    triggerer.topics.now(status=status)
    trigger = trigger_of_page()
    await triggerer.start(trigger)
    assert triggerer.saved == [SAVED]
    await trigger.cleanup()


async def test_a_second_copy_takes_the_name_and_is_a_new_member(triggerer: Triggerer) -> None:
    """The coordinator tells the two apart, and fences the first one."""
    triggerer.topics.now(status=said(WorkerPhase.DEFERRED, at_ms=6_000))
    trigger = trigger_of_page()
    await triggerer.start(trigger)
    (saved,) = triggerer.saved
    assert (saved["member"]["member_id"], saved["member"]["generation"]) == ("", -1)
    await trigger.cleanup()


async def test_a_copy_that_starts_when_the_task_has_gone_on_stays_away(triggerer: Triggerer) -> None:
    triggerer.topics.now(status=said(WorkerPhase.STABLE, at_ms=60_000))
    triggerer.task_state = "running"
    trigger = trigger_of_page()
    running = triggerer.run(trigger)
    await eventually(lambda: triggerer.state_lookups >= 3)
    assert triggerer.worker is None, "the coordinator heard nothing of it"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.wait_for(trigger.on_kill(), DEADLINE_S)
    await trigger.cleanup()


async def test_a_fenced_copy_does_not_fire(triggerer: Triggerer) -> None:
    trigger = trigger_of_page()
    running = await triggerer.start(trigger)
    triggerer.topics.now(status=said(WorkerPhase.STABLE, at_ms=60_000))
    triggerer.task_state = "running"
    assert triggerer.worker
    triggerer.worker.end(Ending.FENCED, error="another process")
    await eventually(lambda: triggerer.state_lookups >= 3)
    assert not running.done(), "its event would resume a task that goes on elsewhere"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await trigger.cleanup()


async def test_the_copy_that_airflow_means_takes_the_name_back(triggerer: Triggerer) -> None:
    """Fenced by one that started late, and is taken away by now."""
    trigger = trigger_of_page()
    running = await triggerer.start(trigger)
    triggerer.topics.now(status=said(WorkerPhase.DEFERRED, at_ms=60_000))
    first = triggerer.worker
    assert first
    first.end(Ending.FENCED, error="another process")
    await eventually(lambda: triggerer.worker is not first)
    assert triggerer.worker
    assert [saved["member"]["member_id"] for saved in triggerer.saved] == ["w1-member", ""]
    triggerer.worker.end(Ending.DRAINED)
    assert len(await asyncio.wait_for(running, DEADLINE_S)) == 1


async def test_fenced_by_another_task_it_is_the_operators_matter(triggerer: Triggerer) -> None:
    """Also when that one's first words come late."""
    trigger = trigger_of_page()
    running = await triggerer.start(trigger)
    triggerer.topics.now(status=said(WorkerPhase.DEFERRED, at_ms=6_000))
    assert triggerer.worker
    triggerer.worker.end(Ending.FENCED, error="another process")
    other = "http://airflow.example/dags/d/runs/other/tasks/w"
    triggerer.topics.now(status=said(WorkerPhase.JOINING, at_ms=60_000, page=other))
    (event,) = await asyncio.wait_for(running, DEADLINE_S)
    assert event.payload["ending"] == "fenced"
