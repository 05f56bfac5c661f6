"""A group whose workers are tasks of a real Airflow."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import psutil
from anyio.from_thread import start_blocking_portal
from waiting import DEADLINE_S, REST_MS, wait_until

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.integration.one_shot import GroupSnapshot, act, submit_job
from airflow_provider.kafka.group_requests.messages import GroupDescription
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.rights import STOPPER, WATCHER, WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    PlanRecord,
    RebalanceEvent,
    TaskEvent,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
)
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import WorkerId
from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApi, TaskInstance
from demo.events import read_events

_BY: Final = "ann@laptop"
EXAMPLE_GROUP: Final = f"example-{uuid.uuid4().hex[:8]}"
"""The prefix of group names that DAG files choose themselves."""
LOOKS_ONCE: Final[Mapping[str, str]] = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "86400",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": f"{DEADLINE_S:.0f}",
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": f"{DEADLINE_S:.0f}",
}
"""For an Airflow whose DAG files do not change, as each look at one costs half a second of a core. That look may take
long. See :meth:`AirflowApi.look_at_file`.
"""


class Group:
    """A group, as seen in its topics, by its coordinator, and in Airflow.

    :param name: by default a new one
    """

    def __init__(self, airflow: LocalAirflow, bootstrap_servers: str, *, name: str | None = None) -> None:
        self.name = name or f"life-{uuid.uuid4().hex[:8]}"
        self.airflow = airflow
        self.api: AirflowApi = airflow.api
        self.bootstrap_servers = bootstrap_servers
        self._settings = KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers}, conn_id="test")
        self._open = ExitStack()
        self._look: Callable[[], GroupSnapshot] | None = None

    def close(self) -> None:
        """Stop following the group's topics, which the first look at them has begun."""
        self._look = None
        self._open.close()

    def start(self, dag_id: str, **conf: object) -> str:
        self.api.wait_for_dag(dag_id)
        return self.api.trigger(dag_id, conf={"group": self.name, **conf})

    def deferred(self, dag_id: str, run_id: str, task_id: str) -> TaskInstance:
        """With its process at an end: to a task that is scheduled again before that, Airflow gives another try."""
        seen = self.api.wait_for_task(
            dag_id, run_id, task_id, states=("deferred",), where=lambda seen: seen.triggerer_job is not None
        )
        pid = seen.pid
        if pid is not None:
            wait_until(lambda: not psutil.pid_exists(pid), what=lambda: f"the process {pid} of {seen} has not ended")
        return seen

    def read(self) -> GroupSnapshot | None:
        try:
            self._look = self._look or self._follow()
            return self._look()
        except TopicError as error:
            self.close()
            if isinstance(error, NoTopicError):
                return None
            raise

    def _follow(self) -> Callable[[], GroupSnapshot]:
        """Each look waits for what has been written until then. To read all topics each time would take longer."""
        portal = self._open.enter_context(start_blocking_portal())
        topics = self._open.enter_context(
            portal.wrap_async_context_manager(GroupTopics(self._settings, self.name, WATCHER))
        )

        async def look() -> GroupSnapshot:
            await topics.catch_up()
            return GroupSnapshot(group=self.name, jobs=topics.jobs, status=topics.status)

        return lambda: portal.call(look)

    @property
    def record(self) -> GroupRecord:
        seen = self.read()
        assert seen is not None
        assert seen.status.group is not None
        return seen.status.group

    def wait_for(self, condition: Callable[[GroupSnapshot], object], what: str) -> GroupSnapshot:
        last: GroupSnapshot | None = None

        def holds() -> GroupSnapshot | None:
            nonlocal last
            last = self.read()
            return last if last is not None and condition(last) else None

        return self.api.wait_until(holds, what=lambda: f"not so: {what}: {last and last.status}")

    def wait_for_members(self, *workers: str) -> GroupRecord:
        seen = self.wait_for(
            lambda seen: seen.status.group is not None and set(seen.status.group.members) == set(workers),
            f"the group's members are {workers}",
        )
        assert seen.status.group is not None
        return seen.status.group

    def wait_for_running(self, job: str, tasks: int) -> GroupSnapshot:
        return self.wait_for(
            lambda seen: (
                sum(status.state is TaskState.RUNNING and task.job == job for task, status in seen.status.tasks.items())
                == tasks
            ),
            f"{tasks} tasks of {job} run",
        )

    def settled(self, tasks: int, *workers: str) -> GroupSnapshot:
        """Wait until these workers run so many tasks, exactly those that they own, and no round follows."""
        return self.wait_for(
            lambda seen: (
                seen.status.group is not None
                and set(seen.status.group.members) == set(workers)
                and _now_ms() - seen.status.group.at_ms > REST_MS
                and sum(
                    status.state is TaskState.RUNNING and task in seen.status.group.owned_by(status.worker)
                    for task, status in seen.status.tasks.items()
                    if not task.is_planner
                )
                == tasks
            ),
            f"{tasks} tasks run on {workers}",
        )

    def wait_for_spark(self, worker: TaskInstance) -> psutil.Process:
        """The JVM of a running worker, once it is there."""

        def jvm() -> psutil.Process | None:
            children = psutil.Process(self.api.running_pid(worker)).children(recursive=True)
            return next((child for child in children if child.name() == "java"), None)

        return self.api.wait_until(jvm, what=lambda: f"{worker} has no JVM")

    def stop_workers(self) -> None:
        """Stop them, also those that stand back: they would occupy Airflow's slots in the next test."""
        seen = self.read()
        for worker, said in seen.status.workers.items() if seen else ():
            if said.state is not WorkerPhase.LEFT:
                self.ask(worker, ControlAction.STOP)

    def ask(self, worker: WorkerId, action: ControlAction) -> None:
        wish = ControlRecord(worker=worker, action=action, at_ms=_now_ms())
        act(self._settings, self.name, STOPPER, lambda topics: topics.publish_control(wish))

    def submit(self, job: str, *, tasks: int, entry_point: str, kind: TaskKind, **config: object) -> None:
        """Submit a job without Airflow, parts of which may be away."""
        definition = JobDefinition(
            name=job,
            entry_point=entry_point,
            max_tasks=tasks,
            kind=kind,
            config=config,
            submitted_at_ms=_now_ms(),
            submitted_by=_BY,
        )
        submit_job(self._settings, self.name, definition)

    def submit_planned(
        self,
        job: str,
        configs: Sequence[Mapping[str, object]],
        *,
        run_key: str = "",
        entry_point: str = "jobs:Nap",
        config_schema: Mapping[str, object] | None = None,
    ) -> None:
        """Submit a job for the noop runner with its plan: its own planner would give all tasks the same config."""
        definition = JobDefinition(
            name=job,
            entry_point=entry_point,
            max_tasks=len(configs),
            run_key=run_key,
            submitted_at_ms=_now_ms(),
            submitted_by=_BY,
        )
        plan = PlanRecord.of(
            definition, configs, planned_by=WorkerId("test"), at_ms=_now_ms(), config_schema=config_schema
        )

        async def publish() -> None:
            async with shared_topics(self._settings, self.name, WORKER) as topics:
                await topics.publish_plan(plan)
                await topics.submit(definition)

        asyncio.run(publish())

    def steps(self) -> list[TaskStatus]:
        """Every step of every task so far, from the timeline; the status topic keeps only each task's last one."""
        return [event.status for event in read_events(self._settings, self.name) if isinstance(event, TaskEvent)]

    def rounds(self) -> list[GroupRecord]:
        """Every rebalance so far."""
        return [event.record for event in read_events(self._settings, self.name) if isinstance(event, RebalanceEvent)]

    def described(self) -> GroupDescription:
        """The group as its coordinator describes it now."""

        async def describe() -> GroupDescription:
            async with GroupTransport(self._settings) as transport:
                (description,) = await transport.describe([self.name])
            return description

        return asyncio.run(describe())


def _now_ms() -> int:
    return int(time.time() * 1000)
