"""``cospark jobs``: submit, list and remove the jobs of a group."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from airflow_provider.cli.connection import add_connection_arguments, settings_of
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.log_errors import LogError
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.progress import JobProgress, JobState, job_progress
from airflow_provider.kafka.records import JobDefinition, TaskKind
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.shared import shared_logs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    submit = actions.add_parser("submit", help="ask a group to run a job, or to run it otherwise")
    submit.add_argument("group")
    submit.add_argument("name", help="the job's name")
    submit.add_argument("entry_point", help="package.module:ClassOrFunction, importable on the workers")
    submit.add_argument("--config", default="{}", metavar="JSON", help="a JSON object, or @FILE that holds one")
    submit.add_argument("--max-tasks", type=int, default=1, metavar="N", help="the most tasks a plan may have")
    submit.add_argument("--run-key", default="", metavar="KEY", help="a new key runs the same bounded job again")
    submit.add_argument("--kind", choices=[kind.value for kind in TaskKind], default=TaskKind.BATCH.value)
    submit.add_argument("--retries", type=int, default=0, metavar="N", help="run a failed task again so often")
    submit.add_argument("--retry-delay-ms", type=int, default=0, metavar="MS")
    submit.add_argument("--replan-interval-ms", type=int, metavar="MS", help="plan again after so long")
    submit.add_argument("--wait", action="store_true", help="until the job has finished or failed")
    add_connection_arguments(submit)

    listing = actions.add_parser("list", help="the jobs of a group and how far they are")
    listing.add_argument("group")
    listing.add_argument("--json", action="store_true", help="one JSON object a job")
    add_connection_arguments(listing)

    remove = actions.add_parser("remove", help="ask a group to run a job no more")
    remove.add_argument("group")
    remove.add_argument("name")
    add_connection_arguments(remove)


def run(args: argparse.Namespace) -> int:
    """0: done; 1: the job failed, or was not there to remove; 2: not understood or not possible."""
    actions: dict[str, Callable[[argparse.Namespace, GroupLogs], Awaitable[int]]] = {
        "submit": _submit,
        "list": _list,
        "remove": _remove,
    }
    try:
        return asyncio.run(_with_logs(args, actions[args.action]))
    except (SettingsError, LogError, TransportError, ValueError) as wrong:
        print(f"cospark jobs {args.action}: {wrong}", file=sys.stderr)
        return 2


async def _with_logs(
    args: argparse.Namespace, action: Callable[[argparse.Namespace, GroupLogs], Awaitable[int]]
) -> int:
    async with shared_logs(settings_of(args), args.group) as logs:
        return await action(args, logs)


async def _submit(args: argparse.Namespace, logs: GroupLogs) -> int:
    submission = await logs.submit(
        JobDefinition(
            name=args.name,
            entry_point=args.entry_point,
            config=_config(args.config),
            max_tasks=args.max_tasks,
            run_key=args.run_key,
            kind=TaskKind(args.kind),
            retries=args.retries,
            retry_delay_ms=args.retry_delay_ms,
            replan_interval_ms=args.replan_interval_ms,
            submitted_at_ms=int(time.time() * 1000),
            submitted_by="cospark",
        )
    )
    print(f"job {args.name}: {'submitted' if submission.changed else 'already submitted, nothing changed'}")
    if not args.wait:
        return 0
    await logs.wait_for(lambda jobs, status: _over(job_progress(args.name, jobs, status.tasks)))
    progress = job_progress(args.name, logs.jobs, logs.status.tasks)
    assert progress is not None
    print(_line(progress))
    for task, error in progress.errors.items():
        print(f"  {task}: {error.message}", file=sys.stderr)
    return 0 if progress.state is JobState.FINISHED else 1


def _over(progress: JobProgress | None) -> bool:
    return progress is None or progress.complete


def _config(text: str) -> dict[str, Any]:
    """:raises ValueError: naming what is no JSON object"""
    source = Path(text[1:]).read_text() if text.startswith("@") else text
    try:
        config = json.loads(source)
    except ValueError as wrong:
        raise ValueError(f"--config is not JSON: {wrong}") from wrong
    if not isinstance(config, dict):
        raise ValueError(f"--config must be a JSON object, not {type(config).__name__}")
    return config


async def _list(args: argparse.Namespace, logs: GroupLogs) -> int:
    jobs, status = logs.jobs, logs.status
    for name in sorted(jobs.jobs):
        progress = job_progress(name, jobs, status.tasks)
        assert progress is not None
        print(json.dumps(_as_json(progress)) if args.json else _line(progress))
    return 0


async def _remove(args: argparse.Namespace, logs: GroupLogs) -> int:
    removed = await logs.remove(args.name)
    print(f"job {args.name}: {'removed' if removed else 'there is no such job'}")
    return 0 if removed else 1


def _line(progress: JobProgress) -> str:
    counts = ", ".join(f"{count} {state.value}" for state, count in progress.counts.items())
    return f"{progress.job}: {progress.state.value}" + (f" ({counts})" if counts else "")


def _as_json(progress: JobProgress) -> dict[str, Any]:
    return {
        "job": progress.job,
        "run_key": progress.run_key,
        "state": progress.state.value,
        "complete": progress.complete,
        "planned": progress.planned,
        "counts": {state.value: count for state, count in progress.counts.items()},
        "errors": {str(task): error.message for task, error in progress.errors.items()},
    }
