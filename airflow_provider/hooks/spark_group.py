"""How DAG authors reach a group: its jobs, its workers, its epochs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import BaseHook

from airflow_provider.hooks.reports import GroupReport, JobReport
from airflow_provider.kafka.log_errors import LogError, NoTopicError
from airflow_provider.kafka.records import JobDefinition, TaskState
from airflow_provider.kafka.settings import KafkaSettings, SettingsError

if TYPE_CHECKING:
    from airflow_provider.kafka.jobs_view import JobsSnapshot
    from airflow_provider.kafka.logs import GroupLogs, Submission
    from airflow_provider.kafka.status_view import StatusSnapshot

T = TypeVar("T")


class SparkGroupHook(BaseHook):
    """Submits and removes the jobs of a group of workers, and tells what becomes of them.

    Each method has an asynchronous twin whose name begins with ``a``, for triggers and asynchronous tasks.

    :param kafka_conn_id: a connection of type ``kafka``: librdkafka's configuration in its extra, as for Airflow's own
        Kafka provider. Its user needs the rights to read, write and make ``<group>.jobs``, ``<group>.status`` and
        ``<group>.events``
    """

    conn_name_attr: ClassVar[str] = "kafka_conn_id"
    default_conn_name: ClassVar[str] = "kafka_default"
    conn_type: ClassVar[str] = "kafka"
    hook_name: ClassVar[str] = "Apache Kafka"

    def __init__(self, kafka_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    # ---- the connection

    def get_settings(self) -> KafkaSettings:
        """The connection's settings.

        :raises SettingsError: if it can't be used
        """
        return _settings_of(self.get_connection(self.kafka_conn_id), self.kafka_conn_id)

    async def aget_settings(self) -> KafkaSettings:
        return _settings_of(await self.aget_connection(self.kafka_conn_id), self.kafka_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Whether a broker answers, for the button in Airflow's UI."""
        try:
            groups = self.groups(timeout_s=10.0)
        except (LogError, SettingsError) as failed:
            return False, str(failed)
        return True, f"The broker answers; worker groups that can be seen: {', '.join(groups) or 'none yet'}"

    # ---- jobs

    def submit_job(self, group: str, definition: JobDefinition) -> Submission:
        """Ask the group to run a job; makes the group's topics if they are missing.

        The same definition under the same run key changes nothing. Without ``submitted_at_ms`` it is submitted now.

        :raises LogError: if the topics can't be made, read or written; says what is missing
        """
        return self._with(self.get_settings(), lambda settings: self._submit(settings, group, definition))

    async def asubmit_job(self, group: str, definition: JobDefinition) -> Submission:
        return await self._submit(await self.aget_settings(), group, definition)

    def remove_job(self, group: str, job: str) -> bool:
        """Ask the group to run a job no more; its tasks are stopped, and it is forgotten how far they were.

        :returns: whether there was such a job
        :raises LogError: as :meth:`submit_job`
        """
        return self._with(self.get_settings(), lambda settings: self._remove(settings, group, job))

    async def aremove_job(self, group: str, job: str) -> bool:
        return await self._remove(await self.aget_settings(), group, job)

    def retry_failed(self, group: str, job: str) -> list[str]:
        """Have those tasks of the job's present run tried again that failed for good.

        :returns: which
        :raises LogError: as :meth:`submit_job`
        """
        return self._with(self.get_settings(), lambda settings: self._retry_failed(settings, group, job))

    # ---- what becomes of them

    def job_progress(self, group: str, job: str) -> JobReport | None:
        """How far the present run of a job is; None if the group has no such job."""
        return self.look(group, lambda jobs, status: JobReport.of(job, jobs, status))

    def group_state(self, group: str) -> GroupReport | None:
        """The group's present epoch: members, who has what, what moved; None before its first rebalance."""
        return self.look(group, lambda _, status: GroupReport.of(status))

    def look(self, group: str, read: Callable[[JobsSnapshot, StatusSnapshot], T | None]) -> T | None:
        """What ``read`` makes of the group's topics as they are now; None if they do not exist.

        :raises LogError: if they can't be read
        """
        return self._with(self.get_settings(), lambda settings: self._look(settings, group, read))

    def wait_for(
        self, group: str, read: Callable[[JobsSnapshot, StatusSnapshot], T | None], *, timeout_s: float | None = None
    ) -> T:
        """What ``read`` makes of the group's topics, as soon as it makes something of them.

        :param timeout_s: how long to wait, in seconds; without end if None
        :raises LogTimeoutError: if it made nothing of them in time
        :raises LogError: if they can't be read
        """
        return self._with(self.get_settings(), lambda settings: self._wait_for(settings, group, read, timeout_s))

    def groups(self, *, timeout_s: float = 30.0) -> list[str]:
        """The groups whose topics the connection's user can see.

        :raises LogError: if no broker answers in time
        """
        from airflow_provider.kafka.admin import TopicAdmin
        from airflow_provider.kafka.outage import Outage

        async def ask(settings: KafkaSettings) -> list[str]:
            admin = TopicAdmin(settings.librdkafka(), Outage(settings.bootstrap_servers))
            return await admin.groups(timeout_s=timeout_s)

        return self._with(self.get_settings(), ask)

    # ---- on an event loop

    @staticmethod
    def _with(settings: KafkaSettings, act: Callable[[KafkaSettings], Awaitable[T]]) -> T:
        """Settings come from Airflow before the loop runs, so that Airflow is only ever asked by the task's thread."""

        async def run() -> T:
            return await act(settings)

        return asyncio.run(run())

    async def _submit(self, settings: KafkaSettings, group: str, definition: JobDefinition) -> Submission:
        if not definition.submitted_at_ms:
            definition = replace(definition, submitted_at_ms=int(time.time() * 1000))
        async with _started(settings, group) as logs:
            return await logs.submit(definition)

    async def _remove(self, settings: KafkaSettings, group: str, job: str) -> bool:
        async with _started(settings, group) as logs:
            return await logs.remove(job)

    async def _retry_failed(self, settings: KafkaSettings, group: str, job: str) -> list[str]:
        async with _started(settings, group) as logs:
            await logs.catch_up()
            definition = logs.jobs.jobs.get(job)
            if definition is None:
                return []
            failed = [
                status
                for task, status in sorted(logs.status.tasks.items())
                if task.job == job and status.state is TaskState.FAILED and status.run_key == definition.run_key
            ]
            for status in failed:
                await logs.publish_task(replace(status, state=TaskState.STOPPED, failures=0))
            return [str(status.task) for status in failed]

    async def _wait_for(
        self,
        settings: KafkaSettings,
        group: str,
        read: Callable[[JobsSnapshot, StatusSnapshot], T | None],
        timeout_s: float | None,
    ) -> T:
        made: list[T] = []

        def holds(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            answer = read(jobs, status)
            if answer is not None:
                made.append(answer)
            return answer is not None

        async with _started(settings, group) as logs:
            await logs.catch_up()
            await logs.wait_for(holds, timeout_s=timeout_s)
            return made[0]

    async def _look(
        self, settings: KafkaSettings, group: str, read: Callable[[JobsSnapshot, StatusSnapshot], T | None]
    ) -> T | None:
        from airflow_provider.kafka.logs import GroupLogs

        logs = GroupLogs(settings, group)
        logs.attach()
        try:
            await logs.catch_up()
            return read(logs.jobs, logs.status)
        except NoTopicError:
            return None
        finally:
            await logs.aclose()


@asynccontextmanager
async def _started(settings: KafkaSettings, group: str) -> AsyncIterator[GroupLogs]:
    from airflow_provider.kafka.logs import GroupLogs

    async with GroupLogs(settings, group) as logs:
        yield logs


def _settings_of(connection: Any, conn_id: str) -> KafkaSettings:
    return KafkaSettings.from_extra(connection.extra, conn_id=conn_id)
