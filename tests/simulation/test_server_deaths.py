"""Many tasks on one Spark Connect server, which one of them ends: it is found within few restarts, and alone.

The machines of several workers, and the real view of the status topic, in virtual time.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import partial
from itertools import count
from typing import Any

import pytest
from runner_events import event_of
from simulation.clock import Clock

from airflow_provider.spark import runner
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.state.records import (
    JobDefinition,
    Key,
    KeyKind,
    PlanRecord,
    TaskKind,
    TaskState,
    TaskStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.state.views.topic_view import Parsed
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.tasks import commands, events
from airflow_provider.worker.tasks.machine import handle
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.trials import TRIAL_MS
from airflow_provider.worker.tasks.state import Execution, ExecutionSettings

MAX_DEATHS = 3
WALL_MS = 1_700_000_000_000
READ_MS = 100
SILENT_MS = 10_000
LOST_MS = 60_000
"""After this time without an answer, a server's attached tasks count as lost."""
LOOK_MS = 5_000
"""Until it is known what a server that answers no longer has."""
SERVER = "sc://server:15002"


class Way(Enum):
    """How the tasks use the server."""

    DETACHED = TaskKind.STREAMING, True
    ATTACHED = TaskKind.STREAMING, False
    BATCH = TaskKind.BATCH, False

    def __init__(self, kind: TaskKind, detached: bool) -> None:
        self.kind = kind
        self.detached = detached


