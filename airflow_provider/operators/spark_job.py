"""The operators that submit a job to a group, and remove it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException, AirflowFailException, conf
from airflow_provider.integration.airflow_metadata.asset_events import tell_assets
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.links import SparkGroupLink, group_link, show_link
from airflow_provider.integration.operator_parameters.parameters import (
    TimeSpan,
    choice,
    group_name,
    is_template,
    job_name,
    json_map,
    milliseconds,
    text_mapping,
    whole_number,
)
from airflow_provider.integration.task_failures.failure_reports import (
    RESUMED_TO_FAIL,
    leave_present_report,
    leave_report,
)
from airflow_provider.integration.task_failures.patience import waited_out
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.errors import PassingError
from airflow_provider.operators.one_job import OneJobOperator
from airflow_provider.operators.unstartable_workers import workers_after
from airflow_provider.spark.job.config_schema import ConfigError, SchemaError, check_config_here
from airflow_provider.spark.job.loading import JobCodeError
from airflow_provider.state.records import JobDefinition, JobError, TaskKind
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.reports.standing import Pace
from airflow_provider.state.views.presence import nobody
from airflow_provider.state.views.task_progress.retrying import retried_in_words
from airflow_provider.triggers.conditions import Answer, JobCondition, JobGoal, problem_in_words
from airflow_provider.triggers.group import GroupTrigger, check_not_given_up

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot

_BESIDE: Final = "If its workers come after this task in the DAG, they never start: let them start beside it"

_PARAMETERS = {
    "name": "job",
    "retries": "task_retries",
    "retry_delay_ms": "task_retry_delay",
    "timeout_ms": "task_timeout",
    "replan_interval_ms": "replan_interval",
    "stall_after_ms": "stall_after",
}


class SparkJobOperator(GroupTask):
    """Submits a job to a group, or changes its definition.

    Submitting the same job under the same run key again only retries Spark tasks that have failed for good. For a job
    that does not end by itself, a later DAG run does the same. Finished tasks stay finished.

    :param group: the group; missing topics are created
    :param job: the job's name: letters, digits, ``.``, ``_`` and ``-``
    :param entry_point: ``package.module:Class``, or a decorated function; the workers must be able and allowed to
        import it
    :param config: a JSON object for the job's ``plan``, or its text, as made by a template with ``tojson``. If it does
        not match what the job declares (``config_schema``), it is refused without retries: by this task if
        ``entry_point`` is written in the DAG, not in a template, and can be imported here; otherwise by the worker that
        plans the job
    :param max_tasks: the most tasks a plan may have; None: as many as it needs
    :param run_key: names one run of the job; under a new key it runs again. By default the DAG run's id for a job that
        ends by itself, and none for one that does not (``streaming``, or with a ``replan_interval``)
    :param kind: ``batch``: its tasks end by themselves; ``streaming``: they run until the job is removed
    :param task_retries: how often a failed Spark task is tried again; None: a streaming one without limit,
        others not at all. (Airflow's own ``retries`` are those of this task)
    :param task_retry_delay: how long to wait before the first of these; each further time about twice as long, up to
        five minutes
    :param task_timeout: how long an attempt of a Spark task may take, from the call of its code. After that it is
        stopped and counts as failed. None: no limit
    :param session_conf: settings for the session of each Spark task, such as ``spark.sql.shuffle.partitions``, from its
        next start on. Settings that count when Spark starts are refused: they belong to the workers
    :param replan_interval: plan again at this interval, for a job whose plan watches for changes
    :param stall_after: after how long without a batch, and without a moment of waiting for data, a stream counts as
        stalled. None: ten times as long as its last batches took, and ten minutes at least
    :param kafka_conn_id: a connection of type ``kafka``
    :param wait_for_completion: wait until the job is complete; for an unbounded job, until all its tasks run
    :param deferrable: wait in the triggerer
    :param timeout: how long to wait; None: Airflow's ``[sensors] default_timeout``, 7 days

    All times are timedeltas, or seconds.

    Returns a summary: ``job``, ``run_key``, ``state``, ``complete``, ``tasks``, ``counts`` by state, ``errors``,
    ``results``, ``names``, ``learners`` and ``runs`` by task, ``assets`` that were written; and ``changed``: False if
    the group had the job already. If it waits and the job fails, it fails with the errors of the Spark tasks.

    With ``outlets``, an operator that has waited for the job to finish has Airflow store asset events of what its tasks
    have written (:meth:`~airflow_provider.spark.job.TaskContext.wrote`).
    """

    template_fields: Sequence[str] = (
        "group",
        "job",
        "entry_point",
        "config",
        "max_tasks",
        "run_key",
        "session_conf",
        "kafka_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"config": "json", "session_conf": "json"}
    operator_extra_links = (SparkGroupLink(),)
    ui_color = "#f7e3b5"

    def __init__(
        self,
        *,
        group: str,
        job: str,
        entry_point: str,
        config: Mapping[str, Any] | str | None = None,
        max_tasks: int | str | None = None,
        run_key: str | None = None,
        kind: str = TaskKind.BATCH.value,
        task_retries: int | None = None,
        task_retry_delay: TimeSpan = timedelta(seconds=10),
        task_timeout: TimeSpan | None = None,
        session_conf: Mapping[str, Any] | str | None = None,
        replan_interval: TimeSpan | None = None,
        stall_after: TimeSpan | None = None,
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        wait_for_completion: bool = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        timeout: TimeSpan | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.job = job
        self.entry_point = entry_point
        self.config = config or {}
        self.max_tasks = max_tasks
        self.run_key = run_key
        self.kind = kind
        self.task_retries = task_retries
        self.task_retry_delay = task_retry_delay
        self.task_timeout = task_timeout
        self.session_conf = session_conf or {}
        self.replan_interval = replan_interval
        self.stall_after = stall_after
        self.kafka_conn_id = kafka_conn_id
        self.wait_for_completion = wait_for_completion
        self.deferrable = deferrable
        self.timeout = timeout
        self.group_link = ""
        self._names_its_job = not is_template(entry_point)
        self._check()

    # ---- parameters

    def _check(self) -> None:
        """Refuse at parse time what is wrong whatever the templates render to."""
        if not is_template(self.group):
            group_name(self.group)
        if self.timeout is not None:
            milliseconds("timeout", self.timeout, least_ms=1)
        self._definition(
            job="job" if is_template(self.job) else job_name(self.job),
            entry_point="module:Job" if is_template(self.entry_point) else self.entry_point,
            config={} if is_template(self.config) else self.config,
            max_tasks=None if is_template(self.max_tasks) else self.max_tasks,
            run_key="" if self.run_key is None or is_template(self.run_key) else self.run_key,
            session_conf={} if is_template(self.session_conf) else self.session_conf,
        )

    def _definition(
        self,
        *,
        job: str,
        entry_point: str,
        config: object,
        max_tasks: int | str | None,
        run_key: str,
        session_conf: object,
        submitted_by: str = "",
    ) -> JobDefinition:
        replan, limit, stall = self.replan_interval, self.task_timeout, self.stall_after
        try:
            return JobDefinition(
                name=job,
                entry_point=entry_point,
                config=json_map("config", config),
                max_tasks=None if max_tasks is None else whole_number("max_tasks", max_tasks, least=1),
                run_key=run_key,
                kind=choice("kind", self.kind, TaskKind),
                retries=self.task_retries,
                retry_delay_ms=milliseconds("task_retry_delay", self.task_retry_delay),
                timeout_ms=None if limit is None else milliseconds("task_timeout", limit, least_ms=1),
                session_conf=text_mapping("session_conf", session_conf),
                replan_interval_ms=None if replan is None else milliseconds("replan_interval", replan, least_ms=1),
                stall_after_ms=None if stall is None else milliseconds("stall_after", stall, least_ms=1),
                submitted_by=submitted_by,
            )
        except JobError as wrong:
            raise ValueError(f"{_PARAMETERS.get(wrong.field_name, wrong.field_name)}: {wrong.advice}") from wrong

    @property
    def _bounded(self) -> bool:
        return self.kind == TaskKind.BATCH.value and self.replan_interval is None

    # ---- its life

    def execute(self, context: Context) -> dict[str, Any]:
        ti = context["ti"]
        group = group_name(self.group)
        run_key = self.run_key if self.run_key is not None else (context["run_id"] if self._bounded else "")
        definition = self._definition(
            job=job_name(self.job),
            entry_point=self.entry_point,
            config=self.config,
            max_tasks=self.max_tasks,
            run_key=str(run_key),
            session_conf=self.session_conf,
            submitted_by=f"{ti.dag_id}.{ti.task_id}",
        )
        self._check_config(definition)
        hook = SparkGroupHook(self.kafka_conn_id)
        submission = waited_out(lambda: hook.submit_job(group, definition), f"Submitting job {definition.name}")
        if submission.changed:
            self.log.info("Job %s (run %s) was submitted to group %s", definition.name, definition.run_key, group)
        else:
            self.log.info("Job %s (run %s) was already known to group %s", definition.name, definition.run_key, group)
        if submission.without_effect:
            self.log.warning("Job %s: %s", definition.name, submission.without_effect)
        if submission.retried:
            self.log.info("%s", retried_in_words(definition.name, submission.retried))
        if not self.wait_for_completion:
            if self.timeout is not None:
                self.log.warning("timeout: only limits a wait, so it does nothing without wait_for_completion=True")
            return self._summary(hook, group, definition.name, changed=submission.changed)
        condition = JobCondition(
            job=definition.name,
            run_key=definition.run_key,
            goal=JobGoal.FINISHED if self._bounded else JobGoal.RUNNING,
            fingerprint=submission.definition.fingerprint,
        )
        try:
            answer = self._wait(context, hook, group, condition, changed=submission.changed)
        except PassingError as late:
            self._leave_present_report(context)
            raise AirflowException(
                f"timeout: job {condition.job!r} of group {group!r} is not {condition.goal.value} within {self._limit}"
            ) from late
        return self._complete(context, answer.to_json(), changed=submission.changed)

    def _check_config(self, definition: JobDefinition) -> None:
        """Check the config before anything is written, if the job can be imported here.

        Not if the entry point comes from a template or from another task: then the conf of a DAG run could choose what
        is imported here.

        :raises AirflowFailException: if the config does not match the job's declaration, or the job's code fails
        """
        if not self._names_its_job or "entry_point" in self._told:
            return
        try:
            unchecked = check_config_here(definition.name, definition.entry_point, definition.config)
        except (ConfigError, SchemaError, JobCodeError) as wrong:
            raise AirflowFailException(str(wrong)) from wrong
        if unchecked is not None:
            self.log.info("The config is checked by the worker that plans the job, and not here: %s", unchecked)

    def _wait(
        self, context: Context, hook: SparkGroupHook, group: str, condition: JobCondition, *, changed: bool
    ) -> Answer:
        """:raises PassingError: if its time has ended"""
        self._check_workers(hook, group)
        pace = Pace()

        def look(jobs: JobsSnapshot, status: StatusSnapshot) -> Answer | None:
            show_link(self, context, group_link(status))
            why_nobody = nobody(status)
            if why_nobody and pace.is_due(why_nobody, time.monotonic()):
                self.log.warning(
                    "Group %s has no workers, so job %s waits: %s. %s", group, condition.job, why_nobody, _BESIDE
                )
            return condition.answer(jobs, status)

        if not self.deferrable:
            return hook.wait_for(group, look, timeout_s=self._limit.total_seconds())
        answer = None
        with suppress(PassingError):  # the triggerer waits for a broker that is away, too
            answer = hook.look_now(group, look)
        if answer is None:
            self.defer(
                trigger=GroupTrigger(
                    kafka_conn_id=self.kafka_conn_id,
                    group=group,
                    condition=condition.to_json(),
                    deferred_at_ms=wall_ms(),
                    carried={"changed": changed},
                    link=self.group_link,
                ),
                method_name="execute_complete",
                timeout=self._limit,
            )
        return answer

    @property
    def _limit(self) -> timedelta:
        if self.timeout is None:
            return timedelta(seconds=conf.getfloat("sensors", "default_timeout", fallback=604_800.0))
        return timedelta(milliseconds=milliseconds("timeout", self.timeout, least_ms=1))

    def _check_workers(self, hook: SparkGroupHook, group: str) -> None:
        """:raises AirflowFailException: if the group's workers can't start before the wait is over"""
        waiting, why_nobody = workers_after(self), None
        if waiting:
            with suppress(PassingError):
                why_nobody = hook.look_now(group, lambda _, status: nobody(status))
        if why_nobody:
            raise AirflowFailException(
                f"wait_for_completion: group {group} has no workers ({why_nobody}), and those of this DAG never start,"
                f" because they come after this task: {', '.join(waiting)}. Let them start beside it, after an operator"
                " that only submits"
            )

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        if next_method == RESUMED_TO_FAIL:
            self._leave_present_report(context)
        return super().resume_execution(next_method, next_kwargs, context)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the report, after the trigger's event."""
        self.group_link = event["link"]
        check_not_given_up(event)
        return self._complete(context, event, changed=event["carried"]["changed"])

    def _complete(self, context: Context, answer: Mapping[str, Any], *, changed: bool) -> dict[str, Any]:
        report = {"changed": changed, **answer["report"]}
        if answer["problem"]:
            leave_report(self, context, report)
            raise AirflowException(problem_in_words(group_name(self.group), answer))
        tell_assets(self, context, group_name(self.group), report)
        return report

    def _leave_present_report(self, context: Context) -> None:
        """Leave a report when the time has ended."""
        hook, group, job = SparkGroupHook(self.kafka_conn_id), group_name(self.group), job_name(self.job)

        def look() -> dict[str, Any] | None:
            report = hook.look_now(group, lambda jobs, status: JobReport.of(job, jobs, status))
            return None if report is None else report.to_json()

        leave_present_report(self, context, look)

    def _summary(self, hook: SparkGroupHook, group: str, job: str, *, changed: bool) -> dict[str, Any]:
        report = waited_out(
            lambda: hook.look_now(group, lambda jobs, status: (JobReport.of(job, jobs, status), group_link(status))),
            f"The report of job {job}",
        )
        if report is None or report[0] is None:
            raise AirflowException(f"job {job!r} was removed from group {group!r} right after it was submitted")
        self.group_link = report[1]
        return {"changed": changed, **report[0].to_json()}


class RemoveSparkJobOperator(OneJobOperator):
    """Removes a job from a group: its tasks are stopped, and their progress is lost.

    :param group: the group
    :param job: the job's name
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``job`` and ``removed``: whether there was such a job.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        group, job, ti = group_name(self.group), job_name(self.job), context["ti"]
        hook, by = SparkGroupHook(self.kafka_conn_id), f"{ti.dag_id}.{ti.task_id}"
        removed = waited_out(lambda: hook.remove_job(group, job, by=by), f"Removing job {job}")
        self.log.info("Job %s %s group %s", job, "was removed from" if removed else "was not in", group)
        return {"job": job, "removed": removed}
