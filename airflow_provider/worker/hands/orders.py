"""Turns the machine's runs into a runner's orders."""

from __future__ import annotations

from airflow_provider.spark.job.checkpoint_folder import checkpoint_location, checkpoint_root
from airflow_provider.spark.runner import TaskOrder
from airflow_provider.state.records import TaskKind, task_name
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.runs import TaskRun


def order_of(run: TaskRun, *, root: str | None, group_id: str) -> TaskOrder:
    """The order that starts a run.

    :param root: folder or URI of all streaming checkpoints; None: there is none
    :raises CheckpointError: if the task has no folder for its checkpoint
    """
    task, definition = run.task, run.work.definition
    bounded = task.is_planner or definition.kind is TaskKind.BATCH
    folder = checkpoint_location(checkpoint_root(root, task, bounded=bounded), group_id, task, run.work.config)
    return replaced(
        bare_order(run),
        fingerprint=run.work.fingerprint,
        checkpoint_location=folder,
        max_tasks=definition.parts,
        session_conf=definition.session_conf,
        bounded=bounded,
    )


def bare_order(run: TaskRun) -> TaskOrder:
    """The order of a run that needs no checkpoint location: its query is already running, or it has never begun."""
    return TaskOrder(
        task=run.task,
        entry_point=run.work.definition.entry_point,
        config=run.work.config,
        epoch=run.epoch,
        attempt=run.attempt,
        run_key=run.work.definition.run_key or None,
        name="" if run.task.is_planner else task_name(run.work.config),
    )
