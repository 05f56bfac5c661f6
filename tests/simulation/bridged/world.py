"""Classic and declarative workers of one group, and the bridge between them, in one history."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from simulation import world as classic_world
from simulation.bridged.bridges import Bridge, SimulatedBridges
from simulation.declarative import world as declarative_world
from simulation.declarative.candidate import Candidate
from simulation.declarative.process import Process as DeclarativeProcess
from simulation.declarative.wire import GOOD
from simulation.failing import HistoryError
from simulation.process import Process as ClassicProcess

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.declarative.coordinator.events import BridgeClaims
from airflow_provider.group.declarative.server.migration.bridges import PutWord
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import Epoch, TaskId

Worker = ClassicProcess | DeclarativeProcess
AT_ONCE: Final = Deferred(max_delay_ms=0)
"""Enough slots: histories are about moves, not about waiting tasks."""


class ClassicSide(classic_world.World):
    """:param whole: the world of both sides"""

    def __init__(self, whole: BridgedWorld, seed: int) -> None:
        self._whole = whole
        super().__init__(seed, policy=AT_ONCE)

    def starts(self, process: ClassicProcess, task: TaskId, epoch: Epoch) -> int:
        self._whole.started(process, task, epoch)
        return super().starts(process, task, epoch)

    def ends(self, process: ClassicProcess, task: TaskId) -> None:
        self._whole.stopped(process, task)
        super().ends(process, task)

    def bridge(self, candidate: Candidate, claims: BridgeClaims, put: PutWord) -> Bridge:
        self._bounces[BRIDGE] += 1
        process = Bridge(self, candidate, f"bridge{self._bounces[BRIDGE]}", claims, put)
        self.processes[BRIDGE] = process
        self.everybody.append(process)
        self.note(f"{process.name:8} ---- begins, and claims {sorted(map(str, claims.tasks))}")
        process.start(Predecessor.GONE)
        process.look()
        return process


class DeclarativeSide(declarative_world.World):
    """:param whole: the world of both sides"""

    def __init__(self, whole: BridgedWorld, seed: int, **more: Any) -> None:
        self._whole = whole
        super().__init__(seed, policy=AT_ONCE, clock=whole.clock, coordinators=2, **more)
        self.all_well = False

    def started(self, process: DeclarativeProcess, task: TaskId, epoch: Epoch) -> None:
        self._whole.started(process, task, epoch)
        super().started(process, task, epoch)

    def stopped(self, process: DeclarativeProcess, task: TaskId) -> None:
        self._whole.stopped(process, task)
        super().stopped(process, task)

    def note(self, line: object) -> None:
        self._whole.classic.note(line() if callable(line) else line)


class BridgedWorld:
    """One group with workers of both protocols.

    :ivar moves: how often a task moved from one side to the other
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed}/bridged")
        self.moves = 0
        self._holders: defaultdict[TaskId, list[Worker]] = defaultdict(list)
        self._last: dict[TaskId, tuple[Worker, Epoch]] = {}
        self.classic = ClassicSide(self, seed)
        self.clock = self.classic.clock
        self._bridges: dict[Candidate, SimulatedBridges] = {}
        self.declarative = DeclarativeSide(self, seed, bridges=self._bridges_of)

    def _bridges_of(self, candidate: Candidate) -> SimulatedBridges:
        self._bridges[candidate] = SimulatedBridges(self, candidate)
        return self._bridges[candidate]

    # ---- time

    def run(self, ms: int) -> None:
        until = self.clock.now + ms
        while self._step(until):
            pass

    def comes_to(self, condition: Callable[[], bool], *, within_ms: int) -> bool:
        until = self.clock.now + within_ms
        while not condition():
            if not self._step(until):
                return False
        return True

    def _step(self, until: int) -> bool:
        try:
            more = self.clock.step(until=until)
            self.classic.check()
            self.declarative.checks.look()
            for task, holders in self._holders.items():
                if len(holders) > 1:
                    self._check_holders(task)
        except Exception as failure:
            raise HistoryError(failure, self.classic) from failure
        return more

    # ---- what must hold

    def started(self, process: Worker, task: TaskId, epoch: Epoch) -> None:
        last = self._last.get(task)
        if last is not None and last[0].worker != process.worker:
            assert epoch > last[1], (
                f"{task} goes from {last[0].name} to {process.name}, and from epoch {last[1]} to {epoch}"
            )
            self.moves += isinstance(last[0], ClassicProcess) is not isinstance(process, ClassicProcess)
        others = [other.name for other in self._holders[task] if _may_write(other, task)]
        assert not others, f"{process.name} starts {task}, which may be written by {others}"
        self._last[task] = process, epoch
        self._holders[task].append(process)

    def stopped(self, process: Worker, task: TaskId) -> None:
        self._holders[task].remove(process)

    def _check_holders(self, task: TaskId) -> None:
        writing = [process.name for process in self._holders[task] if _may_write(process, task)]
        assert len(writing) <= 1, f"{task} may be written by {writing}"

    # ---- what happens

    def configure(self, job: str, tasks: int) -> None:
        self.declarative.jobs.set_job(job, tasks)
        self.classic.configure(self.classic.configured | {TaskId(job, index) for index in range(tasks)})
        for process in self.declarative.members:
            self.clock.after(process.rng.randint(1, 300), process.read_jobs)

    def start_classic(self, worker: str) -> None:
        self.classic.start(worker)

    def start_declarative(self, worker: str) -> None:
        self.declarative.start(worker)

    def sleep(self, candidate: Candidate, ms: int) -> None:
        self.declarative.candidates.sleep(candidate, ms)
        bridges = self._bridges.get(candidate)
        if bridges is not None and bridges.bridge is not None:
            bridges.bridge.sleep(ms)

    def make_peace(self) -> None:
        self.classic.make_peace()
        self.declarative.make_peace()
        self.declarative.weather = GOOD

    @property
    def running(self) -> dict[TaskId, list[str]]:
        return {task: [one.name for one in holders] for task, holders in self._holders.items() if holders}

    @property
    def is_even(self) -> bool:
        """Whether the workers' numbers of tasks differ by at most one, across both protocols."""
        numbers = {process.name: 0 for process in self.declarative.members}
        numbers |= {
            process.name: 0
            for process in self.classic.processes.values()
            if process.in_group and process.worker != BRIDGE
        }
        for names in self.running.values():
            for name in names:
                numbers[name] = numbers.get(name, 0) + 1
        return max(numbers.values()) - min(numbers.values()) <= 1

    @property
    def at_rest(self) -> bool:
        """Whether each task runs once, and the coordinator knows the members."""
        running = self.running
        if running.keys() != self.classic.configured or any(len(names) > 1 for names in running.values()):
            return False
        members = self.declarative.members
        group = self.declarative.checks.group
        return (
            len(group.members) == len(members)
            and not group.lingering
            and (not members or int(group.target.epoch) == group.epoch)
        )


def _may_write(process: Worker, task: TaskId) -> bool:
    if isinstance(process, DeclarativeProcess):
        return process.copies.may_write(task)
    return task in process.running and process.tasks.may_write(task)
