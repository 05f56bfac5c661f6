"""The sensor that waits for a job of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider.integration.airflow_metadata.asset_events import tell_assets
from airflow_provider.integration.operator_parameters.parameters import (
    choice,
    group_name,
    is_template,
    job_name,
    native_text,
)
from airflow_provider.sensors.base import SparkGroupSensor
from airflow_provider.triggers.conditions import JobCondition, JobGoal

if TYPE_CHECKING:
    from airflow.sdk import Context


class JobSensor(SparkGroupSensor):
    """Waits until a job has finished, has failed, or has all its tasks running.

    It fails immediately, without Airflow's retries, if what it waits for can't happen any more. If the job fails (a job
    that ends by itself: when nothing of it is left to run), it fails with the errors of the Spark tasks. If the job was
    removed since the DAG run began, it says by whom and when. If the job is submitted under another run key meanwhile,
    it continues to wait until its ``timeout``.

    :param job: the job's name; it need not be submitted yet
    :param state: ``finished``; ``failed``; or ``running``: every task that has not finished runs. Use that for
        streaming jobs
    :param run_key: which run to wait for. By default that of this DAG run, which is the default of ``SparkJobOperator``
        for a job that ends by itself. None: the present run, whichever it is; use that in another DAG than the
        operator's. Ignored for jobs that do not end by themselves

    Further parameters are those of :class:`~airflow_provider.sensors.base.SparkGroupSensor` and of Airflow's sensors.

    Returns the job's progress: ``job``, ``run_key``, ``state``, ``complete``, ``tasks``, ``counts`` by state,
    ``errors``, ``results``, ``names``, ``learners`` and ``runs`` by task, and the ``assets`` that were written.

    With ``outlets``, it has Airflow store asset events of what the tasks of a finished job have written
    (:meth:`~airflow_provider.spark.job.TaskContext.wrote`). Give ``outlets`` to one of the tasks that wait for a job.
    """

    template_fields: Sequence[str] = ("group", "job", "run_key", "kafka_conn_id")

    def __init__(
        self, *, job: str, state: str = JobGoal.FINISHED.value, run_key: str | None = "{{ run_id }}", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.state = state
        self.run_key = run_key
        choice("state", state, JobGoal)
        if not is_template(job):
            job_name(job)

    def condition(self) -> JobCondition:
        run_key = None if self.run_key is None else str(native_text(self.run_key))
        goal = choice("state", self.state, JobGoal)
        return JobCondition(job=job_name(self.job), run_key=run_key, goal=goal, since_ms=self.run_began_ms)

    def _report_of(self, answer: Mapping[str, Any], context: Context) -> dict[str, Any]:
        report = super()._report_of(answer, context)
        tell_assets(self, context, group_name(self.group), report)
        return report
