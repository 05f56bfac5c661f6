"""Uses a group's topics from code without an event loop (operators, the CLI, a page): each call opens, acts, closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

from airflow_provider.integration.interruptible import wait_for
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import STEERER, STOPPER, SUBMITTER, Needs
from airflow_provider.kafka.topics.topic_writer import GroupTopics, Submission
from airflow_provider.state.operations.operations import Operation, Outcome, Rebalance, SetLogLevel
from airflow_provider.state.records import JobDefinition
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """The content of a group's topics."""

    group: str
    jobs: JobsSnapshot
    status: StatusSnapshot


def list_groups(settings: KafkaSettings, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[str]:
    """The groups whose topics this connection can see.

    :raises BrokerAwayError: if no broker answers in time
    """
    with closing(TopicAdmin(settings.librdkafka(), Outage(settings.bootstrap_servers))) as admin:
        return run(lambda: admin.groups(timeout_s=timeout_s))


def read_group(settings: KafkaSettings, group: str, *, timeout_s: float | None = None) -> GroupSnapshot:
    """Read a group's topics to their end. Creates none.

    :param timeout_s: the longest time; None: as long as there is progress. Another try starts from the beginning
    :raises NoTopicError: if there is no such group
    :raises TopicError: if its topics can't be read
    """

    async def read() -> GroupSnapshot:
        topics = GroupTopics(settings, group)
        topics.attach()
        try:
            await topics.catch_up(timeout_s=timeout_s)
            return GroupSnapshot(group=group, jobs=topics.jobs, status=topics.status)
        finally:
            await topics.aclose()

    return run(read)


def act(settings: KafkaSettings, group: str, needs: Needs, work: Callable[[GroupTopics], Awaitable[T]]) -> T:
    """What ``work`` makes of a group's topics.

    :param needs: the rights that the connection's user must have
    :raises NoTopicError: if there is no such group, unless ``needs`` says to create its topics
    """

    async def acting() -> T:
        async with GroupTopics(settings, group, needs) as topics:
            return await work(topics)

    return run(acting)


def submit_job(settings: KafkaSettings, group: str, definition: JobDefinition) -> Submission:
    """As :meth:`GroupTopics.submit`; creates the group's topics if they are missing."""
    return act(settings, group, SUBMITTER, lambda topics: topics.submit(definition))


def carry_out(settings: KafkaSettings, group: str, operation: Operation, *, by: str) -> Outcome:
    """As :meth:`GroupTopics.carry_out`."""
    needs = STOPPER if isinstance(operation, SetLogLevel | Rebalance) else STEERER
    return act(settings, group, needs, lambda topics: topics.carry_out(operation, by=by))


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, in another thread, and return its result.

    This thread may have a running loop, as in an asynchronous task. And signals are handled in the main thread, which
    only waits.
    """
    with start_blocking_portal() as portal:
        working = portal.start_task_soon(work)
        wait_for(working)
        result: T = working.result()
        return result
