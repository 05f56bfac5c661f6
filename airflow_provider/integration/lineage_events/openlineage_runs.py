"""An OpenLineage run for each attempt of a Spark task. Its parent is the run of the worker's Airflow task.

This module imports Airflow's OpenLineage provider, so it is imported only if that is installed (:mod:`.lineage`). It
has an adapter of its own: Airflow forks this process to send its own events, and a client that had begun to send here
would not work in the fork.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.openlineage import conf
from airflow.providers.openlineage.api import is_openlineage_active
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.providers.openlineage.plugins.macros import (
    lineage_job_name,
    lineage_job_namespace,
    lineage_root_job_name,
    lineage_root_job_namespace,
    lineage_root_run_id,
    lineage_run_id,
)
from airflow.providers.openlineage.utils.emission_policy import resolve_task_emission_policy
from openlineage.client.event_v2 import Dataset, Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import error_message_run, job_type_job, parent_run
from openlineage.client.uuid import generate_new_uuid

from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.integration.lineage_events.outlet import ItemWords, Outlet
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage
from airflow_provider.spark.lineage import Dataset as NamedDataset
from airflow_provider.spark.runner import (
    LastEvent,
    LineageNamed,
    QueryDetached,
    RunnerEvent,
    SparkFaltered,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
)
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_WORDS: Final = ItemWords(one="lineage event", many="lineage events", section="openlineage")


class _Adapter(OpenLineageAdapter):  # type: ignore[misc]  # it has no type here
    """An adapter that logs problems, but not each event."""

    log = logging.getLogger(f"{__name__}.events")


_Adapter.log.setLevel(logging.WARNING)


@dataclass(slots=True, kw_only=True)
class _Begun:
    """A running attempt."""

    run: Run
    job: Job
    lineage: Lineage = NOTHING_NAMED


class OpenLineageRuns:
    """The runs of one worker's Spark tasks (a
    :class:`~airflow_provider.integration.lineage_events.lineage.LineageTeller`).

    :param parent: of all these runs
    :param namespace: of their jobs
    :param emit: sends an event; may block
    :param close: closes what sends them, within so many seconds
    """

    def __init__(
        self,
        group: str,
        *,
        namespace: str,
        parent: parent_run.ParentRunFacet,
        emit: Callable[[RunEvent], object],
        close: Callable[[float], object],
    ) -> None:
        self._group = group
        self._namespace = namespace
        self._parent = parent
        self._outlet: Outlet[RunEvent] = Outlet(emit, _WORDS)
        self._close = close
        self._begun: dict[TaskId, _Begun] = {}
        self._inputs: set[NamedDataset] = set()
        self._outputs: set[NamedDataset] = set()

    @classmethod
    def of(cls, context: Context, group: str) -> OpenLineageRuns | None:
        """None: OpenLineage is disabled, or Airflow sends no events of this task."""
        if not is_openlineage_active():
            return None
        ti: Any = context["ti"]
        if not resolve_task_emission_policy(operator=ti.task, dag_id=ti.dag_id, task_id=ti.task_id).emit:
            return None
        adapter = _Adapter()
        client = adapter.get_or_create_openlineage_client()
        return cls(
            group,
            namespace=lineage_job_namespace(),
            parent=_parent_of(ti),
            emit=adapter.emit,
            close=client.close,
        )

    @property
    def named(self) -> Lineage:
        return Lineage(inputs=sorted(self._inputs), outputs=sorted(self._outputs))

    def hear(self, event: RunnerEvent) -> None:
        try:
            if isinstance(event, TaskStarted):
                self._begin(event)
            elif isinstance(event, LineageNamed) and (begun := self._begun.get(event.order.task)):
                begun.lineage = event.lineage
                self._tell(RunState.RUNNING, begun, begun.run)
            elif isinstance(event, LastEvent):
                self._end(event)
        except Exception as wrong:
            log.warning("No OpenLineage event for %s: %s", type(event).__name__, wrong, exc_info=True)

    async def close(self) -> None:
        limit_s = conf.execution_timeout()
        self._outlet.call(lambda: self._close(limit_s))
        await self._outlet.settle(limit_s)

    def _begin(self, event: TaskStarted) -> None:
        order = event.order
        if order.task.is_planner:
            return
        name = f"{self._group}.{order.task.job}.{storable(order.name) or order.task.index}"  # on each worker the same
        begun = self._begun[order.task] = _Begun(
            run=Run(runId=str(generate_new_uuid()), facets={"parent": self._parent}),
            job=Job(namespace=self._namespace, name=name, facets={"jobType": _job_type(order)}),
        )
        self._tell(RunState.START, begun, begun.run)

    def _end(self, event: LastEvent) -> None:
        begun = self._begun.pop(event.order.task, None)
        if begun is None:
            return
        run, state = begun.run, RunState.ABORT
        if isinstance(event, TaskFinished):
            state = RunState.COMPLETE
            self._inputs |= {*begun.lineage.inputs}
            self._outputs |= {*begun.lineage.outputs}
        elif isinstance(event, QueryDetached):
            state = RunState.RUNNING  # it ends later, watched by a process that does not know this run
        elif isinstance(event, (TaskFailed, TaskConflicted, SparkLost, SparkFaltered)):
            state = RunState.FAIL
            error = error_message_run.ErrorMessageRunFacet(
                message=storable(event.error),
                programmingLanguage="python",
                stackTrace=storable(event.traceback) or None,
            )
            run = Run(runId=run.runId, facets={**run.facets, "errorMessage": error})
        self._tell(state, begun, run)

    def _tell(self, state: RunState, begun: _Begun, run: Run) -> None:
        event = RunEvent(
            eventType=state,
            eventTime=datetime.now(timezone.utc).isoformat(),
            run=run,
            job=begun.job,
            inputs=_datasets(begun.lineage.inputs),
            outputs=_datasets(begun.lineage.outputs),
        )
        self._outlet.send([event])


def operator_lineage(named: Lineage) -> OperatorLineage:
    return OperatorLineage(inputs=_datasets(named.inputs), outputs=_datasets(named.outputs))


def _parent_of(ti: Any) -> parent_run.ParentRunFacet:
    """The runs of the task instance and of its DAG run, as Airflow's provider names them."""
    return parent_run.ParentRunFacet(
        run=parent_run.Run(runId=lineage_run_id(ti)),
        job=parent_run.Job(namespace=lineage_job_namespace(), name=lineage_job_name(ti)),
        root=parent_run.Root(
            run=parent_run.RootRun(runId=lineage_root_run_id(ti)),
            job=parent_run.RootJob(namespace=lineage_root_job_namespace(ti), name=lineage_root_job_name(ti)),
        ),
    )


def _job_type(order: TaskOrder) -> job_type_job.JobTypeJobFacet:
    return job_type_job.JobTypeJobFacet(
        processingType="BATCH" if order.bounded else "STREAMING", integration="AIRFLOW", jobType="JOB"
    )


def _datasets(named: Iterable[NamedDataset]) -> list[Dataset]:
    return [Dataset(namespace=storable(one.namespace), name=storable(one.name)) for one in named]
