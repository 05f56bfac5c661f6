"""``cospark jobs plan``: the tasks of a plan, and the workers that would get them now. The plan is made here."""

from __future__ import annotations

import argparse
import json
from typing import Any

from airflow_provider.cli.job_commands.steer_jobs import add_allow_option
from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.connection import add_connection_arguments
from airflow_provider.cli.shared.json_option import json_object_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_read
from airflow_provider.cli.shared.terminal import say
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError
from airflow_provider.spark.job import JobContext
from airflow_provider.spark.job.loading import EntryPointError, load_job
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.spark.raised import Naming
from airflow_provider.state.operations.deciding import altered
from airflow_provider.state.operations.operations import AlterJob, NoJobError, OperationError
from airflow_provider.state.operations.preview import preview
from airflow_provider.state.records import JobDefinition
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot

_MEANING = "show which tasks a plan would have, and which workers would get them now; nothing is written or started"


def add_action(actions: Any) -> None:
    """:param actions: what ``add_subparsers`` gives"""
    parser = add_command(actions, "plan", _MEANING)
    add_group_argument(parser)
    parser.add_argument("name", help="the job's name")
    parser.add_argument(
        "entry_point",
        nargs="?",
        help="of a job to submit, importable here; without it, a job of the group as alter would change it",
    )
    parser.add_argument(
        "--config", default="{}", metavar="JSON", help="as in submit; without an entry point, as in alter"
    )
    parser.add_argument("--max-tasks", type=int, metavar="N", help="the most tasks the plan may have")
    parser.add_argument("--run-key", default="", metavar="KEY", help="as in submit")
    add_allow_option(parser, "without an entry point")
    parser.add_argument(
        "--dry-run", action="store_true", required=True, help="required: this command only shows a plan"
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    add_connection_arguments(parser)


async def plan(args: argparse.Namespace, settings: KafkaSettings) -> int:
    """0: shown.

    :raises ValueError: if there would be no such plan
    """
    jobs, status = JobsSnapshot(), StatusSnapshot()
    try:
        async with group_read(settings, args.group) as topics:
            jobs, status = topics.jobs, topics.status
    except NoTopicError:
        if args.entry_point is None:
            raise
    definition = _definition(args, jobs)
    shown = preview(definition, _configs(definition, _allowed(args)), jobs, status, at_ms=wall_ms())
    say(*([json.dumps(shown.to_json())] if args.json else shown.lines()))
    return 0


def _definition(args: argparse.Namespace, jobs: JobsSnapshot) -> JobDefinition:
    config = json_object_of("--config", args.config)
    if args.entry_point is not None:
        return JobDefinition(
            name=args.name,
            entry_point=args.entry_point,
            config=config,
            max_tasks=args.max_tasks,
            run_key=args.run_key,
        )
    known = jobs.jobs.get(args.name)
    if known is None:
        raise NoJobError(args.name, jobs.jobs)
    settings = {} if args.max_tasks is None else {"max_tasks": args.max_tasks}
    return altered(AlterJob(job=args.name, config=config, settings=settings), known)


def _allowed(args: argparse.Namespace) -> list[str]:
    """The import prefixes for this process: those that were named on the command line."""
    named: str | None = args.entry_point
    return list(args.allow) if named is None else [named.partition(":")[0]]


def _configs(definition: JobDefinition, allowed: list[str]) -> list[dict[str, Any]]:
    """Call the job's planner in this process.

    :raises OperationError: if it can't be called here
    :raises ValueError: if it makes no valid plan
    """
    context = JobContext(
        name=definition.name,
        config=definition.config,
        max_tasks=definition.parts,
        run_key=definition.run_key or None,
    )
    failed = f"the planner of job {definition.name!r} failed"
    try:
        with Naming(lambda said: ValueError(f"{failed}: {said}"), EntryPointError, PlanError):
            return make_plan(load_job(definition.entry_point, allowed), context)
    except EntryPointError as elsewhere:
        raise OperationError(
            f"{elsewhere} (the plan is made on this machine: the job must be importable here, and be"
            " named or allowed by --allow)"
        ) from elsewhere
    except PlanError as wrong:
        raise ValueError(str(wrong)) from wrong
