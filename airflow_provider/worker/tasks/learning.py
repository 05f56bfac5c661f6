"""What a worker does with the tasks that it learns: the second table of the executor's machine.

A learner task is warmed up here while another worker has it. It takes no slot; the group's leader limits how many there
are at the same time. Its warm-up begins as soon as possible, and has no side effects. So nobody waits for its end, and
it can be dropped at any time.

A learner task that moves here is *taken*. Its attempt continues with the warm-up, in the same session. While the task
waits for a slot, the warm-up goes on. When there is a slot, the task starts, however far the warm-up is: if a task
moves before it is ready, its owner was lost, so it already stands still.

A warm-up that meets another writer waits until that may be over; this is no failure. A failed warm-up is tried again
here after a while. When it has failed three times in a row, the worker writes so, and the leader lets another task be
learned instead. This does no harm: the task runs where it is. If Spark ends during a warm-up, the warm-up starts again
in the next Spark; from the second time on after a while, because it may be the reason. If the worker's process ends
during a warm-up, its next process counts this (``warm_up_deaths.py``). No warm-up begins while a task is on trial, or
is to be tried alone (``runs/spark_deaths``), because the task would be blamed for what the warm-up does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.spark.runner import (
    NoSparkToWarmUp,
    WarmUpConflicted,
    WarmUpEvent,
    WarmUpFailed,
    WarmUpLost,
    WarmUpProgressed,
    WarmUpReady,
)
from airflow_provider.state.records import TaskFailure, TaskState, TaskWork
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import Inform, StartWarmUp, StopWarmUp, Warn
from airflow_provider.worker.tasks.events import (
    Closed,
    Event,
    LearnerEvent,
    LearningStopped,
    TakenTaskGone,
    TakenTaskStarted,
    TasksGiven,
    TasksRevoked,
    TasksToLearn,
    TopicsRead,
    WarmUpDue,
)
from airflow_provider.worker.tasks.rule_table import Table, all_late, apply, late, to
from airflow_provider.worker.tasks.runs.learners import ALMOST, LearnerState, LearnerTask
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.taking_over import first_run, last_word
from airflow_provider.worker.tasks.runs.warm_up_deaths import DIED, MOST_DEATHS
from airflow_provider.worker.tasks.state import WAITS_ITS_TURN, Execution

# ---- from the membership


def on_to_learn(x: Execution, task: TaskId, _event: TasksToLearn) -> None:
    """A task that runs here need not be learned, unless it is being released."""
    run = x.runs.get(task)
    if run is None or run.revoked:
        x.learners.failed.pop(task, None)
        x.learners.tasks[task] = LearnerTask(task=task, work=x.jobs.work_of(task))
        if task in x.learners.deaths:
            _learn_after_death(x, task)


def _learn_after_death(x: Execution, task: TaskId) -> None:
    what_next = "it is tried once more"
    if x.learners.deaths[task] >= MOST_DEATHS:
        what_next = "it is not tried again here"
        x.learners.failed[task] = DIED
        _keep(x, replaced(x.learners.tasks[task], state=LearnerState.FAILED))
    x.do(Warn(message=f"the warm-up of {x.jobs.label(task)} failed; {what_next}: {DIED}"))


def on_learning_stopped(x: Execution, task: TaskId, _event: LearningStopped) -> None:
    """The warm-up of a task that has moved here belongs to its attempt: don't drop it."""
    if not x.learners.tasks[task].taken:
        _drop(x, task)
        x.do(Inform(message=f"no longer learns {x.jobs.label(task)}"))


def on_given(x: Execution, task: TaskId, _event: TasksGiven) -> None:
    _keep(x, replaced(x.learners.tasks[task], taken=True))


def on_given_cold(x: Execution, task: TaskId, _event: TasksGiven) -> None:
    """There is no warm-up to continue with."""
    _drop(x, task)


def on_dropped(x: Execution, task: TaskId, _event: Event) -> None:
    _drop(x, task)


# ---- what is to run


def on_topics(x: Execution, task: TaskId, _event: TopicsRead) -> None:
    """A task whose work has changed is learned again."""
    learner, work = x.learners.tasks[task], x.jobs.work_of(task)
    if work is not None and learner.work is not None and learner.work.is_same(work):
        _keep(x, replaced(x.learners.tasks[task], work=work))
    elif work is not None or learner.work is not None:
        _drop(x, task)
        x.learners.failed.pop(task, None)
        if not learner.taken:
            x.learners.tasks[task] = LearnerTask(task=task, work=work)


# ---- its warm-up


def on_due(x: Execution, task: TaskId, _event: WarmUpDue) -> None:
    learner = x.learners.tasks[task]
    if learner.began_ms is None:
        owner = _owner(x, task)
        x.do(Inform(message=f"learns {x.jobs.label(task)}{f', which {owner} runs' if owner else ''}"))
        learner = replaced(learner, began_ms=x.now)
    x.learners.tasks[task] = replaced(learner, state=LearnerState.WARMING)
    assert learner.work is not None
    x.do(StartWarmUp(run=_as_if_taken_now(x, learner.work)))


