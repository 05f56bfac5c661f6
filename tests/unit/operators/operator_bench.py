"""What surrounds an operator in its tests: a group without a broker, and a worker that ends as the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow_values import jobs_snapshot

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.lineage_events.lineage import LineageTeller
from airflow_provider.integration.linking import FollowedLink
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.topic_writer import Submission
from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.operators.task_process.tries import Tries
from airflow_provider.operators.task_process.worker_run import RunResult
from airflow_provider.state.records import JobDefinition
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.worker.endings.after_ending import Finding, Process, what_next
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.equipment import Equipment

SETTINGS = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092"}, conn_id="kafka_default")


def job_operator(**parameters: Any) -> SparkJobOperator:
    return SparkJobOperator(
        **{"task_id": "t", "group": "g", "job": "job", "entry_point": "module:Job", "max_tasks": 9, **parameters}
    )


def worker_operator(**parameters: Any) -> SparkWorkerOperator:
    return SparkWorkerOperator(**{"task_id": "w", "group": "g", "allowed_entry_points": ["jobs"], **parameters})


async def _nowhere(_link: str) -> None: ...


NO_LINK = FollowedLink("", _nowhere)


class FakeGroup:
    """What the hook does to a group, without a broker.

    :ivar has_members: what the coordinator says
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.submitted: list[JobDefinition] = []
        self.removed: list[tuple[str, str]] = []
        self.retried: list[tuple[str, list[int] | None]] = []
        self.failed: tuple[TaskId, ...] = ()
        self.jobs = JobsSnapshot()
        self.status = StatusSnapshot()
        self.names: list[str] = []
        self.known = False
        self.has_members: bool | None = None
        monkeypatch.setattr(SparkGroupHook, "get_settings", lambda _hook: SETTINGS)
        for name in ("submit_job", "remove_job", "retry_failed", "look", "look_now", "wait_for", "groups"):
            monkeypatch.setattr(SparkGroupHook, name, getattr(self, name))  # bound, and so without the hook

    def submit_job(self, _group: str, definition: JobDefinition) -> Submission:
        self.submitted.append(definition)
        if not self.jobs.jobs:
            self.jobs = jobs_snapshot(definition)
        return Submission(definition=definition, changed=not self.known, retried=self.failed)

    def remove_job(self, _group: str, name: str, *, by: str) -> bool:
        self.removed.append((name, by))
        return True

    def retry_failed(
        self, _group: str, name: str, tasks: list[int] | None = None, *, by: str | None = None
    ) -> list[str]:
        assert by == "dag.task (r1)"
        self.retried.append((name, tasks))
        return [f"{name}:1"]

    def groups(self) -> list[str]:
        return self.names

    def look(self, _group: str, read: Callable[..., Any]) -> Any:
        return read(self.jobs, self.status)

    def look_now(self, _group: str, read: Callable[..., Any]) -> Any:
        told = {None: self.status, False: self.status.without_members(), True: self.status.with_members()}
        return read(self.jobs, told[self.has_members])

    def wait_for(self, group: str, read: Callable[..., Any], *, timeout_s: float | None = None) -> Any:
        answer = self.look_now(group, read)
        assert answer is not None, "it would wait for ever"
        return answer


class FakeRun:
    """A worker that ends as the test says."""

    endings: list[Outcome]
    made: list[FakeRun]
    status: StatusSnapshot

    def __init__(
        self,
        spec: WorkerSpec,
        equipment: Equipment,
        kafka: KafkaSettings,
        story: WorkerStory,
        saved: Any,
        tries: Tries,
        link: FollowedLink,
        lineage: LineageTeller,
    ):
        self.link, self.lineage = link, lineage
        self.spec, self.equipment, self.kafka, self.story, self.saved = spec, equipment, kafka, story, saved
        self.tries = tries
        self.left = False
        self.why_ended = "its task was marked failed"
        self.while_it_runs: Callable[[], None] = lambda: None
        self.made.append(self)

    def run(self) -> RunResult:
        self.while_it_runs()
        ended = self.endings.pop(0)
        found = Finding.STUCK if ended.still_running else Finding.NOTHING
        return RunResult(
            outcome=ended,
            then=what_next(Process.TASK, ended.ending, found),
            story=self.story.in_epochs(1, 3).stopped_more(1),
            status=self.status,
        )

    def leave(self) -> None:
        self.left = True


def outcome(ending: Ending, **more: Any) -> Outcome:
    return Outcome(ending=ending, epoch=Epoch(3), **more)
