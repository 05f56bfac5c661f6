"""What stands in for a part of ours in the unit tests takes no more than that part takes by now."""

from __future__ import annotations

import pytest
from operator_bench import FakeGroup, FakeRun
from stand_ins import HandRunner, IdleListener, LonelyCoordinator, SlowCoordinator
from strict_patching import takes_more
from trigger_bench import FakeTopics, FakeWorker

from airflow_provider.group.membership import MembershipListener
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.operators.task_process.worker_run import WorkerRun
from airflow_provider.spark.runner import Runner
from airflow_provider.worker.worker import Worker


@pytest.mark.parametrize(
    ("stand_in", "real"),
    [
        (HandRunner, Runner),
        (IdleListener, MembershipListener),
        (LonelyCoordinator, GroupTransport),
        (SlowCoordinator, GroupTransport),
        (FakeTopics, GroupTopics),
        (FakeGroup, SparkGroupHook),
        (FakeRun, WorkerRun),
        (FakeWorker, Worker),
    ],
)
def test_it_has_not_drifted(stand_in: type, real: type) -> None:
    shared = {name for name, part in vars(stand_in).items() if callable(part) and not name.startswith("_")} & {
        *dir(real)
    }
    assert shared
    drifted = {name: takes_more(getattr(stand_in, name), getattr(real, name)) for name in shared}
    assert {name: excess for name, excess in drifted.items() if excess} == {}