def on_progressed(x: Execution, task: TaskId, event: WarmUpProgressed) -> None:
    learner = x.learners.tasks[task]
    _keep(x, replaced(learner, progress=max(learner.progress, min(event.progress, ALMOST))))


def on_ready(x: Execution, task: TaskId, _event: WarmUpReady) -> None:
    learner = _keep(x, replaced(x.learners.tasks[task], state=LearnerState.READY, progress=1.0, failures=0))
    x.learners.deaths.pop(task, None)
    assert learner.began_ms is not None
    x.do(Inform(message=f"{x.jobs.label(task)} is ready after {(x.now - learner.began_ms) / 1000:.1f} s"))


def on_failed(x: Execution, task: TaskId, event: WarmUpFailed) -> None:
    """Try it again a few times. If the task has moved here, its attempt starts without the warm-up."""
    learner = x.learners.tasks[task].again(now_ms=x.now, failures=1)
    mask, failure = x.settings.mask, TaskFailure.of(event.error, event.traceback)
    trace = f"\n{mask(failure.traceback)}" if failure.traceback else ""
    wait_s = (learner.not_before_ms - x.now) / 1000
    what_next = "the task starts without it" if learner.taken else f"it is tried again in {wait_s:g} s"
    if learner.fails_for_good and not learner.taken:
        what_next = "it is not tried again here"
        learner = replaced(learner, state=LearnerState.FAILED)
        x.learners.failed[task] = mask(failure.line)
    x.do(Warn(message=f"the warm-up of {x.jobs.label(task)} failed; {what_next}: {mask(failure.message)}{trace}"))
    _keep_or_forget(x, learner)


def on_conflicted(x: Execution, task: TaskId, event: WarmUpConflicted) -> None:
    learner = x.learners.tasks[task].after_conflict(now_ms=x.now)
    why = x.settings.mask(TaskFailure.of(event.error).line)
    x.do(Inform(message=f"the warm-up of {x.jobs.label(task)} waits for another writer: {why}"))
    _keep_or_forget(x, learner)


def on_spark_lost(x: Execution, task: TaskId, event: WarmUpLost) -> None:
    x.suspects.wait_after(x.runs, event.spark, now_ms=x.now)
    _keep_or_forget(x, x.learners.tasks[task].again(now_ms=x.now, spark_deaths=1))


def on_no_spark(x: Execution, task: TaskId, event: NoSparkToWarmUp) -> None:
    x.unable = event.error
    _keep_or_forget(x, x.learners.tasks[task].again(now_ms=x.now))


def on_started(x: Execution, task: TaskId, _event: TakenTaskStarted) -> None:
    learner = x.learners.tasks.pop(task)
    how = "fully warmed up" if learner.state is LearnerState.READY else f"warmed up to {learner.progress:.0%}"
    x.do(Inform(message=f"starts {x.jobs.label(task)}, {how}"))


def _keep(x: Execution, learner: LearnerTask) -> LearnerTask:
    x.learners.tasks[learner.task] = learner
    return learner


def _keep_or_forget(x: Execution, learner: LearnerTask) -> None:
    """The runner has nothing of it any more."""
    if learner.taken:
        del x.learners.tasks[learner.task]
    else:
        x.learners.tasks[learner.task] = learner


def _drop(x: Execution, task: TaskId) -> None:
    x.learners.deaths.pop(task, None)
    if x.learners.tasks.pop(task).state.with_runner:
        x.do(StopWarmUp(task=task))
    x.idle_since_ms = x.now


def _as_if_taken_now(x: Execution, work: TaskWork) -> TaskRun:
    epoch = Epoch(0) if x.status.group is None else x.status.group.epoch
    last = last_word(x.status.tasks.get(work.task), x.stops.get(work.task))
    return first_run(work, epoch, last, now_ms=x.now, wall_ms=x.wall)


def _owner(x: Execution, task: TaskId) -> str:
    """The worker that runs it, according to its record."""
    last = x.status.tasks.get(task)
    return last.worker if last is not None and last.state is TaskState.RUNNING else ""


# ---- the table

_GONE: Final = None
_WAITING = LearnerState.WAITING
_WARMING = LearnerState.WARMING
_READY = LearnerState.READY
_FAILED = LearnerState.FAILED

_OF_RUNNER = (WarmUpProgressed, WarmUpReady, WarmUpFailed, WarmUpConflicted, WarmUpLost, NoSparkToWarmUp)