class Server(Clock):
    """The server, the workers that share it, and their topics.

    :param culprits: by task, how long after its code was called it ends the server
    :param starts: whether their queries are started before that
    :param away_ms: how long it takes until it answers again
    :param slots: of each worker; None: as many as there are tasks
    :param first_batch_ms: how long the first batch of each stream takes; the code of a culprit is called in it
    :param faults: by task, how long after its code was called it meets a known fault of Spark, each time after one more
        batch
    :param late_ms: how much later each further worker notices that its attached tasks have ended
    """

    def __init__(
        self,
        tasks: int,
        workers: int,
        culprits: dict[TaskId, int],
        *,
        way: Way = Way.DETACHED,
        slots: int | None = None,
        starts: bool = True,
        away_ms: int = 0,
        late_ms: int = 0,
        first_batch_ms: int = 0,
        faults: dict[TaskId, int] | None = None,
    ) -> None:
        super().__init__()
        self.deaths = 0
        self.failed: set[TaskId] = set()
        self.culprits = culprits
        self.starts = starts
        self.way = way
        self.away_ms = away_ms
        self.late_ms = late_ms
        self.first_batch_ms = first_batch_ms
        self.faults = faults or {}
        self.back_at = 0
        self._batches = count(1)
        self._ended: set[tuple[TaskId, int]] = set()
        self.tasks = [TaskId("a", index) for index in range(tasks)]
        self._view = StatusView(clock=lambda: WALL_MS + self.now)
        self._will_read = False
        job = JobDefinition(name="a", entry_point="m:f", max_tasks=tasks, kind=way.kind, retries=0)
        plan = PlanRecord.of(job, [{"i": index} for index in range(tasks)], planned_by=WorkerId("w"), at_ms=0)
        self.jobs = JobsSnapshot(jobs={"a": job}, plans={"a": plan})
        self.workers = [self._worker(WorkerId(f"w{number}"), slots or tasks) for number in range(workers)]
        for number, worker in enumerate(self.workers):
            self.feed(worker, events.TasksGiven, tasks=frozenset(self.tasks[number::workers]), epoch=Epoch(1))

    def _worker(self, name: WorkerId, slots: int) -> Execution:
        settings = ExecutionSettings(
            worker=name, slots=slots, process=f"host/place/{name}/1", lease_ms=10_000, linger_ms=10**9,
            max_spark_deaths=MAX_DEATHS, mask=str, server=SERVER,
        )  # fmt: skip
        return Execution(settings, self.jobs, self._view.snapshot(), now_ms=0)

    # ---- the workers

    def feed(self, worker: Execution, kind: type[events.Event], **fields: Any) -> None:
        event = event_of(kind, **fields)
        for command in handle(worker, event, now_ms=self.now, wall_ms=WALL_MS + self.now):
            self._carry_out(worker, command)

    def _carry_out(self, worker: Execution, command: commands.Command) -> None:
        match command:
            case commands.StartAttempt(run=run):
                session = {"server": SERVER, "session_id": f"{run.task}#{run.attempt}"} if self.way.detached else None
                begins_ms = max(0, self.back_at - self.now) + 300
                self._later(worker, run.task, run.attempt, begins_ms, runner.TaskStarted, handle=session)
            case commands.WriteStart(status=status, number=number):
                self._write(status)
                self._later(worker, status.task, status.attempt, READ_MS, events.StartWritten, number=number)
            case commands.LetBegin(task=task):
                self._call(worker, task)
            case commands.WriteStatus(status=status):
                self._write(status)
            case commands.WriteEnd(status=status, number=number):
                assert status.state is TaskState.FAILED
                self.failed.add(status.task)
                self._write(status)
                self._later(worker, status.task, status.attempt, READ_MS, events.EndWritten, number=number)
            case commands.ArmTimer(at_ms=at_ms):
                self.after(max(0, at_ms - self.now), lambda: self.feed(worker, events.TimerFired))

    def _call(self, worker: Execution, task: TaskId) -> None:
        """Its code is called."""
        run = worker.runs[task]
        if self.way.kind is TaskKind.STREAMING and (self.starts or task not in self.culprits):
            if self.way.detached:
                begun = {**run.handle, "query_id": "q"}
                self._later(worker, task, run.attempt, 300, runner.QueryDetached, handle=begun)
            else:
                self._later(worker, task, run.attempt, 300, runner.QueryStarted, query_id="q")
            moves_ms = 300 + self.first_batch_ms
            self._later(worker, task, run.attempt, moves_ms, runner.TaskProgressed, progress=QueryMoves())
        if task in self.faults:
            moved = QueryProgress(batch=next(self._batches), rows_per_second=1.0)
            self._later(worker, task, run.attempt, self.faults[task], runner.TaskProgressed, progress=moved)
            self._later(worker, task, run.attempt, self.faults[task], runner.SparkFaltered, error="null")
        if task in self.culprits:
            self.after(self.culprits[task], lambda: self._end(worker, task, run.attempt))

    def _later(
        self, worker: Execution, task: TaskId, attempt: int, ms: int, kind: type[events.Event], **fields: Any
    ) -> None:
        def come() -> None:
            run = worker.runs.get(task)
            if run is not None and run.attempt == attempt:
                self.feed(worker, kind, task=task, **fields)

        self.after(ms, come)

    def _end(self, culprit: Execution, task: TaskId, attempt: int) -> None:
        run = culprit.runs.get(task)
        there = run is not None and run.attempt == attempt and run.state.runs and (task, attempt) not in self._ended
        if there and self.now >= self.back_at:
            self.restart(task)

    def restart(self, task: TaskId | None = None) -> None:
        """:param task: which has ended it; None: people have"""
        self.deaths += 1
        self.back_at = self.now + self.away_ms
        there = [(worker, run) for worker in self.workers for run in worker.runs.values() if self._is_there(run)]
        self._ended.update((run.task, run.attempt) for _, run in there)
        lose = partial(self._lose, there, self.deaths, task)
        if not self.away_ms:
            lose()
            return
        silent_ms = self.away_ms if self.way.detached else min(self.away_ms, LOST_MS)
        self.after(min(SILENT_MS, silent_ms), lambda: self._is_silent(True))
        self.after(silent_ms, lambda: self._is_silent(False))
        self.after(silent_ms + LOOK_MS, lose)

    def _is_there(self, run: TaskRun) -> bool:
        """Whether the attempt uses the present server, and no earlier one whose end it has not heard of yet."""
        uses = run.state.runs and run.handle is not None if self.way.detached else run.let_begin
        return uses and (run.task, run.attempt) not in self._ended

    def _is_silent(self, silent: bool) -> None:
        for worker in self.workers:
            self.feed(worker, runner.ServersSilent, silent=silent, detached=self.way.detached)

    def _lose(self, there: list[tuple[Execution, TaskRun]], spark: int, task: TaskId | None) -> None:
        for worker, run in there:
            ended: dict[str, Any] = {"error": "the server was restarted"}
            if not self.way.detached:
                late_ms = self.workers.index(worker) * self.late_ms
                self._later(worker, run.task, run.attempt, late_ms, runner.SparkLost, spark=spark, **ended)
            elif self.starts or run.task != task:
                self._later(worker, run.task, run.attempt, 0, runner.SparkLost, spark=-spark, **ended)
            else:
                end = event_of(runner.SparkLost, task=run.task, spark=spark, **ended)
                self.feed(worker, runner.QueryDetached, task=run.task, handle=run.handle, otherwise=end)
                self._later(worker, run.task, run.attempt, LOOK_MS, runner.QueryCleared)

    # ---- the topic

    def _write(self, status: TaskStatus) -> None:
        key = Key(kind=KeyKind.TASK, name=status.task.job, index=status.task.index)
        self._view.take(Parsed(self._view.offset, key, status))
        if not self._will_read:
            self._will_read = True
            self.after(READ_MS, self._read)

    def _read(self) -> None:
        self._will_read = False
        status = self._view.snapshot()
        for worker in self.workers:
            self.feed(worker, events.TopicsRead, jobs=self.jobs, status=status)

    @property
    def running(self) -> set[TaskId]:
        return {task for worker in self.workers for task, run in worker.runs.items() if run.let_begin}

    @property
    def suspected(self) -> set[TaskId]:
        return {task for worker in self.workers for task, run in worker.runs.items() if run.deaths}


