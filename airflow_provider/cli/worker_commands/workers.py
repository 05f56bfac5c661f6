"""``cospark workers``: ask workers of a group to leave it."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened, read_on
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError, TopicTimeoutError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.state.operations.notes import of_leaving
from airflow_provider.state.records import ControlAction, ControlRecord, WorkerPhase
from airflow_provider.state.views.presence import may_be_asked
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import with_tasks
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.process_identity import still_runs

_LOOK_S: Final = 0.05

_ACTIONS: Final = {
    ControlAction.DRAIN: "ask workers to start no more tasks, and to leave when their running tasks have finished",
    ControlAction.STOP: "ask workers to stop their tasks and leave",
}


class UnknownWorkerError(Exception):
    """There is no such worker in the group."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, meaning in _ACTIONS.items():
        asking = add_command(actions, action.value, meaning)
        add_group_argument(asking)
        who = asking.add_mutually_exclusive_group(required=True)
        who.add_argument("workers", nargs="*", default=[], metavar="WORKER", help="the workers' names")
        who.add_argument(
            "--all",
            action="store_true",
            help="all workers of the group, also those that stand back because they can't run tasks",
        )
        asking.add_argument(
            "--wait",
            type=float,
            metavar="S",
            help="wait at most S seconds until they have left, and until their processes on this machine have ended",
        )
        add_connection_arguments(asking)


def run(args: argparse.Namespace) -> int:
    """Ask; 0: asked (with ``--wait``: they have left); 1: no such group or worker, or still there; 2: not possible."""
    try:
        return asyncio.run(_ask(args, settings_of(args)))
    except (NoTopicError, UnknownWorkerError) as missing:
        return _refuse(args, missing, 1)
    except (SettingsError, TopicError, TransportError) as wrong:
        return _refuse(args, wrong, 2)


def _refuse(args: argparse.Namespace, wrong: object, status: int) -> int:
    complain(f"cospark workers {args.action}: {wrong}")
    return status


async def _ask(args: argparse.Namespace, settings: KafkaSettings) -> int:
    async with group_opened(settings, args.group) as topics:
        await read_on(topics)
        workers = _named(topics.status, args.group, None if args.all else args.workers)
        processes = {worker: _process_of(worker, topics.status) for worker in workers}
        by = user_at_host()
        for worker in workers:
            wish = ControlRecord(worker=worker, action=ControlAction(args.action), at_ms=wall_ms(), by=by)
            await topics.publish_control(wish)
        say(f"asked to {args.action}: {', '.join(workers) or 'nobody, the group is empty'}")
        action, instead = ControlAction(args.action), "use `cospark workers stop`"
        for note in of_leaving(workers, action, topics.jobs, topics.status, stop_now=instead):
            say(note)
        return 0 if args.wait is None else await _wait(args, topics, processes)


def _process_of(worker: WorkerId, status: StatusSnapshot) -> str:
    """The process that runs the worker's tasks; empty if it is deferred: the triggerer is not waited for."""
    said = status.workers.get(worker)
    return said.process if said is not None and said.state is not WorkerPhase.DEFERRED else ""


async def _wait(args: argparse.Namespace, topics: GroupTopics, processes: Mapping[WorkerId, str]) -> int:
    """Wait until they have left, and until their processes have ended, as far as that is visible from this machine."""
    asked, until = frozenset(processes), time.monotonic() + args.wait
    try:
        await topics.wait_for(lambda _jobs, status: not asked & may_be_asked(status), timeout_s=args.wait)
    except TopicTimeoutError:
        left = "; ".join(with_tasks(sorted(asked & may_be_asked(topics.status)), topics.jobs, topics.status))
        return _refuse(args, f"after {args.wait:g} s these have not left: {left}", 1)
    while running := sorted(worker for worker, process in processes.items() if still_runs(process)):
        if time.monotonic() >= until:
            return _refuse(
                args,
                f"after {args.wait:g} s they have left the group, but their processes still run: {', '.join(running)}",
                1,
            )
        await asyncio.sleep(_LOOK_S)
    return 0


def _named(status: StatusSnapshot, group: str, names: Sequence[str] | None) -> list[WorkerId]:
    """:raises UnknownWorkerError: naming workers that are not in the group, and those that are"""
    there = may_be_asked(status)
    if names is None:
        return sorted(there)
    unknown = sorted(set(names) - there)
    if unknown:
        raise UnknownWorkerError(
            f"{', '.join(unknown)}: not in the group {group!r}; in it: {', '.join(sorted(there)) or 'nobody'}"
        )
    return [WorkerId(name) for name in dict.fromkeys(names)]
