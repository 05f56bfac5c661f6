"""The attached tasks of a process: they take time to stop, end with it, and ask their fence before they write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simulation import invariants
from simulation.status import TaskWord

from airflow_provider.ledger.records.status import TaskState, TaskStatus, WorkerPhase
from airflow_provider.membership.events import TasksFinished, TasksStopped
from airflow_provider.membership.state import MemberState
from airflow_provider.protocol.holding import StopReason
from airflow_provider.protocol.model import Epoch, TaskId, Tasks
from airflow_provider.spark.job import FencedError
from airflow_provider.worker.lease import WorkerLease

if TYPE_CHECKING:
    from simulation.process import Process


class Attached:
    """What ``worker/executor.py`` is to a real worker, with the product's own lease.

    ``since`` has the tasks that run, and since when in the world's time; ``belated`` those of them that were told to
    stop when others could have been given them: see :func:`~.invariants.missed_a_downgrade`.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self.lease = WorkerLease(lambda: process.state.lease_until, lambda: process.now)
        self.since: dict[TaskId, int] = {}
        self._grants: dict[TaskId, int] = {}
        self._words: dict[TaskId, TaskWord] = {}
        self._told_to_end: set[TaskId] = set()
        self.belated: set[TaskId] = set()

    def may_write(self, task: TaskId) -> bool:
        """Whether the fence of the task's attempt would let it write now."""
        try:
            self.lease.check(self._grants[task])
        except FencedError:
            return False
        return True

    def runs(self, task: TaskId) -> bool:
        """Whether the task does anything now that it could be sorry for. In a process that woke from a pause it may
        still, until it has stopped: what keeps it from writing then is its fence.
        """
        process = self._process
        if task not in self.since or process.asleep:
            return False
        return not process.overslept or self.may_write(task)

    # ---- what the member says

    def start(self, tasks: Tasks, epoch: Epoch) -> None:
        process, world = self._process, self._world
        done = tasks - world.jobs.configured_at(process.config_offset)
        for task in sorted(tasks - done):
            assert task not in self.since, f"{process.name} starts {task}, which it already runs"
            start = world.starts(process, task, epoch)
            known = world.status.tasks.get(task)
            self.since[task] = world.clock.now
            self._grants[task] = self.lease.grant
            status = TaskStatus(
                task=task,
                state=TaskState.RUNNING,
                epoch=epoch,
                worker=process.worker,
                attempt=known.status.attempt + 1 if known is not None else 1,
            )
            self._words[task] = TaskWord(status=status, start=start)
            self._say(task, TaskState.RUNNING)
        self._end_later(done)

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        if reason not in (StopReason.REVOKED, StopReason.EAGER):
            self.lease.end()

        self._end_later(tasks)

    def note_belated(self, known: MemberState) -> None:
        """The process has its assignment, and stops what it should not run.

        :param known: what it knew until now
        """
        if invariants.missed_a_downgrade(self._process.worker, known, self._world.coordinator.rounds):
            self.belated |= self.since.keys()

    def drop_what_is_not_configured(self) -> None:
        """Its worker reads the jobs topic, too."""
        written = self._world.jobs.configured_at(self._process.config_offset) | self._world.jobs.finished
        self._end_later(frozenset(self.since) - written - self._told_to_end)

    def _end_later(self, tasks: Tasks) -> None:
        """The tasks are told to end, and do after a while, unless they have by then."""
        process, world = self._process, self._world
        starts = {task: word.start for task, word in self._words.items() if task in tasks}
        self._told_to_end |= starts.keys()

        def ended() -> None:
            for task, start in starts.items():
                if task in self._words and self._words[task].start == start:
                    self._say(task, TaskState.STOPPED)
                    self._end(task)
            ended_here = tasks.difference(self.since)
            unasked = ended_here & process.state.owned - process.state.stopping
            process.feed(TasksStopped(now_ms=process.now, tasks=ended_here))
            if unasked:
                process.say_of_itself(WorkerPhase.STABLE)

        if tasks:
            delay = process.rng.randint(*world.stop_ms) if starts else 0
            world.clock.after(delay, lambda: process.when_awake(ended))

    def advance(self, epoch: Epoch) -> None:
        """What runs on goes on under this epoch."""
        for task, word in self._words.items():
            self._words[task] = TaskWord(status=replace(word.status, epoch=epoch), start=word.start)

    # ---- what happens to tasks

    def finish(self, task: TaskId) -> None:
        """The task comes to its own end."""
        process = self._process
        self._say(task, TaskState.FINISHED)
        self._end(task)
        process.deliver(lambda: TasksFinished(now_ms=process.now, tasks=frozenset({task})))

    def end_with_process(self) -> None:
        for task in list(self.since):
            self._end(task)

    def _end(self, task: TaskId) -> None:
        del self.since[task], self._grants[task], self._words[task]
        self._told_to_end.discard(task)
        self.belated.discard(task)
        self._world.ends(self._process, task)

    def _say(self, task: TaskId, state: TaskState) -> None:
        word = self._words[task]
        said = TaskWord(status=replace(word.status, state=state), start=word.start)
        self._process.say(lambda: self._world.task_written(said))
