"""The attached tasks of a process: the product's executor machine, whose commands are carried out in virtual time.

The tasks take time to stop, end with the process, and ask their fence before they write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from runner_events import event_of
from simulation import invariants, spark_invariants
from simulation.learning import Report, WarmUps
from simulation.sparks import STARTS_MS, Spark
from simulation.status import TaskWord

from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import TasksFinished, TasksStopped
from airflow_provider.spark import runner
from airflow_provider.spark.job import FencedError
from airflow_provider.state.records import TaskStatus, WorkerPhase
from airflow_provider.state.records.jobs_topic.slots import wanted_slots
from airflow_provider.values.model import Epoch, TaskId, Tasks
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands.releases import Releases
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.tasks import commands, events
from airflow_provider.worker.tasks.invariants import validate
from airflow_provider.worker.tasks.machine import handle
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.state import Execution, ExecutionSettings

if TYPE_CHECKING:
    from simulation.process import Process


def _nothing(_command: commands.Command) -> None:
    pass


class Attached:
    """Stands for ``worker/hands/executor.py`` of a real worker, with the product's own lease.

    ``since`` has the running tasks with their start in the world's time; ``belated`` those of them that were told to
    stop when others could already have them: see :func:`~.invariants.missed_a_downgrade`.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self.lease = WorkerLease(lambda: process.state.lease_until, lambda: process.now)
        self.since: dict[TaskId, int] = {}
        self.belated: set[TaskId] = set()
        self._grants: dict[TaskId, int] = {}
        self._failed_here: dict[TaskId, tuple[str, int]] = {}
        self._starts: dict[TaskId, int] = {}
        self._taken: dict[TaskId, int] = {}
        self._warm_at: dict[TaskId, int] = {}
        self._commands: deque[commands.Command] = deque()
        self._carry = self._hands()
        self._carrying_out = False
        self._timer = 0
        self._told_at = -1
        self._stop_ms = 0
        self._stands_back = False
        self.warm_ups = WarmUps(process, self._feed)
        self.spark = Spark(process, self._feed)
        self._report = Report(process)
        self._releases = Releases(
            self._release_stopped,
            soon=lambda call: process.world.clock.after(0, lambda: process.when_awake(call)),
            later=lambda ms, call: process.world.clock.after(ms, lambda: process.when_awake(call)),
        )
        settings = ExecutionSettings(
            worker=process.worker,
            slots=process.slots,
            process=process.name,
            lease_ms=process.settings.session_timeout_ms,
            linger_ms=0,
            max_spark_deaths=process.world.culprits.max_deaths,
            mask=str,
        )
        self._execution = Execution(settings, process.jobs, self._world.status.snapshot(), now_ms=process.now)

    @property
    def held(self) -> Tasks:
        """Its tasks, running or waiting."""
        return frozenset(self._execution.runs) - self.kept

    @property
    def kept(self) -> Tasks:
        """The tasks that failed for good here and keep their place."""
        return self._execution.runs.failed

    @property
    def active(self) -> Tasks:
        """The tasks that do not wait."""
        return self._execution.runs.active

    @property
    def at_work(self) -> bool:
        """Whether all its tasks run, as far as slots allow. Planners may wait for their next time."""
        runs = [run for task, run in self._execution.runs.items() if self._works(task)]
        waiting = [run for run in runs if run.state is RunState.WAITING]
        running = [run for run in runs if run.state is RunState.STARTED]
        if len(waiting) + len(running) != len(runs):
            return False
        free = self._process.asked.slots - sum(self.slots_of(run.task) for run in running)
        return not waiting or any(self.slots_of(run.task) > free for run in waiting)

    @property
    def waiting_for_slots(self) -> list[int]:
        """The slots that each waiting task needs."""
        return [
            self.slots_of(task)
            for task, run in self._execution.runs.items()
            if self._works(task) and run.state is RunState.WAITING
        ]

    def slots_of(self, task: TaskId) -> int:
        """How many slots it takes here."""
        return min(self._process.jobs.slots_of(task), self._process.slots)

    def _works(self, task: TaskId) -> bool:
        return not task.is_planner and task not in self.kept

    @property
    def working(self) -> Tasks:
        """The running tasks that are warm and do their work."""
        now = self._world.clock.now
        return frozenset(task for task in self.since if self._warm_at[task] <= now)

    @property
    def learning(self) -> Mapping[TaskId, float]:
        """The progress of learner tasks."""
        return self._execution.learners.progress

    @property
    def failed(self) -> Tasks:
        """The learner tasks that can't be made ready here."""
        learners = self._execution.learners
        return frozenset(learners.failed) & learners.progress.keys()

    @property
    def learners(self) -> Tasks:
        """The tasks that are made ready here or wait for that."""
        return frozenset(self._execution.learners.tasks)

    def may_write(self, task: TaskId) -> bool:
        """Whether the fence of the task's attempt lets it write now."""
        try:
            self.lease.check(self._grants[task])
        except FencedError:
            return False
        return True

    def runs(self, task: TaskId) -> bool:
        """Whether the task really runs now. In a process that woke from a pause it may run until it has stopped, but
        its fence keeps it from writing: that does not count.
        """
        process = self._process
        if task not in self.since or process.asleep:
            return False
        return not process.overslept or self.may_write(task)

    def start_of(self, task: TaskId) -> int | None:
        """The number of the start of its running attempt; None: there is none."""
        return self._starts[task] if task in self.since else None

    def goes_on(self, task: TaskId) -> bool:
        """Whether its running attempt was not told to stop, and has its lease."""
        return self._execution.runs[task].state is RunState.STARTED and self.may_write(task)

    # ---- commands of the member

    def start(self, tasks: Tasks, epoch: Epoch) -> None:
        self._releases.forget(tasks)
        self.read()
        self._feed(events.TasksGiven, tasks=tasks, epoch=epoch)

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        if reason.ends_lease:
            self.lease.end()
            self._releases.wait_for_no_record(tasks)
            self.in_trouble()
        self._feed(events.TasksRevoked, tasks=tasks, reason=reason.value)

    def learn(self, tasks: Tasks) -> None:
        self.read()
        self._feed(events.TasksToLearn, tasks=tasks)

    def stop_learning(self, tasks: Tasks) -> None:
        self._feed(events.LearningStopped, tasks=tasks)

    def drain(self) -> None:
        self._feed(events.Drained)

    def leave_for_good(self) -> None: ...

    def let_failed_go(self) -> None:
        self._feed(events.FailedLetGo)

    def advance(self, epoch: Epoch) -> None:
        """The running tasks go on in this epoch."""
        self.read()
        self._feed(events.EpochAdvanced, epoch=epoch)

    def note_belated(self, known: MemberState) -> None:
        """The process has its assignment and stops the tasks that it should not run.

        :param known: its state before
        """
        if invariants.missed_a_downgrade(self._process.worker, known, self._world.coordinator.rounds):
            self.belated |= self.since.keys()
            self.in_trouble()

    def read(self) -> None:
        """The worker reads the topics, too."""
        jobs, status = self._process.jobs, self._world.status.snapshot()
        if jobs is not self._execution.jobs or status is not self._execution.status:
            self._feed(events.TopicsRead, jobs=jobs, status=status)

    def own_record_read(self) -> None:
        if self._execution.last_words.are_read_in(self._world.status.snapshot()):
            self.read()

    @property
    def awaits_own_record_since_ms(self) -> int:
        return self._execution.last_words.since_ms

    # ---- what happens to tasks

    def finish(self, task: TaskId) -> None:
        """The task finishes; a planner returns the plan that its job has."""
        plan = self._world.jobs.newest.plans.get(task.job)
        result = list(plan.configs) if task.is_planner and plan is not None else []
        stateful = plan is not None and plan.stateful
        self._end(task)
        self.read()
        self._feed(runner.TaskFinished, task=task, result=result, stateful=stateful)

    def fail(self, task: TaskId) -> None:
        """The task fails for good: it has had its last try before."""
        self._end(task)
        self.read()
        before = self._execution.runs[task]
        if before.state is RunState.STARTED:  # otherwise it was being stopped, and that is no failure
            self._failed_here[task] = self._life(before)
            self._execution.keep(replaced(before, last_try=True))
        self._feed(runner.TaskFailed, task=task, error="boom", retryable=False)

    def meet_another_writer(self, task: TaskId) -> None:
        """Another writer uses the task's checkpoint."""
        self._end(task)
        self.read()
        self._feed(runner.TaskConflicted, task=task, error="race")

    def lose_spark(self, task: TaskId, *, spark: int, after_ms: int, fails: Callable[[], None]) -> None:
        """The task notices after a while that its Spark has ended, unless it has ended before.

        :param fails: called if it fails for good because of that
        """

        def notices() -> None:
            if not self.may_write(task):
                self._end(task)
                self._feed(runner.TaskStopped, task=task, reason="")
                return
            self._end(task)
            self.read()
            self._feed(runner.SparkLost, task=task, spark=spark, error="the JVM has ended")
            run = self._execution.runs.get(task)
            if run is not None and run.state is RunState.CLOSING:
                fails()

        self._later(task, after_ms, notices)

    def _lack_spark(self, run: TaskRun) -> None:
        """Spark did not start for the task."""
        self._end(run.task)
        self.read()
        self._feed(runner.SparkAbsent, task=run.task, error="Spark does not start")
        spark_invariants.nobody_pays_for_a_spark_that_does_not_start(run, self._execution.runs.get(run.task))

    def fail_here(self, task: TaskId, *, after_ms: int) -> None:
        """The task fails after a while, unless it has ended before."""

        def fails() -> None:
            self._end(task)
            self.read()
            self._world.lacking.failed(self._process, task)
            self._feed(runner.TaskFailed, task=task, error="no such class", retryable=True)

        self._later(task, after_ms, fails)

    def _life(self, run: TaskRun) -> tuple[str, int]:
        """The task's work, and how often somebody had it retried."""
        return run.work.fingerprint, self._world.trials.of(run.task)

    def in_trouble(self) -> None:
        """What runs here may be taken for lost, and so may what has stopped, if this is not written yet."""
        tasks = self.since if self._process.has_been_heard else self._starts
        self._world.culprits.troubled.update(self._starts[task] for task in tasks)

    def end_with_process(self) -> None:
        self.in_trouble()
        self.warm_ups.end()
        for task in list(self.since):
            self._end(task)

    def _end(self, task: TaskId) -> None:
        del self.since[task], self._grants[task]
        self._taken.pop(task, None)
        self.belated.discard(task)
        self._world.ends(self._process, task)

    # ---- the machine

    def _feed(self, kind: type[events.Event], **fields: Any) -> None:
        """Handle one event and its commands; events that come meanwhile are handled afterwards."""
        process = self._process
        self._commands += handle(self._execution, event_of(kind, **fields), now_ms=process.now, wall_ms=process.wall)
        validate(self._execution)
        if self._carrying_out:
            return
        self._carrying_out = True
        try:
            while self._commands:
                self._carry_out(self._commands.popleft())
        finally:
            self._carrying_out = False
        self._report.look()
        if self.awaits_own_record_since_ms not in (0, process.awaited_ms):
            process.say_again()
        process.asked.look_later()
        if not self._stands_back and (self._execution.unable or self._execution.blamed):
            self._stands_back = True
            self._world.lacking.stands_back(process, self._execution)

    def _carry_out(self, command: commands.Command) -> None:
        self._carry[type(command)](command)

    def _hands(self) -> Mapping[type[commands.Command], Callable[[Any], None]]:
        """How each command is carried out. No task here outlives its process, so none is just let go of."""
        process = self._process
        return {
            commands.StartAttempt: lambda command: self._begin(command.run),
            commands.StartWarmUp: lambda command: self.warm_ups.start(command.run.task),
            commands.StopWarmUp: lambda command: self.warm_ups.stop(command.task),
            commands.StopAttempts: lambda command: self._stop_later(command.tasks),
            commands.LetBegin: lambda command: self._world.culprits.called(process, command.task),
            commands.WriteStart: self._write_start,
            commands.WriteStatus: lambda command: self._say(command.status),
            commands.WriteStopped: self._say_stopped,
            commands.WriteEnd: self._write_end,
            commands.WritePlan: self._write_plan,
            commands.GiveUpWriting: _nothing,  # records under way still arrive
            commands.ReleaseStopped: lambda command: self._releases.release(command.tasks),
            commands.ReleaseFinished: lambda command: self._release_finished(command.tasks),
            commands.ArmTimer: lambda command: self._arm(command.at_ms),
            commands.Inform: _nothing,
            commands.Warn: _nothing,
            commands.TellOfTask: _nothing,
        }

    def _begin(self, run: TaskRun) -> None:
        """In a process that woke without a lease, the fence stops the attempt before it does anything."""
        task, process, world = run.task, self._process, self._world
        assert task not in self.since, f"{process.name} starts {task}, which it already runs"
        invariants.a_failed_task_starts_only_on_request(task, self._failed_here.pop(task, None), self._life(run))
        if process.lease_over:
            self.warm_ups.stop(task)
            self._feed(runner.TaskStopped, task=task, reason="")
            return
        self._starts[task] = world.starts(process, task, run.epoch)
        if not task.is_planner:
            streams = [taken for other, taken in self._taken.items() if self._execution.runs[other].is_endless]
            self._taken[task] = min(wanted_slots(run.work.config), max(1, process.slots - sum(streams)))
            invariants.no_more_slots_are_taken_than_there_are(process, self._taken)
        self.since[task] = world.clock.now
        far = self.warm_ups.take(task)
        self._warm_at[task] = world.clock.now + round(world.cold_start_ms * (1 - far))
        if world.cold_start_ms:
            world.clock.after(self._warm_at[task] - world.clock.now, world.look)
        self._grants[task] = self.lease.grant
        begins_ms = self.spark.begins(task)
        if begins_ms is None:
            self._later(task, STARTS_MS, lambda: self._lack_spark(run))
        elif begins_ms:
            self._later(task, begins_ms, lambda: self._feed(runner.TaskStarted, task=task))
        else:
            self._feed(runner.TaskStarted, task=task)
        world.lacking.begins(process, task)

    def _stop_later(self, tasks: Tasks) -> None:
        """Tasks that are told to stop together end together."""
        process, now = self._process, self._world.clock.now
        if self._told_at != now:
            self._told_at, self._stop_ms = now, process.rng.randint(*self._world.stop_ms)
        for task in sorted(tasks):
            self._end_later(task, self._stop_ms)

    def _end_later(self, task: TaskId, delay_ms: int) -> None:
        """The task ends after a while, unless it has ended before."""

        def stopped() -> None:
            self._end(task)
            self.read()
            self._feed(runner.TaskStopped, task=task, reason="")

        self._later(task, delay_ms, stopped)

    def _later(self, task: TaskId, delay_ms: int, action: Callable[[], None]) -> None:
        """Something happens to the task after a while, unless it has ended before."""
        process, start = self._process, self._starts.get(task)

        def happens() -> None:
            if task in self.since and self._starts[task] == start:
                action()

        self._world.clock.after(delay_ms, lambda: process.when_awake(happens))

    def _release_stopped(self, tasks: Tasks) -> None:
        """Tasks that it was not told to stop were released by the worker itself, and nobody else knows."""
        process = self._process
        for task in tasks:
            self._failed_here.pop(task, None)  # its record was not stored in time, or all know its end
        unasked = tasks & process.state.owned - process.state.stopping
        process.feed(TasksStopped(now_ms=process.now, tasks=tasks))
        if unasked:
            process.say_of_itself(WorkerPhase.STABLE)

    def _release_finished(self, tasks: Tasks) -> None:
        for task in tasks:
            self._failed_here.pop(task, None)  # somebody who did not know yet may have started it again
        self._process.feed(TasksFinished(now_ms=self._process.now, tasks=tasks))

    def _arm(self, at_ms: int) -> None:
        process = self._process
        self._timer += 1
        number = self._timer

        def fire() -> None:
            if self._timer == number:
                self._feed(events.TimerFired)

        self._world.clock.after(process.clock.until(at_ms), lambda: process.when_awake(fire))

    # ---- records

    def _word(self, status: TaskStatus) -> TaskWord:
        start = self._starts.get(status.task) if status.started_at_ms is not None else None
        return TaskWord(status=status, start=start)

    def _say(self, status: TaskStatus) -> None:
        word = self._word(status)
        spark_invariants.only_what_was_in_trouble_is_suspected(status, self._world)
        self._process.say(lambda: self._world.task_written(word))

    def _write_start(self, command: commands.WriteStart) -> None:
        """Others count on the task from now on, although its code is called only when this is stored."""
        word, number, process = self._word(command.status), command.number, self._process

        def arrive() -> None:
            self._world.task_written(word)
            process.when_awake(lambda: self._feed(events.StartWritten, task=word.status.task, number=number))

        process.say(arrive)

    def _say_last(self, status: TaskStatus, stored: Callable[[], None] | None = None) -> None:
        """The last record about a task of a removed job is a tombstone."""
        word, process, world = self._word(status), self._process, self._world
        if process.hushed:
            self.in_trouble()

        def arrive() -> None:
            world.task_written(word)
            if status.task.job not in process.jobs.jobs:
                world.status.forget_task(status.task)
            if stored is not None:
                process.when_awake(stored)

        process.say(arrive)

    def _say_stopped(self, command: commands.WriteStopped) -> None:
        self._say_last(command.status, self._releases.writing(command.status.task))

    def _write_end(self, command: commands.WriteEnd) -> None:
        status, number = command.status, command.number
        self._say_last(status, lambda: self._feed(events.EndWritten, task=status.task, number=number))

    def _write_plan(self, command: commands.WritePlan) -> None:
        def arrive() -> None:
            self._world.plan_written(command.plan)
            self._process.when_awake(lambda: self._feed(events.PlanWritten, task=command.task, number=command.number))

        self._process.say(arrive)
