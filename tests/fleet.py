"""Real workers for tests: processes of ``cospark worker``, which a test can kill, stop and start again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import psutil
from forked import Forked
from left_behind import states
from waiting import DEADLINE_S, LONGEST_SESSION_S, REST_MS, SLOWNESS, eventually, slow_ms

from airflow_provider.cli.main import main
from airflow_provider.group.live.classic.leading import last_round
from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import Event, JobDefinition, RebalanceEvent, TaskEvent, TaskState, TaskStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured, converged
from airflow_provider.values.model import TaskId, Tasks, WorkerId
from demo.events import read_events

TIMING = (
    *("--session-timeout-ms", slow_ms(30_000), "--heartbeat-interval-ms", "1000"),
    *("--lease-margin-ms", slow_ms(3_000), "--rebalance-timeout-ms", slow_ms(60_000)),
)
"""Long enough that nobody loses its session just because the machine is busy."""
SHORT_SESSION_S = 10.0 * SLOWNESS
SHORT_SESSION = ("--session-timeout-ms", slow_ms(10_000))
"""For tests that wait until the session is over."""
NEVER_LOST = tuple(
    word
    for option in ("--session-timeout-ms", "--rebalance-timeout-ms")
    for word in (option, str(round(1000 * LONGEST_SESSION_S)))
)
"""For tests that pause or end a worker, and then wait for something other than the end of its session."""

SUPERVISED = ("--returns-ms", "600000")
"""A worker that ends is expected back: the test itself starts it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start of a task as its worker recorded it (wall clock, ms). Without an end if the worker recorded none."""

    worker: str
    from_ms: int
    until_ms: int | None


def starts(steps: Iterable[TaskStatus]) -> dict[TaskId, list[Start]]:
    """Each task's starts, in order, without planners, which are short and don't move."""
    seen: dict[tuple[TaskId, str, int], int | None] = {}
    for step in steps:
        if step.started_at_ms is not None and not step.task.is_planner:
            key = (step.task, step.worker, step.started_at_ms)
            seen[key] = step.finished_at_ms or seen.get(key)
    told: dict[TaskId, list[Start]] = {}
    for (task, worker, from_ms), until_ms in sorted(seen.items(), key=lambda each: each[0][2]):
        told.setdefault(task, []).append(Start(worker=worker, from_ms=from_ms, until_ms=until_ms))
    return told


def overlaps(steps: Iterable[TaskStatus]) -> list[tuple[TaskId, Start, Start]]:
    """Starts of a task before its previous run had ended."""
    return [
        (task, earlier, later)
        for task, each in starts(steps).items()
        for earlier, later in pairwise(each)
        if earlier.until_ms is not None and later.from_ms < earlier.until_ms
    ]


class Fleet:
    """Workers of one group, and what its topics say about them.

    :param options: of ``cospark worker``, for all of them
    :param modules: a folder from which they can import jobs, besides this one
    """

    def __init__(
        self, bootstrap_servers: str, group_id: str, folder: Path, *options: str, modules: Path | None = None
    ) -> None:
        self._path = os.pathsep.join(map(str, filter(None, (modules, Path(__file__).parent))))
        self.settings = KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers}, conn_id="tests")
        self.group_id = group_id
        self.records: list[ClassicRecord] = []
        self._folder = folder
        self._options = (*TIMING, *SUPERVISED, "--bootstrap-servers", bootstrap_servers, *options)
        self._processes: dict[str, Forked | subprocess.Popen[bytes]] = {}
        self._topics: GroupTopics | None = None

    def start(self, name: str, *options: str, command: Sequence[str] = ()) -> None:
        """Start a worker, or start it again.

        :param command: the program to run instead of ``cospark``, whose arguments it takes
        """
        self._run(name, command, "worker", self.group_id, "--worker", name, *self._options, *options)

    def start_coordinator(self, name: str, *options: str) -> None:
        """Start a coordinator process without a worker, or start it again."""
        self._run(name, (), "coordinator", "--bootstrap-servers", self.settings.bootstrap_servers, *options)

    def _run(self, name: str, command: Sequence[str], *arguments: str) -> None:
        log, env = self._folder / f"{name}.log", {**os.environ, "PYTHONPATH": self._path}
        if not command:
            self._processes[name] = Forked(arguments, log=log, env=env)
            return
        with log.open("ab") as output:
            self._processes[name] = subprocess.Popen([*command, *arguments], stdout=output, stderr=output, env=env)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def send(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def pause(self, name: str) -> None:
        """SIGSTOP, also for Spark's JVM."""
        for process in self._tree(name):
            process.suspend()

    def wake(self, name: str) -> None:
        for process in self._tree(name):
            process.resume()

    def wait_for_end(self, name: str) -> int:
        return self._processes[name].wait(DEADLINE_S)

    def runs(self, name: str) -> bool:
        return self._processes[name].poll() is None

    async def ended(self, *names: str) -> list[int]:
        """Wait until these processes end, without blocking the loop.

        :returns: their exit statuses
        """
        return [await asyncio.to_thread(self.wait_for_end, name) for name in names]

    def log_of(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def end(self) -> None:
        with contextlib.ExitStack() as ending:  # all of them, whatever becomes of one
            for name in self._processes:
                ending.callback(self._end, name)

    def _end(self, name: str) -> None:
        for each in self._tree(name):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._processes[name].wait()

    def _tree(self, name: str) -> list[psutil.Process]:
        """A worker's process and its descendants; nothing if it ends meanwhile."""
        if self._processes[name].poll() is not None:
            return []
        try:
            process = psutil.Process(self._processes[name].pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    # ---- the content of the topics

    @property
    def topics(self) -> GroupTopics:
        assert self._topics is not None
        return self._topics

    @property
    def record(self) -> ClassicRecord:
        record = self.topics.status.group
        assert isinstance(record, ClassicRecord)
        return record

    @property
    def epoch(self) -> int:
        return self.record.epoch

    def owned(self, worker: str) -> Tasks:
        return self.record.owned_by(WorkerId(worker))

    async def steps(self) -> list[TaskStatus]:
        """Every step of every task so far, from the timeline; the status topic keeps only each task's last one."""
        return [event.status for event in await self._timeline() if isinstance(event, TaskEvent)]

    async def rounds(self) -> list[RebalanceEvent]:
        """Every round so far, from the timeline."""
        return [event for event in await self._timeline() if isinstance(event, RebalanceEvent)]

    async def _timeline(self) -> list[Event]:
        return await asyncio.to_thread(read_events, self.settings, self.group_id)

    async def starts(self) -> dict[TaskId, list[Start]]:
        return starts(await self.steps())

    async def stops(self) -> set[tuple[TaskId, str]]:
        """Which tasks were stopped on which workers, so far."""
        return {
            (step.task, step.worker)
            for step in await self.steps()
            if step.state is TaskState.STOPPED and step.started_at_ms is not None
        }

    def story(self) -> str:
        """The rounds seen so far, one per line."""
        return "\n".join(
            f"epoch {record.epoch}: {record.reason}; "
            + ", ".join(
                f"{worker} {len(tasks)}-{len(record.revoked.get(worker, ()))}"
                for worker, tasks in sorted(record.assignment.items())
            )
            + (f"; delay {record.delay_ms}" if record.delay_ms else "")
            for record in self.records
        )

    async def submit(self, name: str, *, tasks: int, seconds: float | None = None, **more: object) -> None:
        """Submit a job for the noop runner whose tasks run for ``seconds``, or until they are stopped."""
        config = {} if seconds is None else {"seconds": seconds}
        definition: dict[str, Any] = {"entry_point": "noop:job", "config": config, "run_key": "first", **more}
        await self.topics.submit(JobDefinition(name=name, max_tasks=tasks, submitted_at_ms=wall_ms(), **definition))

    async def wait_for(self, holds: Callable[[JobsSnapshot, StatusSnapshot], bool], what: str) -> None:
        """Wait until the topics say so."""
        try:
            await self.topics.wait_for(holds, timeout_s=DEADLINE_S)
        except TimeoutError as late:
            raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}\n{self._how_it_is()}") from late

    async def eventually(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something that the topics do not say."""
        try:
            await eventually(holds, what)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self._how_it_is()}") from late

    def _how_it_is(self) -> str:
        tasks = "\n".join(map(str, self.topics.status.tasks.values()))
        logs = "\n".join(f"--- {name}\n{self.log_of(name)}" for name in self._processes)
        return "\n".join((states(self._processes), self.story(), tasks, logs))

    async def balanced(self, *workers: str) -> None:
        """Wait until exactly these workers are in the group, share all tasks evenly, and each task runs where it is
        assigned.
        """

        def holds(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            record = status.group
            if record is None or set(record.members) != set(workers) or not converged(record, status.workers):
                return False
            wanted = configured(jobs, status.tasks)
            counts = [len(tasks & wanted) for tasks in record.assignment.values()]
            owners = {task: worker for worker, tasks in record.assignment.items() for task in tasks}
            return (
                bool(wanted)
                and not any(task.is_planner for task in wanted)
                and all(
                    (last := status.tasks.get(task)) is not None
                    and last.state is TaskState.RUNNING
                    and last.worker == owners.get(task)
                    for task in wanted
                )
                and max(counts) - min(counts) <= 1
            )

        await self.wait_for(holds, f"balanced over {', '.join(workers)}")

    async def rested(self) -> None:
        """Wait until no round follows the last one: a task that was still stopping in a round takes another."""
        await self.eventually(lambda: wall_ms() - self.record.at_ms > REST_MS, "no round follows")

    def _on_topics(self) -> None:
        record = last_round(self.topics.status)
        if record is not None and (not self.records or record.epoch != self.records[-1].epoch):
            self.records.append(record)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Fleet]:
        async with shared_topics(self.settings, self.group_id, WORKER) as topics:
            self._topics = topics
            unsubscribe = topics.subscribe(self._on_topics)
            try:
                yield self
            finally:
                unsubscribe()

    async def __aenter__(self) -> Fleet:
        self._watch = self.watched()
        return await self._watch.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.to_thread(self.end)
        finally:
            await self._watch.__aexit__(kind, error, trace)


MakeFleet = Callable[..., Fleet]
"""Makes the fleet of a test's group, with these options for its workers."""


def without_progress(err: str) -> str:
    """What a command has complained of, without what it says every 2 seconds while it reads topics."""
    return "".join(line for line in err.splitlines(keepends=True) if ": still reading " not in line)


class Said(NamedTuple):
    """A command's exit status and output; ``err`` is :func:`without_progress`."""

    status: int
    out: str
    err: str


async def cospark(group: Fleet, *arguments: str) -> Said:
    """Run the command in a thread of this process; it is what the command's entry point does, too."""

    def run() -> Said:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*arguments, "--bootstrap-servers", group.settings.bootstrap_servers])
        return Said(status, out.getvalue(), without_progress(err.getvalue()))

    return await asyncio.to_thread(run)
