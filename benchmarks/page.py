"""How long the API server works for a view of a group, without a broker and without Airflow.

Of a job's tasks a quarter have finished, 200 run on 20 workers, and the others wait, mostly without a record. A change
is computed once for all viewers; then each asks for pages of its own. Processor time, the median of several.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airflow_provider.assignment.model import Memory
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.shared_reading.kept_tasks import KeptTasks
from airflow_provider.ui.views.groups import group_in_short
from airflow_provider.ui.views.jobs import job_lines
from airflow_provider.ui.views.tasks import TaskOrder, TaskQuery, task_page
from airflow_provider.ui.views.workers import workers_view
from airflow_provider.values.model import ConfigOffset, Epoch, GenerationId, MemberId, SubProtocol, TaskId, WorkerId

_SIZES: Final = (10_000, 100_000)
_TIMES: Final = 5
_RUNNING: Final = 200
_WORKERS: Final = tuple(WorkerId(f"w{number}") for number in range(1, 21))
_QUERIES: Final[Mapping[str, TaskQuery]] = {
    "first page": TaskQuery(),
    "last page": TaskQuery(page=10**9),
    "search": TaskQuery(text="part-77"),
    "one state": TaskQuery(state=TaskState.RUNNING),
    "one worker, sorted by time": TaskQuery(worker="w3", order=TaskOrder.TOOK, descending=True),
    "all sorted by worker": TaskQuery(order=TaskOrder.WORKER),
}


def run(_folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    figures = {str(size): _measure(size) for size in _SIZES}
    for size, of_size in figures.items():
        print(f"{int(size):,} tasks:", flush=True)
        for what, took_ms in of_size.items():
            print(f"  {what:<28} {took_ms:8.1f} ms", flush=True)
    return figures


def _measure(size: int) -> dict[str, float]:
    jobs, status = _group(size)
    kept = KeptTasks()
    tasks = kept.of("first", jobs, status)

    def looked_through(number: int) -> object:
        return kept.of(str(number), replace(jobs), replace(status))

    made: dict[str, Callable[[int], object]] = {
        "looked through after a change": looked_through,
        "head of the page": lambda _: group_in_short("g", replace(jobs), replace(status), now_ms=0),
        "workers": lambda _: workers_view(replace(jobs), replace(status)),
        "jobs": lambda _: job_lines(replace(jobs), replace(status)),
    }
    for what, query in _QUERIES.items():
        made[what] = lambda _, query=query: task_page(tasks, query, status)  # type: ignore[misc]
    return {what: statistics.median(_timed(make, number) for number in range(_TIMES)) for what, make in made.items()}


def _timed(make: Callable[[int], object], number: int) -> float:
    gc.collect()
    began = time.process_time()
    make(number)
    return (time.process_time() - began) * 1000


def _group(size: int) -> tuple[JobsSnapshot, StatusSnapshot]:
    job = JobDefinition(name="job", entry_point="m:f", max_tasks=size)
    configs = [{"name": f"part-{index}", "index": index} for index in range(size)]
    plan = PlanRecord.of(job, configs, planned_by=_WORKERS[0], at_ms=0)
    jobs = JobsSnapshot(offset=ConfigOffset(2), jobs={"job": job}, plans={"job": plan}, defined_at={"job": 0})
    tasks = [TaskId("job", index) for index in range(size)]
    states = [TaskState.FINISHED] * (size // 4) + [TaskState.RUNNING] * _RUNNING
    said = {
        task: TaskStatus(
            task=task,
            state=state,
            epoch=Epoch(1),
            worker=_WORKERS[task.index % len(_WORKERS)],
            fingerprint=plan.fingerprints[task.index],
            started_at_ms=task.index,
            finished_at_ms=task.index + task.index % 97 if state.final else None,
        )
        for task, state in zip(tasks, states, strict=False)
    }
    assignment = {worker: frozenset(tasks[place :: len(_WORKERS)]) for place, worker in enumerate(_WORKERS)}
    record = ClassicRecord(
        epoch=Epoch(1),
        generation=GenerationId(1),
        leader=_WORKERS[0],
        leader_member=MemberId(_WORKERS[0]),
        protocol=SubProtocol.SESSIONED,
        config_offset=ConfigOffset(2),
        members={worker: MemberId(worker) for worker in _WORKERS},
        assignment=assignment,
        revoked={},
        moves=(),
        delay_ms=0,
        reason="a benchmark",
        at_ms=0,
        memory=Memory(),
    )
    workers = {
        worker: WorkerStatus(worker=worker, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=10) for worker in _WORKERS
    }
    return jobs, StatusSnapshot(group=record, workers=workers, tasks=said)
