"""A group of workers whose tasks end Spark, or its worker's process, again and again: real machines in virtual time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from itertools import count
from typing import Any

from execution_settings import execution_settings
from runner_events import event_of
from simulation.clock import Clock

from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import (
    SparkEnded,
    SparkFaltered,
    SparkLost,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
    WarmUpLost,
)
from airflow_provider.state.records import (
    JobDefinition,
    Key,
    KeyKind,
    PlanRecord,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.state.views.topic_view import Parsed
from airflow_provider.values.model import Epoch, TaskId, Tasks, WorkerId
from airflow_provider.worker.tasks import commands, events
from airflow_provider.worker.tasks.invariants import validate
from airflow_provider.worker.tasks.machine import handle
from airflow_provider.worker.tasks.state import Execution

WALL_MS = 1_700_000_000_000
READ_MS = 100
LOST_MS = 20_000
"""So long the tasks of a process that has ended wait for its worker."""


class Ends(Enum):
    """What the culprits end."""

    SPARK = "only Spark"
    SOON_BACK = "the process, which is back before others have its tasks"
    LOST = "the process, whose tasks others get"


class Process:
    """One process of a worker, with the attempts whose code it has called."""

    def __init__(self, worker: WorkerId, number: int, machine: Execution) -> None:
        self.worker = worker
        self.number = number
        self.machine = machine
        self.spark = 1
        self.on_spark: dict[TaskId, int] = {}
        self.warm: set[TaskId] = set()
        self.alive = True


class Doomed(Clock):
    """The group, and its topics.

    :param culprits: by task, from when to when after the start of its code it ends what it ends
    :param stops_ms: by task, how long it takes to stop when it is told to; 500 ms for others
    :param hangs_ms: by task, how long its code takes to notice that its Spark has ended; 500 ms for others
    :param warm_ups: by task, how long after its start its warm-up ends what they end
    :param faults: by task, how long after its start it meets a known fault of Spark, each time after one more batch
    :param slots: of each worker; None: as many as there are tasks
    """

    def __init__(
        self,
        tasks: int,
        workers: int,
        culprits: Mapping[TaskId, tuple[int, int]],
        *,
        ends: Ends,
        seed: int = 0,
        slots: int | None = None,
        kind: TaskKind = TaskKind.STREAMING,
        stops_ms: Mapping[TaskId, int] | None = None,
        hangs_ms: Mapping[TaskId, int] | None = None,
        warm_ups: Mapping[TaskId, int] | None = None,
        faults: Mapping[TaskId, int] | None = None,
    ) -> None:
        super().__init__()
        self.deaths = 0
        self.failed: set[TaskId] = set()
        self.culprits = dict(culprits)
        self.ends = ends
        self.rng = random.Random(seed)
        self.slots = slots or tasks
        self.stops_ms, self.hangs_ms, self.warm_ups = stops_ms or {}, hangs_ms or {}, warm_ups or {}
        self.faults = faults or {}
        self.tasks = [TaskId("a", index) for index in range(tasks)]
        self._numbers = count(1)
        self._batches = count(1)
        self._epochs = count(1)
        self._view = StatusView(clock=lambda: WALL_MS + self.now)
        self._will_read = False
        job = JobDefinition(name="a", entry_point="m:f", max_tasks=tasks, kind=kind, retries=0)
        plan = PlanRecord.of(job, [{"i": index} for index in range(tasks)], planned_by=WorkerId("w"), at_ms=0)
        self.jobs = JobsSnapshot(jobs={"a": job}, plans={"a": plan})
        self.processes: dict[WorkerId, Process] = {}
        self.waiting: set[TaskId] = set()
        for number in range(workers):
            self._start(WorkerId(f"w{number}"))
        for number, process in enumerate(list(self.processes.values())):
            self._give(process, frozenset(self.tasks[number::workers]))

    # ---- processes

    def _start(self, worker: WorkerId) -> None:
        number = next(self._numbers)
        settings = execution_settings(
            worker=worker, slots=self.slots, process=f"host/place/{number}/1", linger_ms=10**9, lease_ms=10_000
        )
        machine = Execution(settings, self.jobs, self._view.snapshot(), now_ms=self.now)
        self.processes[worker] = process = Process(worker, number, machine)
        self._say(process)
        if self.waiting:
            self._give(process, frozenset(self.waiting))

    def _say(self, process: Process) -> None:
        said = WorkerStatus(
            worker=process.worker,
            state=WorkerPhase.STABLE,
            epoch=Epoch(next(self._epochs)),
            slots=self.slots,
            process=process.machine.settings.process,
            at_ms=WALL_MS + self.now,
        )
        self._write(Key(kind=KeyKind.WORKER, name=process.worker), said)

    def _give(self, process: Process, tasks: Tasks) -> None:
        self.waiting -= tasks
        self.feed(process, events.TasksGiven, tasks=tasks, epoch=Epoch(next(self._epochs)))
        self._say(process)

    def learn(self, worker: WorkerId, *tasks: TaskId) -> None:
        self.feed(self.processes[worker], events.TasksToLearn, tasks=frozenset(tasks))

    def end(self, process: Process) -> None:
        """What the culprits end, ends."""
        self.deaths += 1
        if self.ends is Ends.SPARK:
            self._end_spark(process)
            return
        process.alive = False
        del self.processes[process.worker]
        lost = frozenset(process.machine.runs)
        if self.ends is Ends.SOON_BACK:
            self.waiting |= lost
            self.after(self.rng.randint(1_000, 5_000), lambda: self._start(process.worker))
        else:
            self.after(LOST_MS, lambda: self._give_to_others(lost))
            self.after(self.rng.randint(60_000, 90_000), lambda: self._start(process.worker))

    def _give_to_others(self, lost: Tasks) -> None:
        others = sorted(self.processes.values(), key=lambda each: each.worker)
        if not others:
            self.waiting |= lost
            return
        shares: dict[WorkerId, set[TaskId]] = {}
        load = {each.worker: len(each.machine.runs) for each in others}
        for task in sorted(lost):
            least = min(others, key=lambda each: load[each.worker]).worker
            load[least] += 1
            shares.setdefault(least, set()).add(task)
        for worker, share in shares.items():
            self._give(self.processes[worker], frozenset(share))

    def _end_spark(self, process: Process) -> None:
        ended, there, warm = process.spark, dict(process.on_spark), set(process.warm)
        process.spark += 1
        process.on_spark.clear()
        process.warm.clear()
        for task, attempt in there.items():
            late_ms = self.hangs_ms.get(task, 500)
            self._later(process, task, attempt, late_ms, SparkLost, spark=ended, error="gone")
        for task in warm:
            self.feed_at(process, 500, WarmUpLost, task=task, spark=ended)

        def look() -> None:
            going_on = frozenset(task for task, attempt in there.items() if self._goes_on(process, task, attempt))
            if going_on:
                self.feed(process, SparkEnded, spark=ended, tasks=going_on)

        self.after(self.rng.randint(0, 2_000), look)

    # ---- machines

    def feed(self, process: Process, kind: type[events.Event], **fields: Any) -> None:
        done = handle(process.machine, event_of(kind, **fields), now_ms=self.now, wall_ms=WALL_MS + self.now)
        validate(process.machine)
        for command in done:
            self._carry_out(process, command)

    def feed_at(self, process: Process, ms: int, kind: type[events.Event], **fields: Any) -> None:
        self.after(ms, lambda: self.feed(process, kind, **fields) if process.alive else None)

    def _goes_on(self, process: Process, task: TaskId, attempt: int) -> bool:
        run = process.machine.runs.get(task)
        return process.alive and run is not None and run.attempt == attempt and run.state.runs

    def _later(
        self, process: Process, task: TaskId, attempt: int, ms: int, kind: type[events.Event], **fields: Any
    ) -> None:
        def come() -> None:
            if self._goes_on(process, task, attempt):
                process.on_spark.pop(task, None)
                self.feed(process, kind, task=task, **fields)

        self.after(ms, come)

    def _carry_out(self, process: Process, command: commands.Command) -> None:
        match command:
            case commands.StartAttempt() | commands.StopAttempts() | commands.LetBegin():
                self._run(process, command)
            case commands.StartWarmUp() | commands.StopWarmUp():
                self._warm_up(process, command)
            case commands.WriteStart(status=status, number=number):
                self._write_task(status)
                self._later(process, status.task, status.attempt, READ_MS, events.StartWritten, number=number)
            case commands.WriteStatus(status=status) | commands.WriteStopped(status=status):
                self._write_task(status)
            case commands.WriteEnd(status=status, number=number):
                assert status.state is TaskState.FAILED
                self.failed.add(status.task)
                self._write_task(status)
                self.feed_at(process, READ_MS, events.EndWritten, task=status.task, number=number)
            case commands.ArmTimer(at_ms=at_ms):
                self.feed_at(process, max(0, at_ms - self.now), events.TimerFired)

    def _run(self, process: Process, command: commands.Command) -> None:
        match command:
            case commands.StartAttempt(run=run):
                process.warm.discard(run.task)
                self._later(process, run.task, run.attempt, 300, TaskStarted, handle=None)
            case commands.StopAttempts(tasks=tasks):
                for task in tasks:
                    attempt, ms = process.machine.runs[task].attempt, self.stops_ms.get(task, 500)
                    self._later(process, task, attempt, ms, TaskStopped, reason="")
            case commands.LetBegin(task=task):
                self._begins(process, task)

    def _begins(self, process: Process, task: TaskId) -> None:
        attempt = process.machine.runs[task].attempt
        process.on_spark[task] = attempt
        if task in self.faults:
            moved = QueryProgress(batch=next(self._batches), rows_per_second=1.0)
            self._later(process, task, attempt, self.faults[task], TaskProgressed, progress=moved)
            self._later(process, task, attempt, self.faults[task], SparkFaltered, error="null")
        if task in self.culprits:
            self.after(self.rng.randint(*self.culprits[task]), lambda: self._acts(process, task, attempt))

    def _acts(self, process: Process, task: TaskId, attempt: int) -> None:
        if self._goes_on(process, task, attempt) and process.on_spark.get(task) == attempt:
            self.end(process)

    def _warm_up(self, process: Process, command: commands.Command) -> None:
        match command:
            case commands.StartWarmUp(run=run):
                process.warm.add(run.task)
                spark = process.spark
                self.after(self.warm_ups[run.task], lambda: self._warm_up_ends(process, run.task, spark))
            case commands.StopWarmUp(task=task):
                process.warm.discard(task)

    def _warm_up_ends(self, process: Process, task: TaskId, spark: int) -> None:
        if process.alive and task in process.warm and process.spark == spark:
            self.end(process)

    # ---- the topic

    def _write_task(self, status: TaskStatus) -> None:
        self._write(Key(kind=KeyKind.TASK, name=status.task.job, index=status.task.index), status)

    def _write(self, key: Key, record: TaskStatus | WorkerStatus) -> None:
        self._view.take(Parsed(self._view.offset, key, record))
        if not self._will_read:
            self._will_read = True
            self.after(READ_MS, self._read)

    def _read(self) -> None:
        self._will_read = False
        status = self._view.snapshot()
        for process in list(self.processes.values()):
            self.feed(process, events.TopicsRead, jobs=self.jobs, status=status)

    # ---- what became of it

    @property
    def running(self) -> set[TaskId]:
        machines = (process.machine for process in self.processes.values())
        return {task for machine in machines for task, run in machine.runs.items() if run.let_begin}
