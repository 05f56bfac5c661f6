"""The operator that runs a coordinator of declarative groups as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.operator_parameters.parameters import TimeSpan, milliseconds
from airflow_provider.triggers.coordinator import CoordinatorTrigger
from airflow_provider.values.saved import check_saved

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkCoordinatorOperator(GroupTask):
    """Coordinates declarative groups, as ``cospark coordinator`` does, for workers whose ``Membership`` has
    ``coordinators="dedicated"``.

    It runs in the triggerer and takes no pool slot. It continues until a user ends its task (marks or clears it), or
    fails after its ``execution_timeout``. Run two in different triggerers, so that one can replace the other.

    :param session_timeout: a worker that is silent for this long is removed; give all coordinators the same
    :param heartbeat_interval: time between heartbeats of a worker; give all coordinators the same
    :param kafka_conn_id: a connection of type ``kafka``, whose user has the coordinators' rights

    All times are timedeltas, or seconds.
    """

    template_fields: Sequence[str] = ("kafka_conn_id",)
    ui_color = "#f7e3b5"

    def __init__(
        self,
        *,
        session_timeout: TimeSpan = timedelta(seconds=60),
        heartbeat_interval: TimeSpan = timedelta(seconds=3),
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.session_timeout = session_timeout
        self.heartbeat_interval = heartbeat_interval
        self.kafka_conn_id = kafka_conn_id
        self._times_ms()

    def _times_ms(self) -> tuple[int, int]:
        """:raises ValueError: if the session timeout is not longer than the heartbeat interval"""
        session_ms = milliseconds("session_timeout", self.session_timeout, least_ms=1)
        heartbeat_ms = milliseconds("heartbeat_interval", self.heartbeat_interval, least_ms=1)
        if heartbeat_ms >= session_ms:
            raise ValueError(
                f"session_timeout: {self.session_timeout!r} must be longer than heartbeat_interval"
                f" ({self.heartbeat_interval!r})"
            )
        return session_ms, heartbeat_ms

    def execute(self, context: Context) -> NoReturn:  # noqa: ARG002
        session_ms, heartbeat_ms = self._times_ms()
        SparkGroupHook(self.kafka_conn_id).get_settings()  # a triggerer would wait until it can be used
        self.defer(
            trigger=CoordinatorTrigger(
                kafka_conn_id=self.kafka_conn_id, session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms
            ),
            method_name="resume",
            timeout=self.execution_timeout,
        )

    def resume(self, context: Context, event: Mapping[str, Any]) -> NoReturn:  # noqa: ARG002
        """:raises AirflowFailException: what people have to do"""
        check_saved(event, "event of a CoordinatorTrigger")
        raise AirflowFailException(f"no declarative groups are coordinated: {event['error']}")