def most_deaths(tasks: int) -> int:
    """Twice together, as often as halves the tasks of one worker, and twice alone."""
    return 4 + math.ceil(math.log2(tasks))


@pytest.mark.parametrize(
    ("tasks", "culprit"), [(1, 0), (16, 0), (16, 15), (100, 37), pytest.param(1_000, 511, marks=pytest.mark.thorough)]
)
def test_of_a_thousand_streams_one_that_ends_the_server_is_found(tasks: int, culprit: int) -> None:
    found = TaskId("a", culprit)
    server = Server(tasks, 1, {found: 2_000})
    server.run(6 * 3_600_000, until=lambda: bool(server.failed))
    assert server.failed == {found}
    assert server.deaths <= most_deaths(tasks)
    server.run(20 * TRIAL_MS)
    assert server.running == {*server.tasks} - {found}
    assert not server.suspected - {found}


@pytest.mark.parametrize("workers", [1, 2])
def test_who_ends_the_server_before_its_query_has_started_is_found_too(workers: int) -> None:
    found = TaskId("a", 5)
    server = Server(16, workers, {found: 2_000}, starts=False)
    server.run(3_600_000, until=lambda: bool(server.failed))
    assert server.failed == {found}
    assert server.deaths <= workers * most_deaths(16)
    server.run(30 * TRIAL_MS)
    assert server.running == {*server.tasks} - {found}


@pytest.mark.parametrize("way", [Way.DETACHED, Way.ATTACHED])
@pytest.mark.parametrize("workers", [1, 2])
def test_who_ends_a_busy_server_by_its_first_batch_is_found_though_that_takes_minutes(workers: int, way: Way) -> None:
    """With 1,000 streams that start at the same time, a real one takes four minutes."""
    found = TaskId("a", 5)
    server = Server(16, workers, {found: 190_000}, way=way, first_batch_ms=200_000)
    server.run(12 * 3_600_000, until=lambda: bool(server.failed))
    assert server.failed == {found}
    assert server.deaths <= workers * most_deaths(16)
    server.run(12 * 3_600_000, until=lambda: server.running == {*server.tasks} - {found})
    assert server.running == {*server.tasks} - {found}
    assert server.failed == {found}


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("away_ms", [30_000, 90_000, 600_000])
def test_how_long_a_server_takes_to_start_again_makes_no_difference(away_ms: int, way: Way) -> None:
    found = TaskId("a", 5)
    server = Server(16, 1, {found: 2_000}, way=way, away_ms=away_ms)
    server.run(12 * 3_600_000, until=lambda: bool(server.failed))
    assert server.failed == {found}
    assert server.deaths <= most_deaths(16)
    server.run(30 * TRIAL_MS)
    assert server.running == {*server.tasks} - {found}


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(
    "culprit", [0, 39, *(pytest.param(index, marks=pytest.mark.thorough, id=f"{index}") for index in (1, 38))]
)
def test_workers_that_share_a_server_find_it_and_blame_nobody_else(workers: int, culprit: int, way: Way) -> None:
    found = TaskId("a", culprit)
    server = Server(40, workers, {found: 2_000}, way=way)
    server.run(12 * 3_600_000, until=lambda: bool(server.failed))
    assert server.failed == {found}
    assert server.deaths <= workers * most_deaths(40)
    server.run(4 * 3_600_000)
    assert server.failed == {found}
    assert server.running == {*server.tasks} - {found}


