"""``cospark status GROUP``: shows a group while it changes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from statistics import median_low
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider.assignment.model import Move
from airflow_provider.cli.group_commands.deserted import seems_deserted, status_now
from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import group_opened, group_read, read_on, reading_in_words
from airflow_provider.cli.shared.terminal import complain, printable, say
from airflow_provider.group.live.polled import Polled
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.state.metrics.missing_slots import room
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.records.times import span
from airflow_provider.state.reports.durations import finished_times
from airflow_provider.state.reports.groups.group_warnings import group_warnings
from airflow_provider.state.reports.groups.worker_words import (
    known_workers,
    waiting_for,
    where_airflow_says_why,
    worker_in_words,
)
from airflow_provider.state.reports.learners import LearnerTask, by_learner, by_owner, given_up, learners
from airflow_provider.state.reports.report import GroupReport, JobReport
from airflow_provider.state.rounds.move_reasons import one_by_one
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import is_empty, what_was
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured, converged, job_progress, why_idle
from airflow_provider.state.views.task_progress.shown_tasks import kept_waiting_by, shown_status
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.in_short import in_short
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

_STYLES = {
    TaskState.RUNNING: "green",
    TaskState.STALLED: "bold yellow",
    TaskState.UNWATCHED: "bold yellow",
    TaskState.FINISHED: "dim",
    TaskState.FAILED: "bold red",
    TaskState.STOPPED: "yellow",
    TaskState.PAUSED: "yellow",
}
_MOST_MOVES = 6
_MOST_TASKS = 12
_MOST_ERRORS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_group_argument(parser)
    parser.add_argument("--once", action="store_true", help="show the group once, as without a terminal")
    parser.add_argument("--json", action="store_true", help="show the group once, as one JSON object")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the group; 0: done; 1: there is no such group; 2: not possible."""
    try:
        asyncio.run(_watch(args))
    except NoTopicError as missing:
        complain(f"cospark status: {missing}")
        return 1
    except (SettingsError, TopicError, TransportError) as wrong:
        complain(f"cospark status: {wrong}")
        return 2
    return 0


async def _watch(args: argparse.Namespace) -> None:
    console, settings = Console(), settings_of(args)
    if args.once or args.json or not console.is_terminal:
        async with group_read(settings, args.group) as topics:
            status = await status_now(topics, settings)
            if args.json:
                say(*json.dumps(as_json(args.group, topics.jobs, status, wall_ms=wall_ms()), indent=2).split("\n"))
                return
            console.print(render(args.group, topics.jobs, status, wall_ms=wall_ms()))
        return
    empty: Memo[StatusSnapshot, StatusSnapshot] = Memo()
    deserted = Polled(partial(seems_deserted, args.group, settings))
    async with group_opened(settings, args.group) as topics:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:

            def show(*notes: str) -> None:
                status = topics.status
                if deserted.answer:
                    status = empty.get(status, status.without_members)
                page = render(args.group, topics.jobs, status, wall_ms=wall_ms())
                live.update(Group(*(_text(note, style="yellow") for note in notes), page), refresh=True)

            await read_on(topics, lambda: show(reading_in_words(topics)))
            changed = asyncio.Event()
            topics.subscribe(changed.set)
            with deserted.polling():
                while True:
                    changed.clear()
                    show()
                    await _a_second_or(changed)


async def _a_second_or(changed: asyncio.Event) -> None:
    with contextlib.suppress(DeadlineError):
        await wait_at_most(1, changed.wait())


