"""Opens the topics of groups, and asks their coordinators, with one of Airflow's connections to Kafka."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from airflow.sdk import BaseHook

from airflow_provider.hooks.kafka_connection import defined, settings_in
from airflow_provider.integration.task_failures.patience import patiently
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.rights import Needs

if TYPE_CHECKING:
    from airflow_provider.integration.one_shot import GroupSnapshot
    from airflow_provider.kafka.topics.topic_writer import GroupTopics
    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot

T = TypeVar("T")
Read: TypeAlias = "Callable[[JobsSnapshot, StatusSnapshot], T | None]"


class GroupAccess(BaseHook):
    """What all calls of :class:`~airflow_provider.hooks.spark_group.SparkGroupHook` need of Kafka.

    :param kafka_conn_id: as there
    """

    conn_name_attr: ClassVar[str] = "kafka_conn_id"
    default_conn_name: ClassVar[str] = "kafka_default"
    conn_type: ClassVar[str] = "kafka"
    hook_name: ClassVar[str] = "Apache Kafka"

    def __init__(self, kafka_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def get_settings(self) -> KafkaSettings:
        """The connection's settings.

        :raises SettingsError: if it can't be used
        """
        with defined(self.kafka_conn_id):
            connection = self.get_connection(self.kafka_conn_id)
        return settings_in(connection, self.kafka_conn_id)

    async def aget_settings(self) -> KafkaSettings:
        with defined(self.kafka_conn_id):
            connection = await self.aget_connection(self.kafka_conn_id)
        return settings_in(connection, self.kafka_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Whether a broker answers, for the button in Airflow's UI."""
        try:
            groups = self.groups(timeout_s=10.0)
        except (TopicError, SettingsError) as failed:
            return False, str(failed)
        return True, f"The broker answers; groups of workers that can be seen: {', '.join(groups) or 'none yet'}"

    def groups(self, *, timeout_s: float = 30.0) -> list[str]:
        """The groups whose topics the connection's user can see.

        :raises TopicError: if no broker answers in time
        """
        from airflow_provider.integration import one_shot

        return one_shot.list_groups(self.get_settings(), timeout_s=timeout_s)

    def look(self, group: str, read: Read[T]) -> T | None:
        """Call ``read`` with the group's topics as they are now; None if they do not exist.

        :raises TopicError: if they can't be read
        """
        seen = self._read(group)
        return None if seen is None else read(seen.jobs, seen.status)

    def wait_for(self, group: str, read: Read[T], *, timeout_s: float | None = None) -> T:
        """Wait until ``read``, called with the group's topics and the coordinator's word on who is left, returns
        something, and return that. Also waits until the topics exist.

        :param timeout_s: how long to wait, also for a broker that is away, in seconds; None: without limit
        :raises PassingError: if it has not returned anything in time
        :raises TopicError: if they can't be read
        """
        made: list[T] = []

        def holds(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            answer = read(jobs, status)
            if answer is not None:
                made.append(answer)
            return answer is not None

        until = math.inf if timeout_s is None else time.monotonic() + timeout_s

        def left_s() -> float | None:
            return None if timeout_s is None else max(0.0, until - time.monotonic())

        async def wait(settings: KafkaSettings) -> T:
            from airflow_provider.group.live.shared import watched_topics
            from airflow_provider.integration.memberships.group_now import group_now

            watched = watched_topics(settings, group, timeout_s=left_s())
            async with watched as topics, group_now(settings, group, topics) as now:
                await topics.wait_for(holds, timeout_s=left_s(), seen=now)
                return made[0]

        who = f"The wait for group {group}"
        return self._run(lambda settings: patiently(partial(wait, settings), who, until=until))

    def look_now(self, group: str, read: Read[T]) -> T | None:
        """As :meth:`look`, with the coordinator's word on who is left. If none answers, the topics alone say it."""
        seen = self._read(group)
        if seen is None:
            return None
        status = seen.status
        with suppress(TransportError, TopicError):
            status = self._of_those_left(group, seen)
        return read(seen.jobs, status)

    def _look_for_certain(self, group: str, read: Read[T]) -> T | None:
        """As :meth:`look_now`.

        :raises TransportError: if no coordinator answers
        :raises TopicError: as :meth:`look`, also for the records of declarative groups
        """
        seen = self._read(group)
        return None if seen is None else read(seen.jobs, self._of_those_left(group, seen))

    def _of_those_left(self, group: str, seen: GroupSnapshot) -> StatusSnapshot:
        from airflow_provider.integration.memberships.deserted import status_of_those_left

        return self._run(partial(status_of_those_left, group, seen))

    def _read(self, group: str) -> GroupSnapshot | None:
        from airflow_provider.integration import one_shot

        try:
            return one_shot.read_group(self.get_settings(), group)
        except NoTopicError:
            return None

    def _act(self, group: str, needs: Needs, act: Callable[[GroupTopics], Awaitable[T]]) -> T | None:
        """Call ``act`` with the group's topics; None if they do not exist."""
        from airflow_provider.integration import one_shot

        try:
            return one_shot.act(self.get_settings(), group, needs, act)
        except NoTopicError:
            return None

    def _run(self, ask: Callable[[KafkaSettings], Coroutine[Any, Any, T]]) -> T:
        from airflow_provider.integration import one_shot

        settings = self.get_settings()  # before the loop runs, because only the task's own thread may ask Airflow
        return one_shot.run(lambda: ask(settings))
