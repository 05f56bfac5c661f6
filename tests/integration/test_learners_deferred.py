"""A deferred worker that is to learn a task comes back to its process, with the real trigger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from fleet import Fleet, MakeFleet, cospark
from waiting import DEADLINE_S

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, WorkerPhase
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import ConnectProtocol, TaskId, WorkerId
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.equipment import NEVER_S, Equipment
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.holding import Holding, held
from airflow_provider.worker.settings import Until

W2 = WorkerId("w2")


@pytest.fixture(autouse=True)
def connection(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))


def spec_of(group: Fleet) -> WorkerSpec:
    member = MemberSettings(
        group_id=group.group_id,
        worker=W2,
        protocol=ConnectProtocol.EXTENSIBLE,
        session_timeout_ms=30_000,
        heartbeat_interval_ms=1_000,
    )
    return WorkerSpec(member=member, slots=2, until=Until.FOREVER, policy=Deferred(max_delay_ms=300_000))


async def in_its_process(
    group: Fleet, exit_requests: ExitRequests, saved: Mapping[str, Any] | None = None, *, linger_s: float = NEVER_S
) -> Outcome:
    """Run the worker as the operator does, but without Airflow."""
    spec = spec_of(group)
    equipment = Equipment(
        runner="noop", allowed=(), checkpoint_root="temporary", spark_master="local[1]", linger_s=linger_s
    )
    holding = Holding(
        protocol=spec.protocol(), settings=spec.settings(WorkerPhase.STABLE), place=InThisProcess(equipment)
    )
    async with held(holding, group.settings, exit_requests) as worker:
        outcome, _ = await worker.run(saved)
        return outcome


async def test_a_deferred_worker_comes_back_to_its_process_to_learn(fleet: MakeFleet) -> None:
    task = TaskId("streams", 0)
    async with fleet("--runner", "noop", "--connect-protocol", "extensible") as group:
        await group.submit("streams", tasks=1, kind=TaskKind.STREAMING, config={"warm_up_seconds": 2.0})
        group.start("w1")
        await group.balanced("w1")

        outcome = await asyncio.wait_for(in_its_process(group, ExitRequests(), linger_s=0.1), DEADLINE_S)
        assert outcome.ending is Ending.HANDED_OVER, "there is nothing for it to do"
        assert outcome.saved is not None
        trigger = WorkerTrigger(
            kafka_conn_id="broker",
            plan=spec_of(group).to_json(),
            saved=outcome.saved,
            story=WorkerStory(began_ms=wall_ms()).to_json(),
        )
        deferred = asyncio.ensure_future(anext(trigger.run()))
        await group.wait_for(
            lambda _jobs, status: status.workers[W2].state is WorkerPhase.DEFERRED, "the trigger holds it"
        )
        assert group.owned("w1") == {task}

        asked = asyncio.ensure_future(
            cospark(group, "scale", group.group_id, "--without", "w1", "--wait", "--timeout", str(DEADLINE_S))
        )
        event = await asyncio.wait_for(deferred, DEADLINE_S)
        await trigger.cleanup()
        assert (event.payload["ending"], event.payload["error"]) == (Ending.HANDED_OVER.value, None)
        assert group.owned("w1") == {task}, "its owner still runs it"

        exit_requests = ExitRequests()
        back = asyncio.ensure_future(in_its_process(group, exit_requests, event.payload["saved"]))
        assert (await asked).status == 0
        assert await group.ended("w1") == [0]
        await group.balanced("w2")
        (first, second) = (await group.starts())[task]
        assert (first.worker, second.worker) == ("w1", "w2")
        reasons = [record.reason for record in group.records]
        assert any(reason.startswith(f"a learner is ready for {task}") for reason in reasons), reasons
        exit_requests.leave("the test is over")
        assert (await asyncio.wait_for(back, DEADLINE_S)).ending is Ending.LEFT
