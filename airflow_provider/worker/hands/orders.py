"""Translates between the machine and a runner: runs into orders, and a runner's events into the machine's."""

from __future__ import annotations

from dataclasses import fields

from airflow_provider.spark.job.checkpoint_folder import checkpoint_location, checkpoint_root
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.runner import (
    LineageNamed,
    LookedEvent,
    NoSparkToWarmUp,
    QueryAdopted,
    QueryCleared,
    QueryDetached,
    QueryStarted,
    QueryUnreachable,
    RunnerEvent,
    ServersSilent,
    SparkAbsent,
    SparkEnded,
    SparkFaltered,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
    WarmUpConflicted,
    WarmUpEvent,
    WarmUpFailed,
    WarmUpLost,
    WarmUpProgressed,
    WarmUpReady,
)
from airflow_provider.state.records import SparkWork, StreamProgress, TaskFailure, TaskKind, WrittenAsset, task_name
from airflow_provider.worker.tasks import events
from airflow_provider.worker.tasks.runs.runs import TaskRun


def order_of(run: TaskRun, *, root: str | None, group_id: str) -> TaskOrder:
    """The order that starts a run.

    :param root: folder or URI of all streaming checkpoints; None: there is none
    :raises CheckpointError: if the task has no folder for its checkpoint
    """
    task, definition, config = run.task, run.work.definition, run.work.config
    bounded = task.is_planner or definition.kind is TaskKind.BATCH
    return TaskOrder(
        task=task,
        entry_point=definition.entry_point,
        config=config,
        epoch=run.epoch,
        attempt=run.attempt,
        run_key=definition.run_key or None,
        fingerprint=run.work.fingerprint,
        checkpoint_location=checkpoint_location(checkpoint_root(root, task, bounded=bounded), group_id, task, config),
        name="" if task.is_planner else task_name(config),
        max_tasks=definition.parts,
        session_conf=definition.session_conf,
        bounded=bounded,
    )


def order_to_watch(run: TaskRun) -> TaskOrder:
    """The order of a query that is already running, and needs no checkpoint location."""
    return TaskOrder(
        task=run.task,
        entry_point=run.work.definition.entry_point,
        config=run.work.config,
        epoch=run.epoch,
        attempt=run.attempt,
        run_key=run.work.definition.run_key or None,
        name=task_name(run.work.config),
    )


def heard(event: RunnerEvent, *, now_ms: int, wall_ms: int) -> events.Event | None:
    """The machine's event for an event of a runner; None: the machine has no use for it."""
    if isinstance(event, LineageNamed | ServersSilent | SparkEnded):
        return _heard_beside_attempts(event, now_ms=now_ms, wall_ms=wall_ms)
    if isinstance(event, WarmUpEvent):
        return _heard_of_warm_up(event, now_ms=now_ms, wall_ms=wall_ms)
    if isinstance(event, TaskConflicted | SparkLost | SparkFaltered | SparkAbsent):
        return _heard_of_others(event, now_ms=now_ms, wall_ms=wall_ms)
    if isinstance(event, QueryStarted | QueryDetached | LookedEvent):
        return _heard_of_query(event, now_ms=now_ms, wall_ms=wall_ms)
    task = event.order.task
    match event:
        case TaskStarted():
            return events.AttemptBegan(now_ms=now_ms, wall_ms=wall_ms, task=task, handle=event.handle)
        case TaskFinished():
            return events.AttemptFinished(
                now_ms=now_ms,
                wall_ms=wall_ms,
                task=task,
                result=event.result,
                stateful=event.stateful,
                wrote=tuple(WrittenAsset(name=name, uri=uri, rows=rows) for name, uri, rows in event.wrote),
                config_schema=event.config_schema,
            )
        case TaskProgressed():
            return _heard_of_progress(event, now_ms=now_ms, wall_ms=wall_ms)
        case TaskFailed():
            return events.AttemptFailed(
                now_ms=now_ms,
                wall_ms=wall_ms,
                task=task,
                failure=TaskFailure(message=event.error, traceback=event.traceback),
                retryable=event.retryable,
            )
        case TaskStopped():
            return events.AttemptStopped(now_ms=now_ms, wall_ms=wall_ms, task=task)


