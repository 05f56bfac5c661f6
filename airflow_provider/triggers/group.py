"""Waits for a condition in a group's topics, for sensors and operators."""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.integration.airflow_metadata.storable import storable, storing_failures
from airflow_provider.integration.linking import following_leader, link_of_trigger
from airflow_provider.integration.links import group_link
from airflow_provider.integration.memberships.group_now import group_now
from airflow_provider.integration.task_failures.patience import patiently
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import LastingError
from airflow_provider.triggers.conditions import condition_from_json
from airflow_provider.triggers.connections import connection_of, with_its_settings
from airflow_provider.triggers.resume_delay import pause_left_s
from airflow_provider.triggers.telling import telling_so_far
from airflow_provider.triggers.watching import answer_to
from airflow_provider.values.saved import SAVED_VERSION, check_saved

if TYPE_CHECKING:
    from airflow_provider.state.reports.standing import SoFar
    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot


_GIVEN_UP: Final = "given_up"


def given_up(why: Exception, link: str) -> dict[str, Any]:
    """The event of a trigger that gives up."""
    return {"link": link, _GIVEN_UP: storable(str(why))}


def check_not_given_up(event: Mapping[str, Any]) -> None:
    """:raises AirflowFailException: if the trigger has given up, because of a problem that lasts until somebody acts"""
    if _GIVEN_UP in event:
        raise AirflowFailException(event[_GIVEN_UP])


class GroupTrigger(BaseTrigger):
    """Fires once: when its condition holds, or when it gives up (:func:`check_not_given_up`). It follows the topics,
    shared by all triggers of a group. Only whether the group has any workers is polled, for all groups together.

    It waits for a broker that is away, for topics that do not exist yet, and for a connection that can't be used.

    :param kafka_conn_id: the connection; its contents are not stored
    :param group: the group
    :param condition: see :mod:`airflow_provider.triggers.conditions`
    :param deferred_at_ms: when the task deferred (wall clock, milliseconds since 1970)
    :param carried: returned in the event
    :param link: where the task's link to its group leads; it follows the leader
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str,
        group: str,
        condition: Mapping[str, Any],
        deferred_at_ms: int = 0,
        carried: Mapping[str, Any] | None = None,
        link: str = "",
        v: int = SAVED_VERSION,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # without hints
        check_saved({"v": v}, "GroupTrigger")
        self.kafka_conn_id = kafka_conn_id
        self.group = group
        self.condition = condition_from_json(condition)
        self.deferred_at_ms = deferred_at_ms
        self.carried = dict(carried or {})
        self._link = link_of_trigger(self, link)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "v": SAVED_VERSION,
                "kafka_conn_id": self.kafka_conn_id,
                "group": self.group,
                "condition": self.condition.to_json(),
                "deferred_at_ms": self.deferred_at_ms,
                "carried": self.carried,
                "link": self._link.shown,
            },
        )

    @storing_failures
    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        async with connection_of(self.kafka_conn_id) as connection:
            # Not at the top, because a DAG file imports this module; in a thread, because Kafka's clients take their
            # time.
            await asyncio.to_thread(importlib.import_module, "airflow_provider.integration.memberships.deserted")
            try:
                event = await with_its_settings(connection, self._wait)
            except LastingError as wrong:
                event = {**given_up(wrong, self._link.shown), "carried": self.carried}
        await asyncio.sleep(pause_left_s(self.deferred_at_ms))
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # without hints

    async def _wait(self, settings: KafkaSettings) -> dict[str, Any]:
        return await patiently(functools.partial(self._watch, settings), f"The wait for group {self.group}")

    def _so_far(self, jobs: JobsSnapshot, status: StatusSnapshot) -> SoFar:
        return self.condition.so_far(jobs, status).of_group(self.group)

    async def _watch(self, settings: KafkaSettings) -> dict[str, Any]:
        from airflow_provider.group.live.shared import watched_topics

        async with watched_topics(settings, self.group) as topics, group_now(settings, self.group, topics) as now:
            telling, following = (
                telling_so_far(now, self.condition, self._so_far),
                following_leader(now, self._link),
            )
            async with telling, following:
                answer = await answer_to(now, self.condition)
            link = group_link(now.status) or self._link.led_to  # to the last leader, where all have left
            entered: dict[str, Any] = storable({"link": link, "carried": self.carried, **answer.to_json()})
            return entered
