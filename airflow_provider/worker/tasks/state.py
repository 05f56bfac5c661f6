"""The state of the machine, and the steps that its handlers share.

Unlike the member's state, it changes in place: a worker may have thousands of tasks, and copying all of them for each
event would cost more than the event. The state of each single task is a frozen value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.state.blame.evidence import Evidence
from airflow_provider.state.blame.tried_elsewhere import RecentPlaces
from airflow_provider.state.records import TaskFailure, TaskState, TaskStatus, WrittenAsset
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import (
    ArmTimer,
    Command,
    GiveUpWriting,
    Inform,
    ReleaseFinished,
    ReleaseStopped,
    StopAttempts,
    StopWatching,
    TellOfTask,
    Warn,
    Watch,
    WriteEnd,
    WriteStart,
    WriteStatus,
    WriteStopped,
)
from airflow_provider.worker.tasks.runs import checkpoint_claims
from airflow_provider.worker.tasks.runs.checkpoint_claims import Claims
from airflow_provider.worker.tasks.runs.known_faults import InARow, KnownFaults
from airflow_provider.worker.tasks.runs.last_words import LastWords
from airflow_provider.worker.tasks.runs.learners import Learners
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import End, TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.suspects import Suspects, Turn
from airflow_provider.worker.tasks.runs.warm_up_deaths import deaths_after

WAITS_ITS_TURN: Final = (RunState.WAITING, RunState.PAUSED, RunState.RESTARTING)
"""A task in one of these states will start, if nothing else happens."""
LAST_WORDS_MS: Final = 5_000
"""How long the membership waits for the last record of a task."""


class ImpossibleEventError(Exception):
    """An event that can't happen in this state, or a broken rule: a fault of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSettings:
    """The settings of one machine.

    :param slots: how many tasks run at the same time
    :param process: the identity of this process (:attr:`~airflow_provider.state.records.WorkerStatus.process`)
    :param lease_ms: how long it may continue after another process has taken its worker's name
    :param linger_ms: in a process: hand the membership over when there was nothing to do for this long; in a triggerer:
        don't ask for a process before this time is over
    :param max_spark_deaths: a task may fail when Spark or its process has ended this often while it ran
    :param mask: removes secrets from error messages
    :param in_triggerer: whether detached tasks are watched, and nothing is started
    :param warms_up: whether tasks can be learned here
    :param server: the URL of the Spark Connect server on which it runs its tasks; empty: it has a Spark of its own, or
        none
    """

    worker: WorkerId
    slots: int
    process: str
    lease_ms: int
    linger_ms: int
    max_spark_deaths: int
    mask: Callable[[str], str]
    in_triggerer: bool = False
    warms_up: bool = True
    server: str = ""