TRANSITIONS: Final[Table[LearnerState]] = {
    _GONE: {
        TasksToLearn: to(on_to_learn, _WAITING, _FAILED, _GONE),
        **all_late(_GONE, (LearningStopped, TasksGiven, TasksRevoked, TopicsRead, Closed), _OF_RUNNER),
    },
    _WAITING: {
        TasksToLearn: to(late, _WAITING),
        LearningStopped: to(on_learning_stopped, _GONE),
        TasksGiven: to(on_given_cold, _GONE),
        TasksRevoked: to(on_dropped, _GONE),
        TopicsRead: to(on_topics, _WAITING),
        Closed: to(on_dropped, _GONE),
        WarmUpDue: to(on_due, _WARMING),
        **all_late(_WAITING, _OF_RUNNER),
    },
    _WARMING: {
        TasksToLearn: to(late, _WARMING),
        LearningStopped: to(on_learning_stopped, _GONE, _WARMING),
        TasksGiven: to(on_given, _WARMING),
        TasksRevoked: to(on_dropped, _GONE),
        TopicsRead: to(on_topics, _WARMING, _WAITING, _GONE),
        Closed: to(on_dropped, _GONE),
        TakenTaskStarted: to(on_started, _GONE),
        TakenTaskGone: to(on_dropped, _GONE),
        WarmUpProgressed: to(on_progressed, _WARMING),
        WarmUpReady: to(on_ready, _READY),
        WarmUpFailed: to(on_failed, _WAITING, _FAILED, _GONE),
        WarmUpConflicted: to(on_conflicted, _WAITING, _GONE),
        WarmUpLost: to(on_spark_lost, _WAITING, _GONE),
        NoSparkToWarmUp: to(on_no_spark, _WAITING, _GONE),
    },
    _READY: {
        TasksToLearn: to(late, _READY),
        LearningStopped: to(on_learning_stopped, _GONE, _READY),
        TasksGiven: to(on_given, _READY),
        TasksRevoked: to(on_dropped, _GONE),
        TopicsRead: to(on_topics, _READY, _WAITING, _GONE),
        Closed: to(on_dropped, _GONE),
        TakenTaskStarted: to(on_started, _GONE),
        TakenTaskGone: to(on_dropped, _GONE),
        WarmUpLost: to(on_spark_lost, _WAITING, _GONE),
        **all_late(_READY, (WarmUpProgressed, WarmUpReady, WarmUpFailed, WarmUpConflicted, NoSparkToWarmUp)),
    },
    _FAILED: {
        TasksToLearn: to(late, _FAILED),
        LearningStopped: to(on_learning_stopped, _GONE),
        TasksGiven: to(on_given_cold, _GONE),
        TasksRevoked: to(on_dropped, _GONE),
        TopicsRead: to(on_topics, _FAILED, _WAITING),
        Closed: to(on_dropped, _GONE),
        **all_late(_FAILED, _OF_RUNNER),
    },
}


# ---- what the machine calls


def follow(x: Execution, event: Event) -> None:
    """Take in an event, as far as it is about learner tasks."""
    for task in _concerned(x, event):
        _apply(x, task, event)
    if (x.learners.failed or x.learners.deaths) and isinstance(event, TasksGiven | TopicsRead):
        _forget_failures(x, event.tasks if isinstance(event, TasksGiven) else NO_TASKS)


def start(x: Execution, task: TaskId) -> None:
    """This task has had its turn: if it has started, its attempt continues with the warm-up."""
    if x.state_of(task) is RunState.STARTED and task in x.learners.taken:
        _apply(x, task, TakenTaskStarted(task=task))


def begin_next(x: Execution) -> None:
    """Begin each warm-up that may, when everything else has been done about an event."""
    if not x.learners.tasks:
        return
    for task in sorted(x.learners.taken):
        if x.state_of(task) not in WAITS_ITS_TURN:
            _apply(x, task, TakenTaskGone(task=task))
    if x.may_warm_up:
        for task in x.learners.due(now_ms=x.now):
            _apply(x, task, WarmUpDue(task=task))


def _forget_failures(x: Execution, given: Tasks) -> None:
    """Forget those of tasks that the worker has by now, and of tasks that are no longer to run."""
    known = x.learners.failed.keys() | x.learners.deaths.keys()
    for task in (task for task in known if task in given or x.jobs.work_of(task) is None):
        x.learners.failed.pop(task, None)
        x.learners.deaths.pop(task, None)


def _concerned(x: Execution, event: Event) -> Iterable[TaskId]:
    match event:
        case WarmUpEvent() | LearnerEvent():
            return (event.task,)
        case TasksToLearn():
            return () if x.closed else sorted(task for task in event.tasks if not task.is_planner)
        case LearningStopped():
            return sorted(event.tasks)
        case TasksGiven() | TasksRevoked():
            return sorted(event.tasks & x.learners.tasks.keys())
        case TopicsRead() | Closed():
            return sorted(x.learners.tasks)
    return ()


def _apply(x: Execution, task: TaskId, event: Event) -> None:
    apply(TRANSITIONS, x.learners.state_of, x, task, event)
