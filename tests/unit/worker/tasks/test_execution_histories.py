"""The executor's machine through random histories: whatever comes in whatever order, what must hold does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from execution_script import A0, A1, A2, OTHER, PLANNER, Script
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.spark import runner
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks import commands, events
from airflow_provider.worker.tasks.commands import Command
from airflow_provider.worker.tasks.machine import TRANSITIONS
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun

TASKS = (A0, A1, A2, PLANNER)
SLOTS = 2
LAST = (
    runner.TaskFinished,
    runner.TaskFailed,
    runner.TaskConflicted,
    runner.TaskStopped,
    runner.SparkLost,
    runner.SparkFaltered,
    runner.SparkAbsent,
)
FIELDS: dict[type[events.Event], dict[str, Any]] = {
    runner.TaskFailed: {"error": "boom", "retryable": True},
    runner.TaskConflicted: {"error": "race"},
    runner.TaskStopped: {"reason": "it was told to"},
    runner.QueryStarted: {"query_id": "q"},
    runner.SparkLost: {"spark": 1, "error": "gone"},
    runner.SparkFaltered: {"error": "known"},
    runner.SparkAbsent: {"error": "no Java"},
    runner.QueryAdopted: {"handle": {"session": 1, "query": 1}},
    runner.QueryUnreachable: {"why": "nobody answers"},
    runner.WarmUpProgressed: {"progress": 0.5},
    runner.WarmUpFailed: {"error": "boom"},
    runner.WarmUpConflicted: {"error": "race"},
    runner.WarmUpLost: {"spark": 2},
    runner.NoSparkToWarmUp: {"error": "no Java"},
    events.PlanRefused: {"refusal": "too large"},
    events.EndRefused: {"refusal": "too large"},
}
CONFIGS: Sequence[list[dict[str, Any]]] = (
    [{"i": 0}, {"i": 1}, {"i": 2}],
    [{"i": 0}, {"i": 7}],
    [{"checkpoint_key": "k"}, {"i": 1}, {"i": 2}],
    [{"i": 0}, {"checkpoint_key": "k"}, {"i": 2}],
    [{"i": 0, "slots": 2}, {"i": 1}, {"i": 2, "slots": 9}],
    [],
)
DEFINITIONS: Sequence[dict[str, Any]] = (
    {"retries": 0, "timeout_ms": 300},
    {"retries": 2, "retry_delay_ms": 100, "timeout_ms": None},
    {"replan_interval_ms": 200, "timeout_ms": 300},
    {"replan_interval_ms": None, "retries": 1, "timeout_ms": 100},
)
END_WARMTH = (runner.WarmUpFailed, runner.WarmUpConflicted, runner.WarmUpLost, runner.NoSparkToWarmUp)
OF_WARM_UP = (runner.WarmUpProgressed, runner.WarmUpReady, *END_WARMTH)
OF_RUNNER = sorted(
    {event for rules in TRANSITIONS.values() for event in rules if issubclass(event, runner.AttemptEvent)}
    - {runner.QueryDetached, runner.QueryAdopted, runner.QueryCleared, runner.QueryUnreachable},
    key=lambda event: event.__name__,
)


_Answers = tuple[type[events.Event], type[events.Event]]
_OF_PLANS: _Answers = (events.PlanWritten, events.PlanRefused)
_OF_ENDS: _Answers = (events.EndWritten, events.EndRefused)


class World:
    """What is around the machine: a membership, a runner, a topic. It checks what each of them may rely on."""

    def __init__(self) -> None:
        self.out: dict[TaskId, int] = {}
        self.alone: set[TaskId] = set()
        self.insisted: dict[TaskId, int] = {}
        self.mine: set[TaskId] = set()
        self.revoked: set[TaskId] = set()
        self.said: dict[TaskId, TaskStatus] = {}
        self.warm: set[TaskId] = set()
        self.to_learn: set[TaskId] = set()
        self.epoch = 1
        self.script = Script(slots=SLOTS, **DEFINITIONS[0])
        for task in TASKS:
            self.give(task)

    # ---- what comes of an event

    def feed(self, kind: type[events.Event], **fields: Any) -> None:
        if kind in LAST or (kind is runner.QueryCleared and fields["task"] in self.alone):
            self.out.pop(fields["task"], None)
            self.alone.discard(fields["task"])
        if kind in END_WARMTH:
            self.warm.discard(fields["task"])
        self.carry_out(self.script.feed(kind, **fields))

    def carry_out(self, done: list[Command]) -> None:
        execution = self.script.execution
        for command in done:
            self.write(command)
            match command:
                case commands.StartAttempt(run=run):
                    assert run.task not in self.out, f"a second run of {run.task}"
                    assert run.task in self.mine, f"{run.task} was released"
                    assert run.task not in self.revoked, f"{run.task} is to be released"
                    assert not self.held_elsewhere(run), "its checkpoint is in use"
                    self.out[run.task] = run.attempt
                    self.warm.discard(run.task)
                case commands.StartWarmUp() | commands.StopWarmUp():
                    self.warm_up(command)
                case commands.StopAttempts(tasks=tasks):
                    assert tasks <= self.out.keys(), "what does not run is told to stop"
                case commands.Watch() | commands.TakeOver() | commands.StopWatching() | commands.LetBegin():
                    self.alone_too(command)
                case commands.ReleaseStopped(tasks=tasks) | commands.ReleaseFinished(tasks=tasks):
                    assert not tasks & self.insisted.keys(), "the last record of a released task is not stored"
                    assert not tasks & self.out.keys(), "something of a released task runs"
                    assert not tasks & execution.runs.keys(), "a released task is still here"
                    self.mine -= tasks
                    self.revoked -= tasks
        here = self.out.keys() - self.alone
        assert sum(execution.runs[task].slots for task in here) <= SLOTS, "more slots are taken than there are"
        runs = {task for task, run in execution.runs.items() if run.state.runs or run.state is RunState.TAKING_OVER}
        assert self.out.keys() == runs
        assert execution.runs.keys() == self.mine, "each task that was not released is here"
        learners = execution.learners.tasks.values()
        assert self.warm == {learner.task for learner in learners if learner.state.with_runner}
        assert execution.learners.progress.keys() <= self.to_learn, "what is not to be learned is"

    def write(self, command: Command) -> None:
        match command:
            case commands.WriteStart(status=status, number=number):
                self.said[status.task] = status
                self.insisted[status.task] = number
            case commands.WriteStatus(status=status) | commands.WriteStopped(status=status):
                self.said[status.task] = status
            case commands.WriteEnd(status=status, number=number):
                assert status.state.final
                assert status.epoch == self.epoch, "a leader would take it for an old word"
                assert status.task not in self.out, "it has not ended yet"
                self.said[status.task] = status
                self.insisted[status.task] = number
            case commands.WritePlan(task=task, number=number):
                self.insisted[task] = number
            case commands.GiveUpWriting(task=task):
                self.insisted.pop(task, None)

    def alone_too(self, command: Command) -> None:
        match command:
            case commands.Watch(run=run):
                assert run.task in self.out, "what has not begun is watched"
                self.alone.add(run.task)
            case commands.TakeOver(run=run):
                assert run.task not in self.out, f"{run.task} runs here"
                self.out[run.task] = run.attempt
                self.alone.add(run.task)
            case commands.StopWatching(tasks=tasks):
                assert tasks <= self.alone, "what would end with this process is let go of"
                self.alone -= tasks
                for task in tasks:
                    del self.out[task]
            case commands.LetBegin(task=task):
                assert task in self.out.keys() - self.alone, "what does not run is let begin"

    def warm_up(self, command: commands.StartWarmUp | commands.StopWarmUp) -> None:
        if isinstance(command, commands.StopWarmUp):
            assert command.task in self.warm, "what is not warmed up is told to stop that"
            self.warm.remove(command.task)
        else:
            task = command.run.task
            assert task not in self.warm, f"a second warm-up of {task}"
            assert task in self.to_learn, f"{task} is not to be learned"
            self.warm.add(task)

    def held_elsewhere(self, run: TaskRun) -> bool:
        statuses = self.script.status.tasks.items()
        claims = [status.standing_claim for task, status in statuses if task != run.task]
        return run.claim is not None and any(claim is not None and claim.key == run.claim.key for claim in claims)

    # ---- what may happen

    def give(self, task: TaskId) -> None:
        self.mine.add(task)
        self.revoked.discard(task)
        self.to_learn.discard(task)
        self.feed(events.TasksGiven, tasks=frozenset({task}), epoch=self.epoch)

    def revoke(self, task: TaskId) -> None:
        self.mine.add(task)  # until it is released, which may be now
        self.revoked.add(task)
        self.to_learn.discard(task)
        if task not in self.script.execution.runs:
            self.mine.discard(task)
        self.feed(events.TasksRevoked, tasks=frozenset({task}), reason="revoked")

    def learn(self, task: TaskId) -> None:
        if task.is_planner:
            return
        self.to_learn.add(task)
        self.feed(events.TasksToLearn, tasks=frozenset({task}))

    def stop_learning(self, task: TaskId) -> None:
        self.to_learn.discard(task)
        self.feed(events.LearningStopped, tasks=frozenset({task}))

    def warm_up_says(self, task: TaskId, number: int) -> None:
        """Also of what is not warmed up any more."""
        kind = OF_WARM_UP[number % len(OF_WARM_UP)]
        if kind is runner.NoSparkToWarmUp and number % 20:
            return
        self.feed(kind, task=task, **FIELDS.get(kind, {}))

    def advance(self) -> None:
        self.epoch += 1
        self.feed(events.EpochAdvanced, epoch=self.epoch)

    def configure(self, number: int) -> None:
        self.carry_out(self.script.plan(*CONFIGS[number % len(CONFIGS)]))

    def define(self, number: int) -> None:
        self.carry_out(self.script.define(**DEFINITIONS[number % len(DEFINITIONS)]))

    def remove(self) -> None:
        self.carry_out(self.script.read(JobsSnapshot()))

    def read(self) -> None:
        """All that was said has been read."""
        self.script.status = replace(self.script.status, tasks={**self.script.status.tasks, **self.said})
        self.carry_out(self.script.read(self.script.jobs))

    def end_elsewhere(self, task: TaskId) -> None:
        work = self.script.jobs.work_of(task)
        if work is not None:
            self.said[task] = TaskStatus(
                task=task,
                state=TaskState.FINISHED,
                epoch=self.script.execution.runs[task].epoch if task in self.script.execution.runs else 1,  # type: ignore[arg-type]
                worker=OTHER,
                run_key=work.definition.run_key,
                fingerprint=work.fingerprint,
            )

    def begin(self, number: int) -> None:
        """The code is called of something that was started."""
        runs = self.script.execution.runs
        if here := sorted(task for task in self.out.keys() - self.alone if runs[task].started_at_ms is None):
            task = here[number % len(here)]
            outlives = number % 3 == 0 and not task.is_planner
            self.feed(runner.TaskStarted, task=task, handle={"session": number} if outlives else None)

    def go_on_alone(self, number: int) -> None:
        """What has begun where it is found goes on without this process."""
        runs = self.script.execution.runs
        begun = [task for task in sorted(self.out.keys() - self.alone) if runs[task].handle is not None]
        if begun:
            task = begun[number % len(begun)]
            if self.insisted.get(task) == runs[task].number:
                self.feed(events.StartWritten, task=task, number=self.insisted.pop(task))
            self.feed(runner.QueryDetached, task=task, handle={"session": number, "query": number})

    def look(self, number: int) -> None:
        """What has become of what ran before is found out, or not; or the answer is one that nobody waits for."""
        kinds = (runner.QueryAdopted, runner.QueryCleared, runner.QueryUnreachable)
        looked = [task for task, run in self.script.execution.runs.items() if run.state is RunState.TAKING_OVER]
        if looked:
            kind = kinds[number % 3]
            self.feed(kind, task=sorted(looked)[number % len(looked)], **FIELDS.get(kind, {}))

    def runner_says(self, task: TaskId, number: int) -> None:
        """Also what comes late, of an attempt that is over."""
        kind = OF_RUNNER[number % len(OF_RUNNER)]
        run = self.script.execution.runs.get(task)
        if kind in (runner.TaskStarted, runner.QueryStarted) and run is not None and run.handle is not None:
            return  # of such a one nothing else is said
        if kind is runner.TaskStarted and run is not None and run.started_at_ms is not None:
            return  # an attempt begins once
        fields: dict[str, Any] = {}
        if kind is runner.TaskFinished:
            plan = self.script.configs if number % 2 else [{"i": number}]
            fields = {"result": plan if task.is_planner else number}
        if kind is runner.TaskProgressed:
            fields = {"progress": QueryProgress(batch=number, rows_per_second=1.0) if number % 3 else QueryMoves()}
        if kind is runner.SparkAbsent and number % 5:
            return
        self.feed(kind, task=task, **FIELDS.get(kind, fields))

    def answer(self, task: TaskId, number: int) -> None:
        """The record that is waited for is stored or refused; or an older one is."""
        if task not in self.insisted or number % 7 == 0:
            self.feed(events.EndWritten, task=task, number=self.insisted.get(task, 1) - 1)
            return
        run = self.script.execution.runs[task]
        stored, refused = _OF_PLANS if run.plan is not None else _OF_ENDS
        if run.end is None and run.plan is None:
            self.feed(events.StartWritten, task=task, number=self.insisted.pop(task))
            return
        known = self.insisted.pop(task)
        again = run.end is not None and run.end.cut_short
        kind = stored if number % 3 or again else refused
        self.feed(kind, task=task, number=known, **FIELDS.get(kind, {}))

    def wait(self, number: int) -> None:
        self.script.now += (1, 100, 300, 6_000)[number % 4]
        self.feed(events.TimerFired)

    def step(self, what: int, task: TaskId, number: int) -> None:
        doing: Sequence[Callable[[], None]] = (
            lambda: self.give(task),
            lambda: self.learn(task),
            lambda: self.learn(task),
            lambda: self.stop_learning(task),
            *(3 * (lambda: self.warm_up_says(task, number),)),
            lambda: self.give(task),
            lambda: self.revoke(task),
            self.advance,
            lambda: self.configure(number),
            lambda: self.define(number),
            lambda: self.define(number),
            lambda: self.remove() if number % 4 == 0 else self.read(),
            self.read,
            lambda: self.go_on_alone(number),
            lambda: self.look(number),
            lambda: self.end_elsewhere(task),
            *(5 * (lambda: self.begin(number),)),
            *(5 * (lambda: self.runner_says(task, number),)),
            *(3 * (lambda: self.answer(task, number),)),
            *(4 * (lambda: self.wait(number),)),
        )
        doing[what % len(doing)]()

    def end(self) -> None:
        """Everything is revoked, and all that have to answer do: then everything is released."""
        for task in TASKS:
            self.revoke(task)
            self.stop_learning(task)
        assert not self.warm, "what is not learned any more is kept ready"
        for _ in range(3):
            for task in list(self.out):
                self.feed(runner.TaskStopped, task=task, reason="")
            for task in list(self.insisted):
                self.answer(task, 1)  # it is stored
            self.wait(3)
        assert not self.script.execution.runs, "a revoked task is never released"


STEPS = st.lists(st.tuples(st.integers(0, 99), st.sampled_from(TASKS), st.integers(0, 99)), max_size=80)


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=examples(25), deadline=None)
def test_what_must_hold_does_after_each_event_and_what_is_revoked_is_released(
    steps: list[tuple[int, TaskId, int]],
) -> None:
    world = World()
    for step in steps:
        world.step(*step)
    world.end()