class Execution:
    """The state of the machine.

    :param jobs: the jobs topic as far as it was read
    :param status: the status topic as far as it was read
    :param now_ms: the monotonic clock
    :ivar runs: the worker's tasks
    :ivar before: the record of this worker that this process has found as it began
    :ivar learners: the tasks that it learns
    :ivar last_words: the tasks that wait for the last words of the process that had them
    :ivar idle_since_ms: when the last task was released or detached, or the worker has joined
    :ivar keeps_failed: whether tasks that have failed for good stay here
    :ivar looked_for_orphans: whether this process has looked for orphans
    :ivar leaves_for_good: whether this worker leaves and never comes back, and has not yet seen whether others stay
    :ivar unable: why no task can be started in this process; usually empty
    :ivar lacks: why this process can't watch a driver that it has; usually empty
    :ivar blamed: why this worker is to blame for failures of its tasks, so that it starts no more; usually empty
    :ivar stopped_running: how many tasks, without planners, were running here when they were revoked
    """

    def __init__(self, settings: ExecutionSettings, jobs: JobsSnapshot, status: StatusSnapshot, *, now_ms: int) -> None:
        self.settings = settings
        self.jobs = jobs
        self.status = status
        self.slots = settings.slots
        self.closed = False
        self.looked_for_orphans = False
        self.leaves_for_good = False
        self.unable = self.blamed = self.lacks = ""
        self.evidence = Evidence(settings.worker)
        self.known_faults = KnownFaults()
        self.without_room = InARow()
        self.places = RecentPlaces()
        self.keeps_failed = True
        self.stopped_running = 0
        self.runs = RunTable()
        self.before = status.workers.get(settings.worker)
        self.learners = Learners(deaths=deaths_after(self.before, settings.process))
        self.suspects = Suspects(settings.max_spark_deaths, settings.worker)
        self.turn = Turn()
        self.last_words = LastWords(settings.worker, None if settings.in_triggerer else settings.process)
        self.claims = Claims(process=settings.process, lease_ms=settings.lease_ms)
        self.stops: dict[TaskId, TaskStatus] = {}
        self.idle_since_ms = self.now = now_ms
        self.wall = 0
        self.look_at_ms: int | None = None
        self.armed_at: int | None = None
        self.blocked = NO_TASKS
        self.waits_said = 0
        self._number = 0
        self._commands: list[Command] = []
        self._stopped: set[TaskId] = set()
        self._finished: set[TaskId] = set()

    def done(self, now_ms: int) -> bool:
        """Whether the membership should be handed over: for long enough, there was nothing to do here."""
        return self._wants_to_go and now_ms >= self.idle_since_ms + self.settings.linger_ms

    @property
    def _wants_to_go(self) -> bool:
        """Not while a query is being ended: whoever takes over would think that it has ended by itself. But what a
        triggerer can't watch or learn is left to a process in any case.
        """
        if (self.lacks and self.settings.in_triggerer) or (self.learners.tasks and not self.settings.warms_up):
            return True
        if self.runs.ends_some:
            return False
        if not self.settings.in_triggerer:
            return self.runs.need_no_process(self.slots) and not self.learners.tasks
        free = self.may_begin and self.runs.has_startable(slots=self.slots, now_ms=self.now, blocked=self.blocked)
        return free and not self.closed

    def state_of(self, task: TaskId) -> RunState | None:
        """None: the task is not here."""
        run = self.runs.get(task)
        return run.state if run is not None else None

    @property
    def released(self) -> frozenset[TaskId]:
        """What this event releases."""
        return frozenset(self._stopped | self._finished)

    # ---- one event

    def begin(self, *, now_ms: int, wall_ms: int) -> None:
        self.now, self.wall = now_ms, wall_ms
        self.waits_said = 0

    def do(self, command: Command) -> None:
        self._commands.append(command)

    def commands(self) -> list[Command]:
        """The commands of this event. Releases come last, because the membership reacts to them immediately."""
        self._arm()
        if self._stopped:
            self.do(ReleaseStopped(tasks=frozenset(self._stopped)))
        if self._finished:
            self.do(ReleaseFinished(tasks=frozenset(self._finished)))
        commands, self._commands, self._stopped, self._finished = self._commands, [], set(), set()
        return commands

    def _arm(self) -> None:
        """Only move the timer forward: firing too early is harmless, and cheaper than arming it for each event."""
        due_ms = self.next_due_ms()
        if due_ms is not None and (self.armed_at is None or due_ms < self.armed_at):
            self.armed_at = due_ms
            self.do(ArmTimer(at_ms=due_ms))

    def next_due_ms(self) -> int | None:
        """When something changes without an event (monotonic milliseconds)."""
        due = self.suspects.due_ms(self.runs.next_due_ms(now_ms=self.now), now_ms=self.now)
        over = self.idle_since_ms + self.settings.linger_ms
        lingers = over if self._wants_to_go and over > self.now else None
        learns = self._next_warm_up_ms()
        times = (due, self.look_at_ms, lingers, learns, self.last_words.until_ms)
        return min((at for at in times if at is not None), default=None)

    def _next_warm_up_ms(self) -> int | None:
        if not self.learners.tasks:
            return None
        if self.may_begin and self.learners.due(now_ms=self.now):
            return self.suspects.trial_ms(self.runs, now_ms=self.now)
        return self.learners.next_due_ms(now_ms=self.now)

    # ---- what handlers do

    def keep(self, run: TaskRun) -> TaskRun:
        """Store the new state of a task."""
        self.runs[run.task] = run
        return run

    def rest(self, run: TaskRun) -> None:
        """Keep a task that has failed for good. The rest of its state is not needed any more."""
        self.runs[run.task] = TaskRun(work=run.work, epoch=run.epoch, attempt=run.attempt, state=RunState.FAILED)
        self.idle_since_ms = self.now

    def write_waiting(self, task: TaskId) -> None:
        self.write(self.keep(replaced(self.runs[task], wait_written=True)), TaskState.PENDING)

    def claim_again(self, task: TaskId) -> None:
        """Claim the checkpoint that its configuration names, if it names one."""
        claim = self.claims.of(self.runs[task].work)
        if claim is not None:
            self.keep(replaced(self.runs[task], claim=claim))
            self.write_waiting(task)

    def wait_for_next(self, run: TaskRun, delay_ms: int) -> None:
        """Start its next attempt here, after this time."""
        self._began_nothing(run)
        self.suspects.between.waits_again(run.task)
        waiting = self.runs[run.task] = run.next_attempt(delay_ms, now_ms=self.now, wall_ms=self.wall)
        self.write(waiting, TaskState.PENDING)

    def stop(self, task: TaskId, state: RunState, reason: str) -> None:
        """Stop its attempt, for this reason. If it was alone on trial, others may begin beside it from now on."""
        was = self.runs[task]
        run = self.keep(replaced(was, state=state, alone=False, give_up_ms=None))
        if was.alone and was.let_begin:
            self.write(run, TaskState.RUNNING)
        self.do(StopAttempts(tasks=frozenset({task}), reason=reason))

    def let_go(self, task: TaskId) -> None:
        """Leave a detached task to another worker. Its last record stays true: it is running."""
        self.do(StopWatching(tasks=frozenset({task})))
        self.release_stopped(task)

    def forget_detached(self) -> None:
        """Stop watching detached tasks, because this process ends. The membership decides who has them next."""
        alone = frozenset(
            task
            for task, run in self.runs.items()
            if run.detached and run.state in (RunState.TAKING_OVER, RunState.STARTED)
        )
        for task in alone:
            del self.runs[task]
        if alone:
            self.do(StopWatching(tasks=alone))

    def watch(self, run: TaskRun) -> TaskRun:
        """The task is detached from now on: watch it."""
        self.idle_since_ms = self.now
        self.do(Watch(run=run))
        return run

    def write_start(self, run: TaskRun) -> None:
        """Write that an attempt runs. It begins when this is stored, so that the task's next worker knows of it."""
        run = self.keep(replaced(run, number=self.next_number()))
        self.do(WriteStart(number=run.number, status=run.status(TaskState.RUNNING, self.settings.worker)))

    def write(self, run: TaskRun, state: TaskState) -> None:
        tried = state is TaskState.PENDING and self.suspects.needs_trial(run)
        self.do(WriteStatus(status=run.status(state, self.settings.worker, waits_for_trial=tried)))

    def write_stopped(self, run: TaskRun, *, ended_at_ms: int | None) -> None:
        """Write that it has stopped, and remember it in case the task comes back before the record is read.

        :param ended_at_ms: when its attempt ended (wall clock); None: there was none
        """
        self._began_nothing(run)
        status = self.stops[run.task] = run.status(TaskState.STOPPED, self.settings.worker, finished_at_ms=ended_at_ms)
        self.do(WriteStopped(status=status))

    def _began_nothing(self, run: TaskRun) -> None:
        """Stop writing its start, if this is not known to be stored: it may be read back before that."""
        if run.started_at_ms is not None and not run.detached and (run.handle is not None or not run.let_begin):
            self.do(GiveUpWriting(task=run.task))

    def remember_stopped(self, run: TaskRun) -> None:
        """Write nothing, and remember that it has stopped in case the task comes back."""
        self.stops[run.task] = run.status(TaskState.STOPPED, self.settings.worker)

    def close(self, run: TaskRun, state: TaskState, result: Any = None, wrote: tuple[WrittenAsset, ...] = ()) -> None:
        """The task has ended. Its record is stored before it is released: the next leader must not take it for lost."""
        end = End(state=state, at_ms=self.wall, result=result, wrote=wrote)
        self.write_end(replaced(run, end=end, plan=None))

    def write_end(self, run: TaskRun) -> None:
        """Write the last record, with the present epoch: leaders ignore the end if it is of an earlier one."""
        assert run.end is not None
        closing = self.runs[run.task] = replaced(
            run, state=RunState.CLOSING, number=self.next_number(), give_up_ms=self.give_up_ms(run)
        )
        end = run.end
        status = run.status(
            end.state,
            self.settings.worker,
            finished_at_ms=end.at_ms,
            result=end.result,
            wrote=end.wrote,
            kept=self.keeps(closing),
        )
        self.do(WriteEnd(number=closing.number, status=status))

    def keeps(self, ended: TaskRun) -> bool:
        """Whether the task stays here after its end: it has failed for good, and was not revoked."""
        assert ended.end is not None
        return ended.end.state is TaskState.FAILED and self.keeps_failed and not ended.revoked

    def give_up_ms(self, run: TaskRun) -> int | None:
        """Until when the membership waits for its record; None: it does not wait."""
        waited_for = run.revoked or run.state is RunState.STOPPING
        return run.give_up_ms or (self.now + LAST_WORDS_MS if waited_for else None)

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def warn(self, message: str) -> None:
        self.do(Warn(message=message))

    def warn_of(self, run: TaskRun, one: str, many: str, why: str = "", *, incident: str = "") -> None:
        """Warn once of what has happened to this task, and perhaps to others
        (:class:`~airflow_provider.worker.tasks.commands.TellOfTask`).
        """
        self.do(TellOfTask(label=run.label, one=one, many=many, why=why, incident=incident))

    def tell_of(self, run: TaskRun, one: str, many: str) -> None:
        """The same without a warning."""
        self.do(TellOfTask(label=run.label, one=one, many=many, warns=False))

    def failure(self, message: str, traceback: str = "") -> TaskFailure:
        mask = self.settings.mask
        return TaskFailure.of(mask(message), mask(traceback))

    def release_stopped(self, task: TaskId) -> None:
        """Release a task that no longer runs here, and still has to be run."""
        self.runs.pop(task, None)
        self.last_words.forget(task)
        self._stopped.add(task)
        self.idle_since_ms = self.now

    def release_finished(self, task: TaskId) -> None:
        """Release a task that has finished or failed, when its record is stored."""
        del self.runs[task]
        self._finished.add(task)
        self.idle_since_ms = self.now

    def forget_removed_jobs(self) -> None:
        """A worker may live for months, and see many jobs."""
        self.stops = {task: stopped for task, stopped in self.stops.items() if task.job in self.jobs.jobs}
        self.evidence.forget_jobs_but(self.jobs.jobs)
        self.suspects.forget_jobs_but(self.jobs.jobs)

    # ---- who may start

    def judge(self, status: StatusSnapshot) -> None:
        """Find out whether this worker is to blame for what has failed here. In a triggerer it starts nothing, so it
        has nothing to stand back from.
        """
        if self.settings.in_triggerer:
            return
        self.blamed = self.blamed or self.evidence.verdict(status, wall_ms=self.wall)

    @property
    def may_start(self) -> bool:
        return not self.settings.in_triggerer and self.may_begin

    @property
    def may_begin(self) -> bool:
        """Whether something could start, here or in a process of its own."""
        return not (self.closed or self.unable or self.blamed or self.suspects.holds(self.now))

    @property
    def may_warm_up(self) -> bool:
        """Not while a task is on trial: it would be blamed if the warm-up ended Spark."""
        on_trial = self.suspects.trial_ms(self.runs, now_ms=self.now) is not None
        return self.settings.warms_up and self.may_begin and self.slots > 0 and not on_trial

    def look_at_claims(self) -> Tasks:
        """Which tasks wait for a checkpoint. Sets a timer to look again while there are some."""
        claiming = self.runs.claiming
        if not claiming:
            return NO_TASKS
        blocked = self.claims.blocked(claiming, self.status, now_ms=self.now)
        for message in blocked.news:
            self.do(Inform(message=message))
        if blocked.tasks and self.look_at_ms is None:
            self.look_at_ms = self.now + checkpoint_claims.LOOK_MS
        return blocked.tasks

    def press_claims(self) -> None:
        """Write claims again that were not read back: a record of a later epoch may hide them."""
        self.look_at_ms = None
        for task in self.claims.blocked(self.runs.claiming, self.status, now_ms=self.now).unread:
            self.write(self.runs[task], TaskState.PENDING)