def _heard_beside_attempts(
    event: LineageNamed | ServersSilent | SparkEnded, *, now_ms: int, wall_ms: int
) -> events.Event | None:
    match event:
        case ServersSilent(silent=silent, detached=detached):
            return events.ServersSilent(now_ms=now_ms, wall_ms=wall_ms, silent=silent, detached=detached)
        case SparkEnded(spark=spark, tasks=tasks):
            return events.SparkEnded(now_ms=now_ms, wall_ms=wall_ms, spark=spark, tasks=tasks)
        case LineageNamed():
            return None


def _heard_of_progress(event: TaskProgressed, *, now_ms: int, wall_ms: int) -> events.AttemptEvent:
    task, progress = event.order.task, event.progress
    if isinstance(progress, QueryMoves):
        return events.StreamMoved(now_ms=now_ms, wall_ms=wall_ms, task=task)
    kind = StreamProgress if isinstance(progress, QueryProgress) else SparkWork
    said = {field.name: getattr(progress, field.name) for field in fields(progress)}
    recorded = kind(**said, at_ms=wall_ms)
    return events.AttemptProgressed(now_ms=now_ms, wall_ms=wall_ms, task=task, progress=recorded)


def _heard_of_warm_up(event: WarmUpEvent, *, now_ms: int, wall_ms: int) -> events.LearnerEvent:
    task = event.order.task
    match event:
        case WarmUpProgressed(progress=progress):
            return events.WarmUpProgressed(now_ms=now_ms, wall_ms=wall_ms, task=task, progress=progress)
        case WarmUpReady():
            return events.WarmUpReady(now_ms=now_ms, wall_ms=wall_ms, task=task)
        case WarmUpFailed():
            failure = TaskFailure.of(event.error, event.traceback)
            return events.WarmUpFailed(now_ms=now_ms, wall_ms=wall_ms, task=task, failure=failure)
        case WarmUpConflicted():
            failure = TaskFailure.of(event.error)
            return events.WarmUpConflicted(now_ms=now_ms, wall_ms=wall_ms, task=task, failure=failure)
        case WarmUpLost(spark=spark):
            return events.WarmUpLost(now_ms=now_ms, wall_ms=wall_ms, task=task, spark=spark)
        case NoSparkToWarmUp(error=error):
            return events.NoSparkToWarmUp(now_ms=now_ms, wall_ms=wall_ms, task=task, error=error)


def _heard_of_query(
    event: QueryStarted | QueryDetached | LookedEvent, *, now_ms: int, wall_ms: int
) -> events.AttemptEvent:
    """The machine's event for an event of a query."""
    task = event.order.task
    match event:
        case QueryStarted():
            return events.StreamBegan(now_ms=now_ms, wall_ms=wall_ms, task=task)
        case QueryDetached():
            last = event.otherwise
            return events.StreamBegan(
                now_ms=now_ms,
                wall_ms=wall_ms,
                task=task,
                handle=event.handle,
                otherwise=None if last is None else heard(last, now_ms=now_ms, wall_ms=wall_ms),
            )
        case QueryAdopted():
            return events.QueryAdopted(now_ms=now_ms, wall_ms=wall_ms, task=task, handle=event.handle)
        case QueryCleared():
            return events.QueryCleared(now_ms=now_ms, wall_ms=wall_ms, task=task)
        case QueryUnreachable():
            return events.QueryUnreachable(now_ms=now_ms, wall_ms=wall_ms, task=task, why=event.why)


def _heard_of_others(
    event: TaskConflicted | SparkLost | SparkFaltered | SparkAbsent, *, now_ms: int, wall_ms: int
) -> events.AttemptEvent:
    """The machine's event for an end that is not the task's own."""
    task = event.order.task
    match event:
        case TaskConflicted():
            failure = TaskFailure.of(event.error, event.traceback)
            return events.AttemptConflicted(now_ms=now_ms, wall_ms=wall_ms, task=task, failure=failure)
        case SparkLost():
            failure = TaskFailure.of(event.error, event.traceback)
            return events.SparkLost(now_ms=now_ms, wall_ms=wall_ms, task=task, spark=event.spark, failure=failure)
        case SparkFaltered():
            failure = TaskFailure.of(event.error, event.traceback)
            return events.SparkFaltered(now_ms=now_ms, wall_ms=wall_ms, task=task, failure=failure, lasts=event.lasts)
        case SparkAbsent():
            return events.SparkAbsent(now_ms=now_ms, wall_ms=wall_ms, task=task, error=event.error)
