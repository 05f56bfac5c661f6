"""Connect's config topic in place of our jobs topic, for our workers in a group with Java workers.

A stand-in with the interface of the product's port. In a mixed group, Connect's config topic has the configuration, and
its offset is the config offset of KIP-415. Its connectors appear here as jobs: ``connector-NAME`` as a definition whose
planner is always wanted (Connect assigns a connector as long as it is configured), and the ``task-NAME-N`` of the last
``commit-NAME`` as its plan. A worker writes where it always does, to the topics of its own group.

Our workers do not run connectors: in Connect, the worker with a connector computes the configs of its tasks and has the
leader write them. The plan that our runner makes is thrown away.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.kafka.event_loops.changes import Changes
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.reader import Record, TopicReader
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskKind
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import ConfigOffset, WorkerId

_NOTHING_READ: Final = ConfigOffset(-1)
"""The offset of a Java worker that has read no record yet (``KafkaConfigBackingStore.offset``)."""

_ALWAYS_MS: Final = 10**9
"""A planner that is to plan again some day is wanted until then."""

_TASK: Final = re.compile(r"task-(?P<name>.+)-(?P<index>\d+)")


class ConfigTopic:
    """The state of Connect's config topic (Java: ``KafkaConfigBackingStore``)."""

    def __init__(self, changes: Changes) -> None:
        self.snapshot = JobsSnapshot(offset=_NOTHING_READ)
        self.end = 0
        self.problem: TopicError | None = None
        self._changes = changes
        self._connectors: dict[str, Mapping[str, str]] = {}
        self._tasks: dict[str, dict[int, Mapping[str, str]]] = {}
        self._committed: dict[str, tuple[Mapping[str, str], ...]] = {}

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            self._put((record.key or b"").decode(), json.loads(record.value) if record.value else None)
        self._take_snapshot(ConfigOffset(records[-1].offset + 1))
        self.reached(records[-1].offset + 1)

    def again(self) -> None:
        """Records may be read again: they give the same state."""

    def reached(self, offset: int) -> None:
        self.problem = None
        self.end = offset
        self._changes.tell()

    def fail(self, error: TopicError) -> None:
        self.problem = error
        self._changes.tell()

    def closed(self) -> None:
        """The reader has closed it itself."""

    def _put(self, key: str, value: Any) -> None:
        kind, _, name = key.partition("-")
        if kind == "connector" and value is None:
            for known in (self._connectors, self._tasks, self._committed):
                known.pop(name, None)
        elif kind == "connector":
            self._connectors[name] = value["properties"]
        elif kind == "task" and value is not None and (task := _TASK.fullmatch(key)):
            self._tasks.setdefault(task["name"], {})[int(task["index"])] = value["properties"]
        elif kind == "commit" and value is not None:
            configs = self._tasks.get(name, {})
            self._committed[name] = tuple(configs[index] for index in range(value["tasks"]))

    def _take_snapshot(self, offset: ConfigOffset) -> None:
        jobs = {
            name: JobDefinition(
                name=name,
                entry_point="connect:connector",
                config=config,
                max_tasks=max(1, len(self._committed.get(name, ()))),
                kind=TaskKind.STREAMING,
                replan_interval_ms=_ALWAYS_MS,
            )
            for name, config in self._connectors.items()
        }
        plans = {
            name: PlanRecord.of(jobs[name], configs, planned_by=WorkerId("connect"), at_ms=0)
            for name, configs in self._committed.items()
            if name in jobs
        }
        self.snapshot = JobsSnapshot(offset=offset, jobs=MappingProxyType(jobs), plans=MappingProxyType(plans))


class ConnectTopics(GroupTopics):
    """The topics of a group whose jobs are the connectors of Connect's config topic.

    :param config_topic: ``config.storage.topic`` of the group's Java workers; it must exist
    """

    def __init__(self, settings: KafkaSettings, group: str, config_topic: str) -> None:
        super().__init__(settings, group, WORKER)
        outage = Outage(settings.bootstrap_servers)
        self._config_changes = Changes()
        self._config_topic = config_topic
        self._config = ConfigTopic(self._config_changes)
        self._config_admin = TopicAdmin(settings.librdkafka(), outage)
        self._config_reader = TopicReader(settings.librdkafka(), outage)

    async def start(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        await super().start(timeout_s=timeout_s)
        self._config_reader.follow({self._config_topic: self._config})
        await self.catch_up(timeout_s=timeout_s)

    async def aclose(self) -> None:
        self._config_admin.close()
        await asyncio.to_thread(self._config_reader.close)
        await super().aclose()

    @property
    def jobs(self) -> JobsSnapshot:
        return self._config.snapshot

    async def catch_up(self, *, timeout_s: float | None = None) -> None:
        await super().catch_up(timeout_s=timeout_s)
        patience_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
        ends = await self._config_admin.end_offsets((self._config_topic,), timeout_s=patience_s)
        read = asyncio.Event()

        def look() -> None:
            if self._config.end >= ends[self._config_topic]:
                read.set()

        stop = self._config_changes.listen(look)
        look()
        try:
            await asyncio.wait_for(read.wait(), patience_s)
        except asyncio.TimeoutError:
            raise TopicError(f"{self._config_topic} was not read to its end: {self._config.problem}") from None
        finally:
            stop()

    def subscribe(self, listener: Callable[[], None], about: About = About.EVERYTHING) -> Callable[[], None]:
        stops = (super().subscribe(listener, about), self._config_changes.listen(listener))

        def stop() -> None:
            for each in stops:
                each()

        return stop

    async def publish_plan(self, plan: PlanRecord) -> None:
        """Not ours to write: see the top of this module."""
