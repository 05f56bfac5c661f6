"""What tests write to the topics of a group on a real broker, and how they wait for it."""

from __future__ import annotations

from typing import Any

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, WorkerId

W1 = WorkerId("w1")
JOB = JobDefinition(name="flights", entry_point="jobs:Flights", max_tasks=3, run_key="r1", submitted_at_ms=1)
PLAN = PlanRecord.of(JOB, [{"month": 1}, {"month": 2}], planned_by=W1, at_ms=2)
TASK = TaskId("flights", 0)


def settings_of(bootstrap_servers: str, **extra: Any) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers, **extra}, conn_id="kafka_test")


def task_status(epoch: int, state: TaskState = TaskState.RUNNING, **others: Any) -> TaskStatus:
    return TaskStatus(**{"task": TASK, "state": state, "epoch": Epoch(epoch), "worker": W1, "run_key": "r1", **others})