@pytest.mark.parametrize("way", [Way.ATTACHED, Way.BATCH])
def test_nobody_else_is_blamed_if_some_workers_notice_the_end_of_the_server_later(way: Way) -> None:
    found = TaskId("a", 1)
    server = Server(12, 3, {found: 2_000}, way=way, late_ms=15_000)
    server.run(12 * 3_600_000, until=lambda: bool(server.failed))
    server.run(4 * 3_600_000)
    assert server.failed == {found}
    assert server.running == {*server.tasks} - {found}


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("away_ms", [30_000, 90_000])
def test_nobody_else_is_blamed_if_the_server_keeps_who_is_to_begin_waiting(away_ms: int, way: Way) -> None:
    """What one worker has put on trial begins late, together with what the other one tries next."""
    found = TaskId("a", 1)
    server = Server(2, 2, {found: 500}, way=way, away_ms=away_ms)
    server.run(12 * 3_600_000, until=lambda: bool(server.failed))
    assert server.failed == {found}
    server.run(30 * TRIAL_MS)
    assert server.running == {*server.tasks} - {found}


@pytest.mark.parametrize("way", [Way.DETACHED, Way.ATTACHED])
def test_nobody_else_is_blamed_if_each_task_of_a_worker_ends_the_server(way: Way) -> None:
    """What it has not started yet must not end the server under the trials of the other worker."""
    culprits = {TaskId("a", index): 2_000 for index in range(1, 16, 2)}
    server = Server(16, 2, culprits, way=way, slots=4)
    server.run(24 * 3_600_000, until=lambda: not server.failed < culprits.keys())
    assert server.failed == culprits.keys()
    assert server.deaths <= len(culprits) * most_deaths(4)


@pytest.mark.parametrize("tasks", [2, 12])
def test_they_blame_nobody_else_either_if_all_suspects_were_tried_before(tasks: int) -> None:
    found = TaskId("a", 0)
    server = Server(tasks, 2, {})
    for _ in range(2):
        server.run(20_000)
        server.restart()
    server.run(30 * TRIAL_MS)
    assert not server.suspected
    server.culprits[found] = 2_000
    server.restart()
    server.run(12 * 3_600_000, until=lambda: bool(server.failed))
    server.run(30 * TRIAL_MS)
    assert server.failed == {found}
    assert server.running == {*server.tasks} - {found}


@pytest.mark.parametrize("fails_after_ms", [1_000, 20_000, 45_000])
@pytest.mark.parametrize("way", [Way.DETACHED, Way.ATTACHED])
def test_what_fails_quickly_for_other_reasons_keeps_off_no_trial_of_another_worker(
    way: Way, fails_after_ms: int
) -> None:
    """It was counted once, so it needs no trial, and starts again whenever it has failed."""
    failing, tried = {TaskId("a", 1), TaskId("a", 3)}, {TaskId("a", 0), TaskId("a", 2)}
    server = Server(4, 2, {}, way=way, faults=dict.fromkeys(failing, fails_after_ms))
    server.run(10_000, until=lambda: server.running == {*server.tasks})
    server.restart()
    server.run(500)
    server.run(10_000, until=lambda: server.running == {*server.tasks})
    server.run(60_000, until=lambda: not failing & server.running)
    server.restart()
    server.run(5 * TRIAL_MS, until=lambda: not tried & server.suspected)
    assert not tried & server.suspected
    server.run(60_000, until=lambda: failing <= server.running)
    assert failing <= server.running, "they start again between the trials"


@pytest.mark.parametrize("way", [Way.DETACHED, Way.ATTACHED])
def test_a_server_that_people_restart_now_and_then_fails_nobody(way: Way) -> None:
    server = Server(16, 2, {}, way=way)
    for minutes in (2, 1, 1, 3, 5, 1, 2, 8, 1, 1, 1, 2, 4, 1, 1, 30):
        server.run(minutes * 47_000)
        server.restart()
    server.run(4 * 3_600_000)
    assert not server.failed
    assert server.running == {*server.tasks}
