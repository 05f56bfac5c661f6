"""Workers that begin deferred. Otherwise Airflow would need a process of three seconds to start each of them.

They differ from others in nothing else. Airflow gives all instances of a mapped task that starts from its trigger the
same arguments, so the trigger itself finds out which worker it holds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from airflow.triggers.base import StartTriggerArgs, TriggerEvent

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.saved import save
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory, default_worker_name
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.settings import Until


class HeldTrigger(WorkerTrigger):
    """The trigger of a worker that deferred before it joined; its group is named after its DAG."""

    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        ti: Any = self.task_instance
        member = replace(self.spec.member, group_id=ti.dag_id, worker=WorkerId(default_worker_name(ti)), url=ti.log_url)
        self.spec = replace(self.spec, member=member)
        async for event in super().run():
            yield event


def _arguments() -> StartTriggerArgs:
    member = MemberSettings(group_id="each.its.own", worker=WorkerId("each.its.own"), url="", session_timeout_ms=60_000)
    saved = save(MemberState(settings=member), now_ms=now_ms(), wall_ms=wall_ms())
    trigger = HeldTrigger(
        kafka_conn_id=SparkGroupHook.default_conn_name,
        plan=WorkerSpec(member=member, slots=2, until=Until.FOREVER, policy=Deferred()).to_json(),
        saved={"v": 1, "member": saved, "began_ms": wall_ms()},
        story=WorkerStory(began_ms=wall_ms()).to_json(),
    )
    path, arguments = trigger.serialize()
    return StartTriggerArgs(trigger_cls=path, trigger_kwargs=arguments, next_method="resume")


class HeldWorkerOperator(SparkWorkerOperator):
    """A worker that begins in the triggerer; from its first task on it is like any other."""

    start_from_trigger = True
    start_trigger_args = _arguments()
