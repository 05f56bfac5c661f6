"""Coordinates declarative groups in the triggerer."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.integration.airflow_metadata.storable import storable, storing_failures
from airflow_provider.integration.stats.shard_metering import shard_meter
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.triggers.connections import connection_of, with_its_settings
from airflow_provider.values.saved import SAVED_VERSION, check_saved

_LOOK_S: Final = 1.0


class CoordinatorTrigger(BaseTrigger):
    """Serves shards of declarative groups until it is cancelled. All in a triggerer that use the same connection share
    one coordinator. It fires only if people must act: for example, if the connection's user lacks a right.

    :param kafka_conn_id: the connection; its contents are not stored
    :param session_timeout_ms: a member that is silent for this long is removed
    :param heartbeat_interval_ms: the time between two heartbeats of a member
    """

    def __init__(
        self, *, kafka_conn_id: str, session_timeout_ms: int, heartbeat_interval_ms: int, v: int = SAVED_VERSION
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # without hints
        check_saved({"v": v}, "CoordinatorTrigger")
        self.kafka_conn_id = kafka_conn_id
        self.coordinator = CoordinatorSettings(
            session_timeout_ms=session_timeout_ms, heartbeat_interval_ms=heartbeat_interval_ms
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "v": SAVED_VERSION,
                "kafka_conn_id": self.kafka_conn_id,
                "session_timeout_ms": self.coordinator.session_timeout_ms,
                "heartbeat_interval_ms": self.coordinator.heartbeat_interval_ms,
            },
        )

    @storing_failures
    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        async with connection_of(self.kafka_conn_id) as connection:
            # Not at the top, because a DAG file imports this module; in a thread, because Kafka's clients take their
            # time.
            await asyncio.to_thread(importlib.import_module, "airflow_provider.group.declarative.server.candidates")
            error = await with_its_settings(connection, self._coordinate)
        yield TriggerEvent({"v": SAVED_VERSION, "error": storable(error)})  # type: ignore[no-untyped-call]  # without hints

    async def _coordinate(self, settings: KafkaSettings) -> str:
        """:returns: why no groups can be coordinated until people act"""
        from airflow_provider.group.declarative.server.candidates import candidate

        async with candidate(settings, self.coordinator, shard_meter()) as server:
            while (refusal := server.refusal) is None:  # noqa: ASYNC110  it is another thread's
                await asyncio.sleep(_LOOK_S)
            return str(refusal)
