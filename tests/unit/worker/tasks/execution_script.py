"""The executor's machine with topics that a test writes by hand: events in, commands out, no clock but the test's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from execution_settings import execution_settings
from runner_events import event_of

from airflow_provider.spark.runner import (
    QueryDetached,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskStarted,
    TaskStopped,
    WarmUpReady,
)
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import Point, StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks import commands
from airflow_provider.worker.tasks.commands import Command
from airflow_provider.worker.tasks.events import (
    EpochAdvanced,
    Event,
    LearningStopped,
    StartWritten,
    TasksGiven,
    TasksRevoked,
    TasksToLearn,
    TimerFired,
    TopicsRead,
)
from airflow_provider.worker.tasks.invariants import validate
from airflow_provider.worker.tasks.machine import handle
from airflow_provider.worker.tasks.runs.learners import LearnerState
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.state import Execution

ME, OTHER = WorkerId("w1"), WorkerId("w2")
A0, A1, A2 = (TaskId("a", index) for index in range(3))
PLANNER = planner_of("a")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=100, run_key="r")


class Script:
    """A machine, the topics that it reads, and its clocks. Each event is followed by a look at all that must hold."""

    def __init__(
        self,
        *,
        slots: int = 2,
        tasks: int = 3,
        linger_ms: int = 60_000,
        status: StatusSnapshot | None = None,
        in_triggerer: bool = False,
        warms_up: bool = True,
        **definition: Any,
    ) -> None:
        self.now = 1_000
        self.wall_ahead = 1_000_000
        self.definition = replace(JOB, **definition)
        self.configs: list[dict[str, Any]] = [{"i": index} for index in range(tasks)]
        self.jobs = JobsSnapshot()
        self.status = status or StatusSnapshot()
        settings = execution_settings(
            slots=slots,
            process="host/place/1/2",
            linger_ms=linger_ms,
            in_triggerer=in_triggerer,
            warms_up=warms_up,
        )
        self.execution = Execution(settings, self.jobs, self.status, now_ms=self.now)
        self.plan(*self.configs)

    # ---- the topics

    def plan(self, *configs: dict[str, Any]) -> list[Command]:
        """The job as it is defined, with a plan of these tasks."""
        self.configs = list(configs)
        plan = PlanRecord.of(self.definition, self.configs, planned_by=OTHER, at_ms=0)
        return self.read(JobsSnapshot(jobs={"a": self.definition}, plans={"a": plan}))

    def define(self, **definition: Any) -> list[Command]:
        """The same job, by another definition."""
        self.definition = replace(self.definition, **definition)
        return self.plan(*self.configs)

    def runs_there(self, task: TaskId, **fields: Any) -> list[Command]:
        """The other worker says that it runs this task."""
        work = self.jobs.work_of(task)
        assert work is not None
        ran = TaskStatus(
            task=task,
            state=TaskState.RUNNING,
            epoch=Epoch(1),
            worker=OTHER,
            run_key="r",
            fingerprint=work.fingerprint,
            started_at_ms=self.now + self.wall_ahead,
        )
        return self.say(replaced(ran, **fields))

    def say(self, status: TaskStatus) -> list[Command]:
        """Something that stands in the status topic."""
        self.status = replace(self.status, tasks={**self.status.tasks, status.task: status}, point=Point())
        return self.read(self.jobs)

    def read(self, jobs: JobsSnapshot) -> list[Command]:
        self.jobs = jobs
        return self.feed(TopicsRead, jobs=jobs, status=self.status)

    # ---- events

    def feed(self, kind: type[Event], **fields: Any) -> list[Command]:
        event = event_of(kind, **fields)
        done = handle(self.execution, event, now_ms=self.now, wall_ms=self.now + self.wall_ahead)
        validate(self.execution)
        return done

    def give(self, *tasks: TaskId, epoch: int = 1) -> list[Command]:
        return self.feed(TasksGiven, tasks=frozenset(tasks), epoch=Epoch(epoch))

    def revoke(self, *tasks: TaskId) -> list[Command]:
        return self.feed(TasksRevoked, tasks=frozenset(tasks), reason="revoked")

    def learn(self, *tasks: TaskId) -> list[Command]:
        return self.feed(TasksToLearn, tasks=frozenset(tasks))

    def stop_learning(self, *tasks: TaskId) -> list[Command]:
        return self.feed(LearningStopped, tasks=frozenset(tasks))

    def ready(self, *tasks: TaskId) -> Script:
        """Have these learned, and warmed up."""
        self.learn(*tasks)
        for task in tasks:
            self.feed(WarmUpReady, task=task)
        return self

    def advance(self, epoch: int) -> list[Command]:
        return self.feed(EpochAdvanced, epoch=Epoch(epoch))

    def begin(self, task: TaskId, handle: Any = None) -> list[Command]:
        """Its start is stored, so its code is called, unless it has a handle, which must be read back."""
        done = self.feed(TaskStarted, task=task, handle=handle)
        return done if handle is not None else [*done, *self.answer(StartWritten, task)]

    def detached(self, task: TaskId) -> list[Command]:
        """It goes on without this process."""
        self.begin(task, handle={"session": "s"})
        self.read_back(task)
        return self.feed(QueryDetached, task=task, handle={"session": "s", "query": "q"})

    def read_back(self, task: TaskId) -> list[Command]:
        """It is stored, and read, where this is about to begin."""
        run = self.execution.runs[task]
        self.answer(StartWritten, task)
        return self.say(run.status(TaskState.RUNNING, ME))

    def running(self, *tasks: TaskId) -> Script:
        """Have these, and their code called."""
        self.give(*tasks)
        for task in tasks:
            self.begin(task)
        return self

    def finish(self, task: TaskId, result: Any = None) -> list[Command]:
        return self.feed(TaskFinished, task=task, result=result)

    def fail(self, task: TaskId, message: str = "boom", *, retryable: bool = True) -> list[Command]:
        return self.feed(TaskFailed, task=task, error=message, retryable=retryable)

    def conflict(self, task: TaskId, message: str = "race") -> list[Command]:
        return self.feed(TaskConflicted, task=task, error=message)

    def stopped(self, task: TaskId) -> list[Command]:
        return self.feed(TaskStopped, task=task, reason="")

    def wait(self, ms: int) -> list[Command]:
        """The time goes by, and the timer fires."""
        self.now += ms
        return self.feed(TimerFired)

    def answer(self, kind: type[Event], task: TaskId, **fields: Any) -> list[Command]:
        """What the machine waits for to be written is stored, or refused."""
        return self.feed(kind, task=task, number=self.execution.runs[task].number, **fields)

    def learner(self, task: TaskId) -> LearnerState | None:
        return self.execution.learners.state_of(task)

    def state(self, task: TaskId) -> RunState | None:
        return self.execution.state_of(task)


def words(done: list[Command]) -> list[str]:
    """Commands in a few words each, without those that only arm a timer."""
    said = (command for command in done if not isinstance(command, commands.ArmTimer))
    return [_of_learner(command) or _of_detached(command) or _in_words(command) for command in said]


def written(done: list[Command], state: TaskState) -> TaskStatus:
    """The one record among these that says so."""
    said = [command.status for command in done if isinstance(command, _WRITES) and command.status.state is state]
    assert len(said) == 1, words(done)
    return said[0]


_WRITES = (
    commands.WriteStart,
    commands.WriteStatus,
    commands.WriteProgress,
    commands.WriteStopped,
    commands.WriteEnd,
)


def _of_learner(command: Command) -> str:
    match command:
        case commands.StartWarmUp(run=run):
            return f"warm up {run.task} #{run.attempt}"
        case commands.StopWarmUp(task=task):
            return f"stop warming up {task}"
    return ""


def _of_detached(command: Command) -> str:
    match command:
        case commands.Watch(run=run):
            return f"watch {run.task}"
        case commands.TakeOver(run=run):
            return f"take over {run.task} #{run.attempt}"
        case commands.LetBegin(task=task):
            return f"let {task} begin"
        case commands.EndOrphan(status=status):
            return f"end {status.task}, orphan"
        case commands.WriteStart(status=status):
            return f"insist on where {status.task} begins"
    return ""


def _in_words(command: Command) -> str:
    match command:
        case commands.StartAttempt(run=run):
            return f"start {run.task} #{run.attempt}"
        case commands.StopAttempts(tasks=tasks, reason=reason):
            return f"stop {_named(tasks)}: {reason}"
        case commands.StopWatching(tasks=tasks):
            return f"stop watching {_named(tasks)}"
        case commands.WritePlan(plan=plan):
            return f"insist on a plan of {len(plan.configs)}"
        case commands.WriteEnd() | commands.WriteStatus() | commands.WriteProgress() | commands.WriteStopped():
            how = "insist on" if isinstance(command, commands.WriteEnd) else "write"
            return f"{how} {command.status.task} {command.status.state.value}"
        case commands.ReleaseStopped(tasks=tasks):
            return f"released {_named(tasks)}"
        case commands.ReleaseFinished(tasks=tasks):
            return f"finished {_named(tasks)}"
        case commands.GiveUpWriting(task=task):
            return f"give up {task}"
        case commands.Inform() | commands.Warn() | commands.TellOfTask():
            return command.message
    raise AssertionError(command)


def _named(tasks: frozenset[TaskId]) -> str:
    return " ".join(map(str, sorted(tasks)))
