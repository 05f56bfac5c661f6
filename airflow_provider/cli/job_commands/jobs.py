"""``cospark jobs``: submit, list, retry and remove the jobs of a group."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from airflow_provider.cli.group_commands.deserted import status_now
from airflow_provider.cli.job_commands import orphans, plan_jobs, steer_jobs
from airflow_provider.cli.job_commands.job_wait import JobGoneError, LateJobError, wait_until_complete
from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.conf_option import SESSION, add_conf_option, conf_of
from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.json_option import json_object_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened, group_read
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.group.live.shared import reach, shared_topics
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.rights import SUBMITTER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.spark.job.config_schema import check_config_here
from airflow_provider.spark.job.loading import JobCodeError
from airflow_provider.state.operations.operations import NoJobError, OperationError
from airflow_provider.state.records import JobDefinition, TaskKind
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.views.task_progress.progress import JobProgress, JobState
from airflow_provider.state.views.task_progress.retrying import retried_in_words
from airflow_provider.values.model import TaskId


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_submit(actions)

    listing = add_command(actions, "list", "list the jobs of a group and their progress")
    add_group_argument(listing)
    listing.add_argument("--json", action="store_true", help="one JSON object per job, with what its tasks returned")
    listing.add_argument("--expand", action="store_true", help="show each job as describe does")
    add_connection_arguments(listing)
    described = "show a job's definition, where each of its tasks is, and who paused or stopped it"
    describe = add_command(actions, "describe", described)
    add_group_argument(describe)
    describe.add_argument("name", help="the job's name")
    describe.add_argument("--json", action="store_true", help="as one JSON object: definition and status")
    add_connection_arguments(describe)

    retry = add_command(actions, "retry", "try failed tasks of a job again, with all their retries")
    add_group_argument(retry)
    retry.add_argument("name", help="the job's name")
    steer_jobs.add_task_option(retry, steer_jobs.TASK_OR_PLANNER, "all that failed")
    add_connection_arguments(retry)

    steer_jobs.add_actions(actions)
    plan_jobs.add_action(actions)
    orphans.add_action(actions)

    remove = add_command(actions, "remove", "remove a job, and stop its tasks")
    add_group_argument(remove)
    remove.add_argument("name", help="the job's name")
    add_connection_arguments(remove)


def _add_submit(actions: Any) -> None:
    submit = add_command(actions, "submit", "submit a job, or change its definition")
    add_group_argument(submit)
    submit.add_argument("name", help="the job's name")
    submit.add_argument("entry_point", help="package.module:ClassOrFunction, importable on the workers")
    submit.add_argument("--config", default="{}", metavar="JSON", help="a JSON object, or @FILE that holds one")
    submit.add_argument(
        "--max-tasks", type=int, metavar="N", help="the most tasks a plan may have (default: as many as it needs)"
    )
    submit.add_argument("--run-key", default="", metavar="KEY", help="a new key runs the same bounded job again")
    submit.add_argument(
        "--kind",
        choices=[kind.value for kind in TaskKind],
        default=TaskKind.BATCH.value,
        help="whether its tasks end by themselves (batch, the default) or not (streaming)",
    )
    submit.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="how often to try a failed task again (default: streams without limit, other tasks not at all)",
    )
    submit.add_argument(
        "--retry-delay-ms",
        type=int,
        default=10_000,
        metavar="MS",
        help="the time before the first retry; it grows with each failure in a row (default: 10000)",
    )
    submit.add_argument(
        "--task-timeout-ms",
        type=int,
        metavar="MS",
        help="stop an attempt of a task that takes longer, and count it as failed (default: no limit)",
    )
    add_conf_option(submit, SESSION, "each task's session")
    submit.add_argument(
        "--replan-interval-ms", type=int, metavar="MS", help="plan again at this interval (default: plan once)"
    )
    submit.add_argument(
        "--stall-after-ms",
        type=int,
        metavar="MS",
        help="a stream that has not moved for this long is stalled (default: 10 times as long as its last batches took,"
        " and 10 minutes at least)",
    )
    submit.add_argument(
        "--wait", action="store_true", help="wait until the job has finished or failed, and show its progress"
    )
    submit.add_argument("--timeout", type=float, metavar="S", help="with --wait: at most S seconds (default: no limit)")
    add_connection_arguments(submit)


def run(args: argparse.Namespace) -> int:
    """Run the action; 0: done; 1: the job failed, or no such group or job; 2: not understood or not possible."""
    actions: dict[str, Callable[[argparse.Namespace, KafkaSettings], Coroutine[Any, Any, int]]] = {
        "submit": _submit,
        "list": _list,
        "describe": _describe,
        "retry": _retry,
        "remove": _remove,
        **steer_jobs.ACTIONS,
        "plan": plan_jobs.plan,
        "orphans": orphans.run,
    }

    try:
        return asyncio.run(actions[args.action](args, settings_of(args)))
    except (NoTopicError, OperationError) as missing:
        return _refuse(args, missing, 1)
    except (SettingsError, TopicError, TransportError, JobCodeError, ValueError) as wrong:
        return _refuse(args, wrong, 2)


def _refuse(args: argparse.Namespace, wrong: object, status: int) -> int:
    complain(f"cospark jobs {args.action}: {wrong}")
    return status


# ---- submit


async def _submit(args: argparse.Namespace, settings: KafkaSettings) -> int:
    definition = JobDefinition(
        name=args.name,
        entry_point=args.entry_point,
        config=json_object_of("--config", args.config),
        max_tasks=args.max_tasks,
        run_key=args.run_key,
        kind=TaskKind(args.kind),
        retries=args.retries,
        retry_delay_ms=args.retry_delay_ms,
        timeout_ms=args.task_timeout_ms,
        session_conf=conf_of(SESSION, args.session_conf),
        replan_interval_ms=args.replan_interval_ms,
        stall_after_ms=args.stall_after_ms,
        submitted_at_ms=wall_ms(),
        submitted_by=user_at_host(),
    )
    if args.wait and not definition.bounded:
        raise ValueError("--wait: a job that streams, or has a --replan-interval-ms, does not end by itself")
    if args.timeout is not None and not (args.wait and args.timeout > 0):
        raise ValueError("--timeout: must be above 0, and needs --wait")
    unchecked = check_config_here(definition.name, definition.entry_point, definition.config)
    if unchecked is not None:
        complain(f"cospark jobs submit: the config is only checked by the worker that plans the job: {unchecked}")
    await reach(settings)
    async with shared_topics(settings, args.group, SUBMITTER) as topics:
        submission = await topics.submit(definition)
        say(*submission.lines())
        return await _wait(args, topics, settings) if args.wait else 0


async def _wait(args: argparse.Namespace, topics: GroupTopics, settings: KafkaSettings) -> int:
    try:
        end = await wait_until_complete(args.name, topics, settings, timeout_s=args.timeout, tell=say)
    except (JobGoneError, LateJobError) as missed:
        return _refuse(args, missed, 1)
    say(*_lines(end))
    return 0 if end.state is JobState.FINISHED else 1


# ---- list, describe, retry, remove


async def _list(args: argparse.Namespace, settings: KafkaSettings) -> int:
    if args.expand:
        return await _list_expanded(args, settings)
    async with group_read(settings, args.group) as topics:
        status = await status_now(topics, settings)
        found = [JobReport.of(name, topics.jobs, status) for name in sorted(topics.jobs.jobs)]
    if not found and not args.json:
        say(f"group {args.group} has no jobs")
    for report in found:
        assert report is not None
        say(*([json.dumps(_as_json(report))] if args.json else _lines(report.progress)))
    return 0


async def _list_expanded(args: argparse.Namespace, settings: KafkaSettings) -> int:
    async with group_read(settings, args.group) as topics:
        found = JobDescription.of_all(topics.jobs, await status_now(topics, settings))
    for job in found:
        _show(args, job)
    return 0


async def _describe(args: argparse.Namespace, settings: KafkaSettings) -> int:
    async with group_read(settings, args.group) as topics:
        jobs, status = topics.jobs, await status_now(topics, settings)
        found = JobDescription.of(args.name, jobs, status)
    if found is None:
        return _refuse(args, NoJobError(args.name, jobs.jobs), 1)
    _show(args, found)
    return 0


def _show(args: argparse.Namespace, job: JobDescription) -> None:
    now_ms = wall_ms()
    say(*([json.dumps(job.to_json(now_ms=now_ms))] if args.json else job.lines(now_ms=now_ms)))


async def _retry(args: argparse.Namespace, settings: KafkaSettings) -> int:
    async with group_opened(settings, args.group) as topics:
        try:
            retried = await topics.retry_failed(args.name, args.task, by=user_at_host())
        except NoJobError:
            return _refuse(args, f"group {args.group} has no job {args.name}", 1)
    if retried or not args.task:
        say(retried_in_words(args.name, retried))
    others = sorted(set(args.task or ()) - {task.index for task in retried})
    if others:
        return _refuse(
            args, f"these tasks have not failed: {', '.join(str(TaskId(args.name, index)) for index in others)}", 1
        )
    return 0


async def _remove(args: argparse.Namespace, settings: KafkaSettings) -> int:
    async with group_opened(settings, args.group) as topics:
        removed = await topics.remove(args.name, by=user_at_host())
    if not removed:
        return _refuse(args, f"group {args.group} has no job {args.name}", 1)
    say(f"job {args.name}: removed")
    return 0


def _lines(progress: JobProgress) -> list[str]:
    counts = progress.counts_in_words
    run = f" (run {progress.run_key})" if progress.run_key else ""
    return [
        f"{progress.job}{run}: {progress.state.value}" + (f": {counts}" if counts else ""),
        *(f"  {line}" for line in progress.errors_in_words()),
    ]


def _as_json(report: JobReport) -> dict[str, Any]:
    progress, values = report.progress, report.to_json()
    return {
        "job": progress.job,
        "run_key": progress.run_key,
        "state": progress.state.value,
        "complete": progress.complete,
        "planned": progress.planned,
        "counts": {state.value: count for state, count in progress.counts.items()},
        "errors": {str(task): error.message for task, error in progress.errors.items()},
        "names": values["names"],
        "results": values["results"],
        "runs": values["runs"],
    }
