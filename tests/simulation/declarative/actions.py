"""Actions on the workers and the jobs of a declarative group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.declarative.wire import Weather

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from simulation.declarative.process import Process
    from simulation.declarative.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(ABC):
    """:param after_ms: the time since the action before it"""

    after_ms: int

    @abstractmethod
    def apply(self, world: World) -> bool:
        """:return: whether it applied"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnWorker(Action):
    """An action on a worker in the group."""

    worker: str

    def apply(self, world: World) -> bool:
        process = world.live.get(self.worker)
        return process is not None and process.in_group and self.befall(world, process)

    @abstractmethod
    def befall(self, world: World, process: Process) -> bool: ...


# ---- workers come and go


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Action):
    worker: str

    def apply(self, world: World) -> bool:
        if self.worker in world.live or self.worker in world.expected:
            return False
        world.start(self.worker)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(OnWorker):
    def befall(self, world: World, process: Process) -> bool:
        world.kill(process)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounce(OnWorker):
    """It dies, and is started again under its name.

    :param known: whether the new process knows that the one before has ended
    """

    back_ms: int
    known: bool = True

    def befall(self, world: World, process: Process) -> bool:
        world.kill(process)
        predecessor = Predecessor.GONE if self.known else Predecessor.UNKNOWN
        world.later(self.back_ms, self.worker, lambda: world.start(self.worker, predecessor))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(OnWorker):
    """:param reason: whether it says why it leaves"""

    reason: LeaveReason | None

    def befall(self, world: World, process: Process) -> bool:
        if process.asleep or process.state.phase is Phase.LEAVING:
            return False
        world.note(f"{process.name:8} ---- is asked to leave")
        process.offers.leaving = self.reason
        process.leave()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver(OnWorker):
    """Another process on the same host goes on with its membership, after this one's requests are written: two
    processes that send at the same time are not supported.
    """

    gap_ms: int

    def befall(self, world: World, process: Process) -> bool:
        if not process.can_hand_over:
            return False
        saved, touched = process.save(), process.touched
        gap_ms = max(self.gap_ms, process.unwritten_ms)
        world.kill(process)
        world.later(gap_ms, self.worker, lambda: world.go_on(self.worker, saved, touched=touched))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBack(OnWorker):
    """Airflow starts the process that goes on with its membership late: often after its session."""

    gap_ms: int

    def befall(self, world: World, process: Process) -> bool:
        if not process.can_hand_over:
            return False
        saved, gap_ms = process.save(), max(self.gap_ms, process.unwritten_ms)
        world.hold_back(process)
        world.later(gap_ms, self.worker, lambda: world.go_on(self.worker, saved, touched=True))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace(OnWorker):
    """A second process takes its name, while it still runs.

    :param cut_off: whether the first one is cut off and does not notice
    """

    cut_off: bool

    def befall(self, world: World, process: Process) -> bool:
        process.touched = True
        if self.cut_off:
            process.cut()
        world.start(self.worker, Predecessor.UNKNOWN)
        return True


# ---- troubles


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(OnWorker):
    ms: int

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- stands still for {self.ms} ms")
        process.sleep(self.ms)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff(OnWorker):
    ms: int

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- is cut off for {self.ms} ms")
        process.cut()

        def reconnect() -> None:
            process.cut_off = False

        world.clock.after(self.ms, reconnect)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTask(OnWorker):
    """One of its tasks stops without being told to."""

    def befall(self, world: World, process: Process) -> bool:
        running = sorted(task for task, copy in process.copies.running.items() if not copy.stopping)
        if not running or process.asleep:
            return False
        world.note(f"{process.name:8} ---- drops {running[0]}")
        process.drop(running[0])
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAssignor(OnWorker):
    """Its assignor fails from now on, or works again."""

    def befall(self, world: World, process: Process) -> bool:
        process.offers.failing = not process.offers.failing
        world.note(f"{process.name:8} ---- its assignor fails: {process.offers.failing}")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWeather(Action):
    weather: Weather

    def apply(self, world: World) -> bool:
        world.all_well = False
        world.weather = self.weather
        world.note(f"network  ---- {self.weather}")
        return True


# ---- jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SetJob(Action):
    job: str
    tasks: int

    def apply(self, world: World) -> bool:
        changes = world.jobs.set_job(self.job, self.tasks)
        if changes:
            world.jobs_changed()
        return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob(Action):
    job: str

    def apply(self, world: World) -> bool:
        changes = world.jobs.remove_job(self.job)
        if changes:
            world.jobs_changed()
        return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Action):
    task: TaskId

    def apply(self, world: World) -> bool:
        for process in world.members:
            if process.copies.may_write(self.task) and not process.asleep and not self.task.is_planner:
                changes = world.jobs.finish(self.task)
                process.finish(self.task)
                if changes:
                    world.jobs_changed()
                return True
        return False
