"""Actions on a group that learns tasks before they move, and on workers that are asked to leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from simulation.actions import Action, Loss, OnWorker, lose
from simulation.group import GroupState
from simulation.process import Process
from simulation.world import World

from airflow_provider.group.classic.member.state import Phase
from airflow_provider.state.records import ControlAction
from airflow_provider.values.model import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class AskToLeave(OnWorker):
    """It is asked to drain, or to leave as soon as others have learned its tasks."""

    how: ControlAction

    def befall(self, world: World, process: Process) -> bool:
        if process.state.phase is Phase.LEAVING or process.asked.wish is not None:
            return False
        world.note(f"{process.name:8} ---- is asked to leave: {self.how.value}")
        process.asked.ask(self.how)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWarmUps(OnWorker):
    """All its warm-ups fail."""

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- fails to warm up")
        return not process.asleep and process.tasks.warm_ups.fail()


@dataclass(frozen=True, slots=True, kw_only=True)
class StickWarmUps(OnWorker):
    """Its warm-ups make no progress for a while."""

    ms: int

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- warms up nothing for {self.ms} ms")
        return process.tasks.warm_ups.stick(self.ms)


class Step(str, Enum):
    """The steps of a task on its way from its owner to its learner."""

    WARMING = "warming"
    """The learner makes it ready."""
    READY = "ready"
    """It is ready, and nobody else knows."""
    SAID = "said"
    """The learner wants to join; the owner runs the task."""
    STOPPING = "stopping"
    """The owner stops it."""
    STOPPED = "stopped"
    """The owner has stopped it, and others have not joined."""
    MOVING = "moving"
    """All have joined, and the leader moves it."""

    def has_come(self, task: TaskId, owner: Process, learner: Process) -> bool:
        progress, ready = (
            learner.tasks.learning.get(task, 0.0),
            task in learner.state.lessons.ready(learner.settings.ready_from),
        )
        runs = task in owner.state.owned and task not in owner.state.stopping
        completing = owner.world.coordinator.state is GroupState.COMPLETING
        match self:
            case Step.WARMING:
                return 0 < progress < 1
            case Step.READY:
                return progress == 1.0 and not ready
            case Step.SAID:
                return ready and runs
            case Step.STOPPING:
                return task in owner.state.stopping
            case Step.STOPPED:
                return task not in owner.state.owned and not completing
            case Step.MOVING:
                return task not in owner.state.owned and completing


class Role(str, Enum):
    """Which worker is lost."""

    OWNER = "owner"
    LEARNER = "learner"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseInStep(Action):
    """The owner or the learner of a task is lost the next time that a task reaches this step."""

    role: Role
    step: Step
    loss: Loss
    within_ms: int = 30_000
    away_ms: int = 25_000

    def apply(self, world: World) -> bool:
        until = world.clock.now + self.within_ms

        def strikes() -> bool:
            if world.at_peace or world.clock.now > until:
                return True
            for task, owner, learner in _lessons(world):
                if self.step.has_come(task, owner, learner):
                    process = owner if self.role is Role.OWNER else learner
                    world.leaders_lost[f"{self.role.value} {self.step.value}"] += 1
                    world.note(f"{process.name:8} ---- is {self.role.value} of {task}, {self.step.value}, and is lost")
                    lose(world, process, self.loss, self.away_ms)
                    return True
            return False

        world.watch(strikes)
        return True


def _lessons(world: World) -> Iterator[tuple[TaskId, Process, Process]]:
    """The learned tasks, with owner and learner."""
    live = world.live.values()
    owners = {task: process for process in live for task in process.state.lessons.learned}
    for process in live:
        for task in sorted(process.state.lessons.learning & owners.keys()):
            yield task, owners[task], process
