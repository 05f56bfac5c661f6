"""The operator that scales a group down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException, AirflowFailException, conf
from airflow_provider.integration.airflow_api.task_instance import who_acts
from airflow_provider.integration.airflow_metadata.storable import storable_state
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.links import SparkGroupLink, group_link, show_link
from airflow_provider.integration.operator_parameters.parameters import (
    TimeSpan,
    group_name,
    is_template,
    milliseconds,
    scale_goal,
)
from airflow_provider.integration.task_failures.failure_reports import (
    RESUMED_TO_FAIL,
    leave_present_report,
    leave_report,
)
from airflow_provider.integration.task_failures.patience import waited_out
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.errors import TopicError, UnsureError
from airflow_provider.state.views.slots.scaling import RULE, ScaleError
from airflow_provider.triggers.conditions import Answer, LeaveCondition
from airflow_provider.triggers.group import GroupTrigger, check_not_given_up

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot


class ScaleSparkGroupOperator(GroupTask):
    """Asks workers of a group to leave, and waits until they have.

    A worker that is asked finishes its batch tasks. Other workers learn its tasks that have something to warm up, and
    take them over when they are ready. It leaves when it has no task left, and its Airflow task succeeds. In a group
    that learns no tasks, it leaves when its running tasks have finished; others adopt its detached streams. The workers
    with the fewest slots are asked first, and of these those with the least to move.

    It fails, without asking anybody, if the group can't reach this size by workers leaving, or has reached it already.
    It never retries, because a second try would take its share of the workers that are left.

    :param group: the group
    :param to: the percentage of the present workers that stay, rounded up: ``"80%"``. Give one of the three
    :param workers: how many workers stay
    :param without: the names of workers that leave
    :param within: after this time, each worker that was asked stops what it still runs and leaves; by default there is
        no limit
    :param kafka_conn_id: a connection of type ``kafka``
    :param wait_for_completion: wait until they have left
    :param deferrable: wait in the triggerer
    :param timeout: how long to wait; None: without limit

    All times are timedeltas, or seconds.

    Returns ``learns`` (whether others learn the tasks of those that leave), ``asked``, ``going`` (workers that were
    leaving already), ``stay``, ``to_move`` (by worker that was asked, how many ``slots`` and ``tasks`` it had, how many
    of these were ``running``, and how many of these were ``stateful``); and, if it waits, ``left``, ``still_there``,
    ``drained`` (workers that drained because nobody learned their tasks), and ``seconds`` (how long it took).
    """

    template_fields: Sequence[str] = ("group", "to", "workers", "without", "kafka_conn_id")
    operator_extra_links = (SparkGroupLink(),)
    ui_color = "#f5d9c2"

    def __init__(
        self,
        *,
        group: str,
        to: str | None = None,
        workers: int | str | None = None,
        without: Sequence[str] | str | None = None,
        within: TimeSpan | None = None,
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        wait_for_completion: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        timeout: TimeSpan | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.to = to
        self.workers = workers
        self.without = without
        self.within = within
        self.kafka_conn_id = kafka_conn_id
        self.wait_for_completion = wait_for_completion
        self.deferrable = deferrable
        self.timeout = timeout
        self.group_link = ""
        if not is_template(group):
            group_name(group)
        if not any(map(is_template, (to, workers, without))):
            scale_goal(to=to, workers=workers, without=without)
        if within is not None:
            milliseconds("within", within)
        self._timeout_ms()

    def _timeout_ms(self) -> int | None:
        return None if self.timeout is None else milliseconds("timeout", self.timeout, least_ms=1)

    # ---- its life

    def execute(self, context: Context) -> dict[str, Any]:
        group, hook = group_name(self.group), SparkGroupHook(self.kafka_conn_id)
        within_s = None if self.within is None else milliseconds("within", self.within) / 1000
        by = who_acts(context)
        ask = partial(
            hook.scale_down,
            group,
            to=self.to,
            workers=self.workers,
            without=self.without,
            within_s=within_s,
            by=by,
        )
        try:
            plan = waited_out(ask, f"Scaling group {group}")
        except (ScaleError, UnsureError) as wrong:
            raise AirflowFailException(f"group {group!r}: {wrong}") from wrong
        self.log.info("Group %s: asked to leave: %s (%s)", group, plan.in_words, RULE)
        for leaver in plan.leavers:
            self.log.info("  %s", leaver.in_words)
        self.log.info("In group %s %s", group, plan.what_follows)
        if not self.wait_for_completion:
            if self.timeout is not None:
                self.log.warning("timeout: only limits a wait, so it does nothing without wait_for_completion=True")
            return plan.to_json()
        leave_report(self, context, plan.to_json())
        carried = {"plan": plan.to_json(), "asked_at_ms": wall_ms()}
        try:
            answer = self._wait(context, hook, group, LeaveCondition(workers=plan.asked), carried)
        except TopicError as failed:
            self._fail(context, failed)
        return _report(answer.report, carried)

    def _wait(
        self,
        context: Context,
        hook: SparkGroupHook,
        group: str,
        condition: LeaveCondition,
        carried: Mapping[str, Any],
    ) -> Answer:
        """:raises TopicError: if its time has ended, or the topics can't be read"""

        def look(jobs: JobsSnapshot, status: StatusSnapshot) -> Answer | None:
            show_link(self, context, group_link(status))
            return condition.answer(jobs, status)

        timeout_ms = self._timeout_ms()
        if not self.deferrable:
            return hook.wait_for(group, look, timeout_s=None if timeout_ms is None else timeout_ms / 1000)
        return self.defer(
            trigger=GroupTrigger(
                kafka_conn_id=self.kafka_conn_id,
                group=group,
                condition=condition.to_json(),
                deferred_at_ms=wall_ms(),
                carried=storable_state(carried),
                link=self.group_link,
            ),
            method_name="execute_complete",
            timeout=None if timeout_ms is None else timedelta(milliseconds=timeout_ms),
        )

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowException as failed:
            if next_method == RESUMED_TO_FAIL:
                self._fail(context, failed)
            raise

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the report, after the trigger's event."""
        self.group_link = event["link"]
        try:
            check_not_given_up(event)
        except AirflowFailException as given_up:
            self._fail(context, given_up)
        return _report(event["report"], event["carried"])

    def _fail(self, context: Context, why: Exception) -> NoReturn:
        """Fail because the time has ended, or the topics can't be read. The report says which workers have left by now.

        :raises AirflowFailException: always
        """
        hook, group, ti = SparkGroupHook(self.kafka_conn_id), group_name(self.group), context["ti"]
        plan = ti.xcom_pull(task_ids=self.task_id, map_indexes=ti.map_index) or {}
        asked = LeaveCondition(workers=tuple(plan.get("asked", ())))

        def look() -> dict[str, Any]:
            return {**plan, **(hook.look_now(group, asked.report) or {})}

        leave_present_report(self, context, look)
        late = "" if self.timeout is None else f" (timeout: {self.timeout})"
        raise AirflowFailException(
            f"group {group!r}: the workers were asked to leave, but it is not known whether all have left{late}: {why}"
        ) from why


def _report(left: Mapping[str, Any], carried: Mapping[str, Any]) -> dict[str, Any]:
    seconds = max(0, wall_ms() - carried["asked_at_ms"]) / 1000
    return {**carried["plan"], **left, "seconds": seconds}
