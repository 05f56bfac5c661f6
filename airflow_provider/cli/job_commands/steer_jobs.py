"""``cospark jobs`` pause, stop, resume, restart and alter."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.conf_option import SESSION, add_conf_option, conf_of
from airflow_provider.cli.shared.connection import add_connection_arguments
from airflow_provider.cli.shared.json_option import json_object_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.spark.job.config_schema import check_config_here
from airflow_provider.state.operations.deciding import altered
from airflow_provider.state.operations.operations import (
    ALTERABLE,
    AlterJob,
    HaltJob,
    Operation,
    RestartJob,
    ResumeJob,
    StopTasks,
)
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import Halt
from airflow_provider.state.views.jobs_view import JobsSnapshot

_PAUSE: Final = "stop the tasks of a job for now; they stay assigned where they are"
_STOP: Final = "stop the tasks of a job, or some of them, and release them; their progress is kept"
_RESUME: Final = "run a paused or stopped job again"
_ALTER: Final = "change the definition of a running job; only tasks whose own configs change are restarted"
_RESTART: Final = "restart the running tasks of a job where they are, and try the failed ones again"
_REMOVE_SESSION: Final = "--remove-session-conf"
TASK_OR_PLANNER: Final = "the task of this index, -1 for the planner"


def add_actions(actions: Any) -> None:
    """:param actions: what ``add_subparsers`` gives"""
    meanings = {"pause": _PAUSE, "stop": _STOP, "resume": _RESUME, "restart": _RESTART, "alter": _ALTER}
    for name, meaning in meanings.items():
        parser = add_command(actions, name, meaning)
        add_group_argument(parser)
        parser.add_argument("name", help="the job's name")
        parser.add_argument("--json", action="store_true", help="show the outcome as one JSON object")
        if name == "restart":
            parser.add_argument(
                "--only-failed", action="store_true", help="only try failed tasks again; leave running tasks alone"
            )
            add_task_option(parser, TASK_OR_PLANNER, "all, and the planner")
        if name == "stop":
            add_task_option(parser, "the task of this index, until it is restarted", "the whole job")
        if name == "alter":
            _add_alter_options(parser)
            add_allow_option(parser, "refuse a config that the job does not accept")
        add_connection_arguments(parser)


def add_task_option(parser: argparse.ArgumentParser, which: str, otherwise: str) -> None:
    """:param otherwise: the meaning without the option, for the help text"""
    parser.add_argument(
        "--task",
        type=int,
        action="append",
        metavar="N",
        help=f"only {which}; may be repeated (default: {otherwise})",
    )


def _add_alter_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        default="{}",
        metavar="JSON",
        help="changed keys: a JSON object, or @FILE that holds one; null removes a key",
    )
    parser.add_argument(
        "--if-version",
        type=int,
        metavar="N",
        help="alter it only if the job still has this version, which describe shows",
    )
    add_conf_option(parser, SESSION, "each task's session, from its next start on")
    parser.add_argument(
        _REMOVE_SESSION,
        action="append",
        default=[],
        metavar="KEY",
        help="remove a setting of each task's session; may be repeated",
    )
    for name in ALTERABLE:
        unit = "MS" if name.endswith("_ms") else "N"
        option = "--task-timeout-ms" if name == "timeout_ms" else f"--{name.replace('_', '-')}"
        parser.add_argument(option, dest=name, type=int, metavar=unit, help="as in submit")


def add_allow_option(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Others may have submitted the job, so it is only imported if this is allowed explicitly."""
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PREFIX",
        help=f"{meaning}: import the job here if its entry point begins with PREFIX; may be repeated",
    )


def _operation(args: argparse.Namespace) -> Operation:
    match args.action:
        case "pause":
            return HaltJob(job=args.name, halt=Halt.PAUSED)
        case "stop" if args.task:
            return StopTasks(job=args.name, tasks=frozenset(args.task))
        case "stop":
            return HaltJob(job=args.name, halt=Halt.STOPPED)
        case "resume":
            return ResumeJob(job=args.name)
        case "alter":
            settings = {name: value for name in ALTERABLE if (value := getattr(args, name)) is not None}
            config = json_object_of("--config", args.config)
            return AlterJob(
                job=args.name,
                defined_at=args.if_version,
                config=config,
                session_conf=_changed_conf(args),
                settings=settings,
            )
    tasks = None if args.task is None else frozenset(args.task)
    return RestartJob(job=args.name, tasks=tasks, only_failed=args.only_failed)


def _changed_conf(args: argparse.Namespace) -> dict[str, str | None]:
    """:raises ValueError: for a setting that is both given and removed"""
    given = conf_of(SESSION, args.session_conf)
    both = sorted(given.keys() & set(args.remove_session_conf))
    if both:
        raise ValueError(f"{_REMOVE_SESSION} {both[0]}: {SESSION} gives it a value: use one of the two")
    return {**given, **dict.fromkeys(args.remove_session_conf)}


def _check(operation: AlterJob, jobs: JobsSnapshot, allowed: Sequence[str]) -> None:
    """Check the new config if the job can be imported here; otherwise say that it is not checked.

    :raises ValueError: if the job would have a config that it does not accept
    """
    definition = jobs.jobs.get(operation.job)
    if definition is not None and operation.config:
        then = altered(operation, definition)
        unchecked = check_config_here(then.name, then.entry_point, then.config, allowed=allowed)
        if unchecked and not allowed:
            module = then.entry_point.partition(":")[0]
            complain(
                "cospark jobs alter: the config is only checked by the worker that plans the job; to check it here too,"
                f" add --allow {module}, if {module} can be imported here"
            )


async def _carry_out(args: argparse.Namespace, settings: KafkaSettings) -> int:
    operation = _operation(args)
    async with group_opened(settings, args.group) as topics:
        if isinstance(operation, AlterJob):
            await topics.catch_up()
            _check(operation, topics.jobs, args.allow)
        outcome = await topics.carry_out(operation, by=user_at_host())
    say(json.dumps(outcome.to_json()) if args.json else outcome_in_words(operation, outcome))
    return 0


ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace, KafkaSettings], Coroutine[Any, Any, int]]]] = (
    MappingProxyType(dict.fromkeys(("pause", "stop", "resume", "restart", "alter"), _carry_out))
)
