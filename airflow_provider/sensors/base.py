"""The base class of all sensors of a group: they read its topics, by poking or in the triggerer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException, AirflowSensorTimeout, conf
from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.links import SparkGroupLink, group_link, show_link
from airflow_provider.integration.operator_parameters.parameters import group_name, is_template, text
from airflow_provider.integration.task_failures.failure_reports import leave_present_report, leave_report
from airflow_provider.integration.task_failures.for_good import failing_for_good
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.topics.errors import PassingError
from airflow_provider.state.reports.standing import Pace, SoFar
from airflow_provider.triggers.conditions import problem_in_words
from airflow_provider.triggers.group import GroupTrigger, check_not_given_up, given_up

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.triggers.conditions import Answer, Condition

_RETRIES: Final = max(3, conf.getint("core", "default_task_retries", fallback=0))
"""What a sensor finds fails it without retries. They are only for Airflow's own mistake: its scheduler may take a
resumed task for a killed one, and fail it (:mod:`airflow_provider.triggers.resume_delay`).
"""

_RETRY_DELAY: Final = timedelta(seconds=10)

_NOBODY: Final = "no job was submitted, and no worker has started"


class SparkGroupSensor(GroupTask, BaseSensorOperator):
    """Waits until a condition holds for a group, by its topics; subclasses define the condition.

    :param group: the group
    :param kafka_conn_id: a connection of type ``kafka``
    :param deferrable: wait in the triggerer, which follows the topics and does not poll; otherwise the sensor reads
        them every ``poke_interval``
    :param retries: not used for what the sensor finds, so they cost nothing
    """

    operator_extra_links = (SparkGroupLink(),)
    ui_color = "#d9e8d0"

    def __init__(
        self,
        *,
        group: str,
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poke_interval: timedelta | float = 10,
        retries: int | None = _RETRIES,
        retry_delay: timedelta | float = _RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, retries=retries, retry_delay=retry_delay, **kwargs)
        self.group = group
        self.kafka_conn_id = kafka_conn_id
        self.deferrable = deferrable
        self.group_link = ""
        self._pace = Pace()
        self._has_looked = False
        self.run_began_ms: int | None = None
        if not is_template(group):
            group_name(group)
        if not is_template(kafka_conn_id):
            text("kafka_conn_id", kafka_conn_id)

    def condition(self) -> Condition:
        """The condition to wait for, from rendered parameters.

        :raises ValueError: if they are wrong
        """
        raise NotImplementedError

    def poke(self, context: Context) -> PokeReturnValue:
        self.run_began_ms = _began_ms(context)
        answer = self._look(context)
        if answer is None:
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=self._report_of(answer.to_json(), context))

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            with self._leaving_a_report(context):
                return super().execute(context)
        self.run_began_ms = _began_ms(context)
        try:
            answer = self._look(context)
        except AirflowFailException as wrong:
            return self._go_on_with(given_up(wrong, self.group_link), context)
        if answer is not None:
            return self._go_on_with({**answer.to_json(), "link": self.group_link}, context)
        trigger = GroupTrigger(
            kafka_conn_id=self.kafka_conn_id,
            group=group_name(self.group),
            condition=self.condition().to_json(),
            deferred_at_ms=wall_ms(),
            link=self.group_link,
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def _go_on_with(self, event: Mapping[str, Any], context: Context) -> Any:
        """Continue as after a trigger's event, because Airflow handles ``soft_fail`` there."""
        return self.resume_execution("execute_complete", {"event": event}, context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        with self._leaving_a_report(context):
            return super().resume_execution(next_method, next_kwargs, context)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the report, after the trigger's event."""
        self.group_link = event["link"]
        check_not_given_up(event)
        return self._report_of(event, context)

    def _look(self, context: Context) -> Answer | None:
        """The present answer of the topics; None: the condition does not hold, or they can't be read at present.

        :raises AirflowFailException: if waiting does not help
        """
        with failing_for_good():
            condition, group = self.condition(), group_name(self.group)
            try:
                looked = SparkGroupHook(self.kafka_conn_id).look_now(
                    group,
                    lambda jobs, status: (
                        condition.answer(jobs, status),
                        condition.so_far(jobs, status),
                        group_link(status),
                    ),
                )
            except PassingError as wrong:
                self._tell(SoFar(text=f"Waiting until this has passed: {wrong}"))
                return None
            except SettingsError as wrong:
                if not self._has_waited(context):
                    raise
                self._tell(SoFar(text=f"Waiting until connection {self.kafka_conn_id!r} can be used: {wrong}"))
                return None
        self._has_looked = True
        if looked is None:
            self._tell(SoFar(text=f"Group {group} has no topics yet: {_NOBODY}"))
            return None
        answer, so_far, link = looked
        if link or answer is None:  # at the end keep the last leader's link, even if all have left
            show_link(self, context, link)
        if answer is None:
            self._tell(so_far.of_group(group))
        return answer

    def _has_waited(self, context: Context) -> bool:
        """Whether the connection could be used before: a sensor that is deferred goes on waiting, too."""
        return self._has_looked or (self.reschedule and context["ti"].get_first_reschedule_date(context) is not None)

    def _tell(self, so_far: SoFar) -> None:
        """Log the progress, if due: a sensor that pokes looks too often to log it each time."""
        if self._pace.is_due(so_far, time.monotonic()):
            self.log.info("%s", so_far.in_words(wall_ms()))

    def _report_of(self, answer: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """:raises AirflowFailException: if what is waited for will not happen, so that no retry could help"""
        if answer["problem"]:
            leave_report(self, context, answer["report"])
            raise AirflowFailException(problem_in_words(group_name(self.group), answer))
        report: dict[str, Any] = storable(dict(answer["report"]))
        return report

    @contextmanager
    def _leaving_a_report(self, context: Context) -> Iterator[None]:
        """Leave a report when the sensor's time has ended."""
        try:
            yield
        except AirflowSensorTimeout:
            hook, group, condition = SparkGroupHook(self.kafka_conn_id), group_name(self.group), self.condition()
            leave_present_report(self, context, lambda: hook.look_now(group, condition.report))
            raise


def _began_ms(context: Context) -> int | None:
    """When the DAG run began (wall clock, milliseconds since 1970); clearing it sets this again."""
    began = getattr(context.get("dag_run"), "start_date", None)
    return None if began is None else int(began.timestamp() * 1000)
