"""``cospark status GROUP``: a group as it lives."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider.cli.connection import add_connection_arguments, settings_of
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.jobs_view import JobsSnapshot
from airflow_provider.kafka.log_errors import LogError
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.progress import converged, job_progress
from airflow_provider.kafka.records import TaskState, WorkerPhase
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.status_view import StatusSnapshot
from airflow_provider.membership.model import WorkerId

_STYLES = {
    TaskState.RUNNING: "green",
    TaskState.FINISHED: "dim",
    TaskState.FAILED: "bold red",
    TaskState.STOPPED: "yellow",
}
_MOST_MOVES = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group")
    parser.add_argument("--once", action="store_true", help="show it as it is now, and end")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    try:
        asyncio.run(_watch(args))
    except (SettingsError, LogError, TransportError) as wrong:
        print(f"cospark status: {wrong}", file=sys.stderr)
        return 2
    return 0


async def _watch(args: argparse.Namespace) -> None:
    console = Console()
    logs = GroupLogs(settings_of(args), args.group)
    logs.attach()
    try:
        await logs.catch_up()
        if args.once:
            console.print(render(args.group, logs.jobs, logs.status, wall_ms=_wall_ms()))
            return
        changed = asyncio.Event()
        logs.subscribe(changed.set)
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                changed.clear()
                live.update(render(args.group, logs.jobs, logs.status, wall_ms=_wall_ms()), refresh=True)
                await _a_second_or(changed)
    finally:
        await logs.aclose()


async def _a_second_or(changed: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(changed.wait(), 1)
    except asyncio.TimeoutError:
        return


def render(group: str, jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> RenderableType:
    """The group as a page: its epoch, its workers with their tasks, its jobs, what moved last."""
    return Group(_headline(group, status, wall_ms), _workers(status), _jobs(jobs, status), *_moves(status))


def _headline(group: str, status: StatusSnapshot, wall_ms: int) -> Text:
    record = status.group
    if record is None:
        return Text(f"{group}: no rebalance has been completed yet", style="bold")
    calm = "converged" if converged(record, status.workers) else "rebalancing"
    told = [status.workers[worker].state for worker in record.members if worker in status.workers]
    if told and all(state is WorkerPhase.LEFT for state in told):
        calm = "all its workers have left"
    if record.deadline_ms > wall_ms:
        calm = f"lost tasks wait {(record.deadline_ms - wall_ms) / 1000:.0f} s more for their worker"
    return Text(f"{group}: epoch {record.epoch}, {calm}, led by {record.leader} ({record.reason})", style="bold")


def _workers(status: StatusSnapshot) -> Table:
    table = Table("worker", "state", "epoch", "tasks", expand=True)
    members = status.group.members if status.group else {}
    for name in sorted({*members, *status.workers}):
        worker = status.workers.get(name)
        if name not in members and worker is not None and not worker.state.applied:
            continue
        table.add_row(
            name,
            worker.state.value if worker else "no record",
            str(worker.epoch) if worker else "",
            _tasks_of(name, status),
        )
    return table


def _tasks_of(worker: WorkerId, status: StatusSnapshot) -> Text:
    text = Text()
    for task in sorted(status.group.owned_by(worker)) if status.group else ():
        told = status.tasks.get(task)
        state = told.state if told and told.worker == worker else TaskState.PENDING
        text.append(f"{task} ", style=_STYLES.get(state, ""))
    return text


def _jobs(jobs: JobsSnapshot, status: StatusSnapshot) -> Table:
    table = Table("job", "state", "tasks", "errors", expand=True)
    for name in sorted(jobs.jobs):
        progress = job_progress(name, jobs, status.tasks)
        assert progress is not None
        table.add_row(
            name,
            progress.state.value,
            ", ".join(f"{count} {state.value}" for state, count in progress.counts.items()),
            "; ".join(f"{task}: {error.message}" for task, error in progress.errors.items()),
        )
    return table


def _moves(status: StatusSnapshot) -> list[Text]:
    moves = status.group.moves if status.group else ()
    lines = [
        Text(f"  {move.task}: {move.source or 'nowhere'} → {move.target or 'nowhere'} ({move.reason.value})")
        for move in moves[:_MOST_MOVES]
    ]
    if len(moves) > _MOST_MOVES:
        lines.append(Text(f"  and {len(moves) - _MOST_MOVES} more moves"))
    return lines


def _wall_ms() -> int:
    return int(time.time() * 1000)
