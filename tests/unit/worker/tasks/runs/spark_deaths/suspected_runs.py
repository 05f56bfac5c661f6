"""Runs of suspects, and what knows of them."""

from __future__ import annotations

from typing import Any

from executor_bench import ME

from airflow_provider.state.records import JobDefinition, TaskWork
from airflow_provider.values.model import Epoch, TaskId, Tasks
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.suspects import Suspects


def run_of(
    index: int, *, deaths: int = 0, state: RunState = RunState.WAITING, began_ms: int | None = None, **more: Any
) -> TaskRun:
    task = TaskId("a", index)
    work = TaskWork(definition=JobDefinition(name="a", entry_point="m:f"), task=task, config={}, fingerprint="f")
    run = TaskRun(work=work, epoch=Epoch(1), spark_deaths=deaths, state=state, began_ms=began_ms, attempt=deaths + 1)
    return replaced(run, **more)


def running(index: int, deaths: int, began_ms: int, **more: Any) -> TaskRun:
    return run_of(index, deaths=deaths, state=RunState.STARTED, began_ms=began_ms, **more)


def table(*runs: TaskRun) -> RunTable:
    made = RunTable()
    made.update({run.task: run for run in runs})
    return made


def knowing(runs: RunTable, max_deaths: int = 3) -> Suspects:
    suspects = Suspects(max_deaths, ME)
    for run in runs.values():
        suspects.admit(run)
    return suspects


def tasks(*indexes: int) -> Tasks:
    return frozenset(TaskId("a", index) for index in indexes)