def as_json(group: str, jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> dict[str, Any]:
    """The group as in a sensor's XCom, with its slots and jobs. Before its first rebalance it has no epoch."""
    report = GroupReport.of(jobs, status)
    progress = {name: JobReport.of(name, jobs, status) for name in sorted(jobs.jobs)}
    return {
        "group": group,
        **({"epoch": None} if report is None else report.to_json()),
        "room": room(jobs, status, now_ms=wall_ms).to_json(),
        "jobs": {name: None if job is None else job.to_json() for name, job in progress.items()},
    }


def render(group: str, jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> RenderableType:
    """The group as a page: its epoch, its workers with their tasks, its jobs, the last moves."""
    return Group(
        _headline(group, status, wall_ms),
        *_room(jobs, status, wall_ms),
        *_idle(group, jobs, status),
        *_warnings(jobs, status),
        _workers(jobs, status, wall_ms),
        _jobs(jobs, status),
        *_given_up(jobs, status),
        *_moves(jobs, status),
    )


def _headline(group: str, status: StatusSnapshot, wall_ms: int) -> Text:
    record = status.group
    if record is None:
        return _text(f"{group}: no rebalance has been completed yet", style="bold")
    calm = "converged" if converged(record, status.workers) else "rebalancing"
    if is_empty(status):
        return _text(f"{group}: {what_was(status)} ({record.because})", style="bold")
    if record.deadline_ms > wall_ms:
        left = f"{(record.deadline_ms - wall_ms) / 1000:.0f} s more"
        calm = f"lost tasks wait {left} for their worker" if record.waiting else f"the next moves wait {left}"
    return _text(f"{group}: epoch {record.epoch}, {calm}, led by {record.leader} ({record.because})", style="bold")


def _room(jobs: JobsSnapshot, status: StatusSnapshot, wall_ms: int) -> list[Text]:
    words = room(jobs, status, now_ms=wall_ms).in_words
    return [_text(f"  {words}")] if words else []


def _idle(group: str, jobs: JobsSnapshot, status: StatusSnapshot) -> list[Text]:
    reason = why_idle(jobs, status.tasks)
    return [] if reason is None else [_text(f"group {group} {reason}", style="yellow")]


def _warnings(jobs: JobsSnapshot, status: StatusSnapshot) -> list[Text]:
    words = (*group_warnings(jobs, status), *where_airflow_says_why(status))
    return [_text(f"  {warning}", style="yellow") for warning in words]


def _workers(jobs: JobsSnapshot, status: StatusSnapshot, wall_ms: int) -> Table:
    unfinished = configured(jobs, status.tasks)
    table = Table("worker", "state", "epoch", "tasks", expand=True)
    learning = learners(status)
    of_owner, of_learner = by_owner(learning), by_learner(learning)
    for name in known_workers(status):
        state = worker_in_words(name, status)
        if state is not None:
            worker = status.workers.get(name)
            epoch = str(worker.epoch) if worker else ""
            tasks = _tasks_of(name, jobs, status, unfinished, wall_ms)
            tasks.append_text(_learned(of_owner.get(name, ()), jobs))
            tasks.append_text(_learns(of_learner.get(name, ()), jobs))
            table.add_row(*map(_text, (name, state, epoch)), tasks)
    return table


def _tasks_of(name: WorkerId, jobs: JobsSnapshot, status: StatusSnapshot, unfinished: Tasks, wall_ms: int) -> Text:
    """The worker's unfinished tasks by state, first the running ones and how long they have been running."""
    owned = status.group.owned_by(name) if status.group else NO_TASKS
    by_state: dict[tuple[TaskState, str], list[str]] = {}
    for task in sorted(owned & unfinished):
        last = shown_status(task, jobs, status)
        state = last.state if last else TaskState.UNASSIGNED if status.deserted else TaskState.PENDING
        names = by_state.setdefault((state, _where_or_why(last, status)), [])
        names.append(f"{jobs.label(task)}{_about(last, jobs.slots_of(task), wall_ms)}")
    text = Text()
    for (state, more), names in sorted(by_state.items(), key=lambda group: group[0][0] is not TaskState.RUNNING):
        label = f"{state.value} ({more})" if more else state.value
        text.append_text(_text(_names(label, names), style=_STYLES.get(state, "")))
    waiting = [jobs.label(task) for task in sorted(waiting_for(name, status) & unfinished)]
    return text.append_text(_text(_names("wait for it", waiting), style="yellow"))


def _learned(of_this_worker: Iterable[LearnerTask], jobs: JobsSnapshot) -> Text:
    """Those of its tasks that others learn."""
    return _text(_names("learned", [f"{jobs.label(one.task)} by {one.learner}" for one in of_this_worker]))


def _learns(by_this_worker: Iterable[LearnerTask], jobs: JobsSnapshot) -> Text:
    """The tasks that it learns, with their progress and owners."""
    by_state: dict[str, list[str]] = {}
    for one in by_this_worker:
        far = f" ({one.percent} %)" if one.state == "warming" else ""
        by_state.setdefault(one.state, []).append(f"{jobs.label(one.task)} of {one.learned or 'nobody'}{far}")
    return _text("".join(_names(state, names) for state, names in sorted(by_state.items())), style="cyan")


def _where_or_why(last: TaskStatus | None, status: StatusSnapshot) -> str:
    """The server of a detached task, or what keeps a task waiting."""
    return f"detached on {last.server}" if last and last.server else kept_waiting_by(last, status, alike=True)


def _about(last: TaskStatus | None, slots: int, wall_ms: int) -> str:
    since = last.running_ms(wall_ms) if last else None
    far = last.how_far(wall_ms) if last and last.state.may_run else ""
    large = f"{slots} slots" if slots > 1 else ""
    about = ", ".join(filter(None, ("" if since is None else span(since), large, far)))
    return f" ({about})" if about else ""


def _names(label: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"{label}: {in_short(names, most=_MOST_TASKS)}  "


def _jobs(jobs: JobsSnapshot, status: StatusSnapshot) -> Table:
    table = Table("job", "state", "tasks", "took", "errors", expand=True)
    times = finished_times(jobs, status)
    for name in sorted(jobs.jobs):
        progress = job_progress(name, jobs, status)
        assert progress is not None
        cells = (
            name,
            progress.state.value,
            progress.counts_in_words,
            _took(name, times[name], jobs),
            "; ".join(progress.errors_in_words(most=_MOST_ERRORS)),
        )
        table.add_row(*map(_text, cells))
    return table


def _took(job: str, times: Sequence[tuple[int, int]], jobs: JobsSnapshot) -> str:
    if not times:
        return ""
    longest, index = max(times)
    if len(times) == 1:
        return span(longest)
    return f"{span(median_low(took for took, _ in times))}, at most {span(longest)} ({jobs.label(TaskId(job, index))})"


def _given_up(jobs: JobsSnapshot, status: StatusSnapshot) -> list[Text]:
    """Tasks that stay where they are because their warm-up elsewhere has failed."""
    all_of_them = given_up(status)
    lines = [f"  {one.in_words(jobs.label)}" for one in all_of_them[:_MOST_MOVES]]
    if len(all_of_them) > _MOST_MOVES:
        lines.append(f"  and {len(all_of_them) - _MOST_MOVES} more could not be made ready")
    return [_text(line, style="yellow") for line in lines]


def _way(move: Move) -> str:
    if move.source is not None and move.source == move.target:
        return f"again at {move.target}"
    return f"{move.source or 'nowhere'} → {move.target or 'nowhere'}"


def _moves(jobs: JobsSnapshot, status: StatusSnapshot) -> list[Text]:
    moves = status.group.moves if status.group else ()
    lines = [
        _text(f"  {jobs.label(task)}: {_way(move)} ({move.reason.value})")
        for task, move in islice(one_by_one(moves), _MOST_MOVES)
    ]
    moved = sum(len(move.tasks) for move in moves)
    if moved > _MOST_MOVES:
        lines.append(_text(f"  and {moved - _MOST_MOVES} more moves"))
    return lines


def _text(text: str, style: str = "") -> Text:
    """Text from others, without markup: in a string, rich would take "[/data]" and "a:100:" for markup and emoji."""
    return Text(printable(text), style=style)
